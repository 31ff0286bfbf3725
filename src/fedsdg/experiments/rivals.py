"""FedSDG-FS against the other methods: the strongest one of every data set, and each of them over all data sets.

Only methods that kept at most as many columns are rivals: with more columns another question is answered. What stands
for FedSDG-FS is its line without any wish; its other lines and the ceiling are no rivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsdg.datasets import registry
from fedsdg.experiments.cell import Row
from fedsdg.experiments.methods import CEILING, label
from fedsdg.experiments.statistics import folds_of, group, is_regression, lead, paired_test, shared_cells
from fedsdg.experiments.tables import cells_text, field_summary, field_text, label_of, markdown, range_text, score_text

NO_RIVALS = ("fedsdg", CEILING)
MOST = 5
"""Of the seven genuine classification sets."""


def runner_up_table(rows: Sequence[Row]) -> str:
    """Return FedSDG-FS against its strongest competitors and the ceiling; nothing where nobody competes."""
    lines = []
    folds = folds_of(rows)
    for name, of in group(rows).items():
        ours = of.get("fedsdg")
        if not ours:
            continue
        baselines = _most_cells(ours, {method: found for method, found in of.items() if _is_rival(method)})
        if not baselines and CEILING not in of:
            continue
        lines.append(
            [
                label_of(name, ours),
                f"{score_text(ours)} / {field_text(ours, 'ratio', '.3f')}{range_text(ours, 'ratio')}",
                *_against(ours, as_few(ours, of), folds),
                *_against(ours, baselines, folds),
                *_against(ours, {CEILING: of[CEILING]} if CEILING in of else {}, folds, named=False),
            ]
        )
    others = ("best with as few", "best other, any number", "centralised")
    header = ["data set", "FedSDG-FS", *(name for other in others for name in (other, "verdict"))]
    return markdown(header, lines) if lines else ""


def standing(rows: Sequence[Row]) -> str:
    """Return on how many genuine classification sets FedSDG-FS leads among methods with as few features, if any."""
    ahead = tied = counted = 0
    folds = folds_of(rows)
    for name, of in group(rows).items():
        ours = of.get("fedsdg")
        if not ours or not genuine(name) or is_regression(ours):
            continue
        rivals = as_few(ours, of)
        if not rivals:
            continue
        counted += 1
        best = rivals[strongest(ours, rivals)]
        test = paired_test(ours, best, folds)
        if lead(ours, best) >= 0:
            ahead += 1
        elif test is not None and test.verdict == "tied":
            tied += 1
    if counted == 0:
        return ""
    return (
        f"Of {counted} genuine classification sets, FedSDG-FS is at or above every method with at most as many "
        f"features on {ahead}, and statistically tied on {tied} of the others."
    )


def one_by_one(rows: Sequence[Row]) -> str:
    """Return how many methods FedSDG-FS meets on most sets, each taken alone, if there are sets enough to say so."""
    met = {
        method: sum(lead >= 0 for lead in one.leads) for method, one in _each(rows).items() if len(one.leads) >= MOST
    }
    if not met:
        return ""
    below = [f"{label(method)} ({count})" for method, count in met.items() if count < MOST]
    found = f"at or above {len(met) - len(below)} of the {len(met)} methods on at least {MOST} sets"
    return f"Taken one by one, it is {found}{', but not ' + ', '.join(below) if below else ''}."


def rivals_table(rows: Sequence[Row]) -> str:
    """Return FedSDG-FS against each method on its own, over the genuine classification sets.

    The best of a dozen methods is another one on every set; this is what somebody meets who decides for one of them.
    """
    lines = []
    for method, one in sorted(_each(rows).items(), key=lambda item: np.mean(item[1].leads)):
        counts = [one.verdicts.count(verdict) for verdict in ("ahead", "tied", "behind")]
        lines.append(
            [
                label(method),
                str(len(one.leads)),
                str(sum(each >= 0 for each in one.leads)),
                " / ".join(map(str, counts)),
                f"{100 * np.mean(one.leads):+.1f}",
                f"{100 * np.median(one.leads):+.1f}",
                f"{100 * min(one.leads):+.1f} to {100 * max(one.leads):+.1f}",
            ]
        )
    if not lines:
        return ""
    header = [
        "method",
        "sets",
        "FedSDG-FS at or above",
        "ahead / tied / behind (5 % level)",
        "mean lead",
        "median",
        "range",
    ]
    return markdown(header, lines)


@dataclass
class _AgainstOne:
    """How FedSDG-FS stands against one method, data set by data set."""

    leads: list[float] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)


def _each(rows: Sequence[Row]) -> dict[str, _AgainstOne]:
    """Return every method that keeps as few columns somewhere, over the genuine classification sets."""
    folds = folds_of(rows)
    found: dict[str, _AgainstOne] = {}
    for name, of in group(rows).items():
        ours = of.get("fedsdg")
        if not ours or not genuine(name) or is_regression(ours):
            continue
        for method, theirs in as_few(ours, of).items():
            test = paired_test(ours, theirs, folds)
            one = found.setdefault(method, _AgainstOne())
            one.leads.append(lead(ours, theirs))
            one.verdicts.append("tied" if test is None else test.verdict)
    return found


def as_few(ours: Sequence[Row], methods: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the methods that kept at most as many columns (on average over the cells of both, to half a column)."""
    found = {}
    for method, theirs in methods.items():
        shared = shared_cells(ours, theirs)
        if not _is_rival(method) or not shared:
            continue
        most = field_summary([left for left, _ in shared], "selected").mean + 0.5
        if field_summary([right for _, right in shared], "selected").mean <= most:
            found[method] = theirs
    return found


def strongest(ours: Sequence[Row], methods: dict[str, list[Row]]) -> str:
    """Return the method that does best against ours."""
    return min(methods, key=lambda method: lead(ours, methods[method]))


def genuine(dataset: str) -> bool:
    """Return whether this is one of the paper's own sets; the user's are none of the registry's."""
    return dataset in registry.ENTRIES and registry.ENTRIES[dataset].genuine


def _most_cells(ours: Sequence[Row], methods: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Return the methods that share the most cells with ours: leads over different cells cannot be ranked."""
    shared = {method: len(shared_cells(ours, theirs)) for method, theirs in methods.items()}
    most = max(shared.values(), default=0)
    return {method: theirs for method, theirs in methods.items() if most and shared[method] == most}


def _against(ours: Sequence[Row], others: dict[str, list[Row]], folds: int, *, named: bool = True) -> tuple[str, str]:
    """Return the strongest of these methods with its score and share (``named``), and how we stand against it."""
    others = {method: theirs for method, theirs in others.items() if shared_cells(ours, theirs)}
    if not others:
        return "-", "-"
    best = strongest(ours, others)
    test = paired_test(ours, others[best], folds)
    text = score_text(others[best])
    if named:
        text = f"{label(best)}: {text} / {field_text(others[best], 'ratio', '.3f')}"
    if len(others[best]) < len(ours):
        text += f" ({cells_text(others[best])})"
    if test is None:
        return text, "-"
    found = f"{100 * test.difference:+.1f} ± {100 * test.half_width:.1f}"
    return text, f"{test.verdict} ({found}, p = {test.p_value:.2f})"


def _is_rival(method: str) -> bool:
    return method.partition("@")[0] not in NO_RIVALS
