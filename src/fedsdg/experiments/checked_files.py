"""JSON files read against a form: what a field may hold is said once, and a wrong one is named with its file and line.

A results folder is copied, edited and cut off by full disks. Whoever reads through here gets what the form promises or
an error that names the file, the line, the field and the reason, and never the value.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fedsdg.errors import FedSDGError, StateFileError

#: What is larger was never measured, and would overflow sums, squares and axes.
LARGEST = 1e30
LONGEST_NAME = 500
RESTORE = "put back a copy of the file, or make the folder again"


def one_line(text: str) -> str:
    """Refuse what could move a cursor, or end a line."""
    if not text.isprintable():
        raise ValueError("should hold printable characters only")
    return text


Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Name = Annotated[str, Field(max_length=LONGEST_NAME), AfterValidator(one_line)]


class Form(BaseModel):
    """What a file must hold to be read; what it holds besides is nobody's business."""

    model_config = ConfigDict(strict=True, extra="ignore")


def read_content(path: Path) -> bytes:
    """Return what a file holds."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise StateFileError(f"Cannot read {path}: {problem.strerror or problem}.") from None


def read_json(path: Path, form: type[Form], what_to_do: str = RESTORE) -> dict[str, Any]:
    """Return the content of a file that fits its form."""
    return checked(read_content(path), form, f"{path} is damaged", what_to_do, StateFileError)


def read_lines(
    path: Path,
    form: type[Form],
    *,
    what: str,
    complete: bool = False,
    kind: type[FedSDGError] = StateFileError,
) -> list[dict[str, Any]]:
    """Return the lines of a file that all fit a form; `complete`: a last line that was cut off is left out.

    Lines are what was written with a line feed: a cell may well hold other characters that end a line somewhere.
    """
    content = read_content(path)
    lines = (whole_lines(content, path, kind) if complete else content).split(b"\n")
    if not lines[-1]:
        del lines[-1]
    return [
        checked(line, form, f"{path}: line {number} is not {what}", "repair or remove it", kind)
        for number, line in enumerate(lines, start=1)
    ]


def whole_lines(content: bytes, path: Path, kind: type[FedSDGError] = StateFileError) -> bytes:
    """Return content without a last line that was cut off; to one that lacks only its end, the end is added.

    Part of an object is no JSON, so a last line that can be read is whole: an editor took its end, and a row of hours
    of work is kept. What is more than one row that was cut off is refused: it would be lost with it.
    """
    end = content.rfind(b"\n") + 1
    if end == len(content):
        return content
    try:
        json.loads(content[end:])
    except (ValueError, RecursionError):
        reason = _more_than_half_a_row(content[end:])
        if not reason:
            return content[:end]
        number = content.count(b"\n") + 1
        raise kind(
            f"{path}: line {number}, the last one, is more than a row that was cut off: {reason}; end every row with "
            "a line feed, or put back a copy of the file"
        ) from None
    return content + b"\n"


def _more_than_half_a_row(end: bytes) -> str:
    """Say why this is not the first part of one JSON object as we write them, or nothing if it is."""
    if b"\r" in end:
        return "it has carriage returns, which end no line here"
    if any(byte < 0x20 for byte in end):
        return "it has NUL or other control characters"
    if not end.startswith(b"{"):
        return "it does not begin like a row"
    with suppress(ValueError, RecursionError):
        json.JSONDecoder().raw_decode(end.decode(errors="replace"))
        return "something follows a whole row"
    return ""


def checked(
    content: bytes, form: type[Form], complaint: str, what_to_do: str, kind: type[FedSDGError]
) -> dict[str, Any]:
    """Return JSON that fits its form, or raise this kind of error."""
    try:
        form.model_validate_json(content)
        return dict(json.loads(content))
    except ValidationError as problem:
        reason = _told(problem)
    except (ValueError, TypeError, RecursionError) as other:
        reason = type(other).__name__
    raise kind(f"{complaint} ({reason}); {what_to_do}") from None


def _told(problem: ValidationError) -> str:
    """Return the first thing that does not fit, without its value."""
    first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(shown(str(part)) for part in first["loc"])
    reason = first["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason


def shown(name: str) -> str:
    """Return a name from a file as it can stand in a message."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return plain if len(plain) <= 40 else plain[:39] + "…"
