"""Free text as word counts: the words that many training rows hold, log-scaled, each row of unit length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return WORD.findall(text.casefold())


def frequent_words(texts: Iterable[tuple[str, int]], most: int, rare_below: int) -> tuple[str, ...]:
    """Return the words that most rows hold; ``texts`` are the distinct texts, each with its number of rows."""
    rows: Counter[str] = Counter()
    for text, count in texts:
        for word in set(words_of(text)):
            rows[word] += count
    frequent = [word for word, count in rows.items() if count >= rare_below]
    return tuple(sorted(frequent, key=lambda word: (-rows[word], word))[:most])


def word_inputs(texts: Sequence[str], words: Sequence[str]) -> NDArray[np.float64]:
    """Return texts x words: log1p of the counts, each text of unit length (zero without any of the words)."""
    place = {word: position for position, word in enumerate(words)}
    counts = np.zeros((len(texts), len(words)))
    for row, text in enumerate(texts):
        for word in words_of(text):
            if word in place:
                counts[row, place[word]] += 1
    shaped = np.log1p(counts)
    length = np.sqrt(np.sum(shaped * shaped, axis=1, keepdims=True))
    return np.asarray(shaped / np.where(length > 0, length, 1.0))
