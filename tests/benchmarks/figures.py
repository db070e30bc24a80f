"""Figures and their goals: how one is measured beside others in turn, and held against what is asked of it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAIRS = 15


@dataclass(frozen=True)
class Result:
    """One measured figure; ``holds`` is None where there is no goal (a figure to look at)."""

    id: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    goal: str
    holds: bool | None
    xeus: float | None = None
    """The same of xeus-python, in the same run; where it has none, ``note`` says why."""

    note: str = ""


def judged(
    identifier: str, value: float, unit: str, baseline: float | None, *, ratio_at_most: float | None = None,
    value_at_most: float | None = None, ratio: float | None = None, xeus: float | None = None, note: str = "",
) -> Result:  # fmt: skip
    """Return a result held against its goal."""
    if ratio is None and baseline:
        ratio = value / baseline
    goal, holds = "", None
    if ratio_at_most is not None:
        goal = f"ratio <= {ratio_at_most}"
        holds = None if ratio is None else ratio <= ratio_at_most
    elif value_at_most is not None:
        goal, holds = f"<= {value_at_most} {unit}", value <= value_at_most
    return Result(identifier, value, unit, baseline, ratio, goal, holds, xeus, note)


def paired(
    ours: Callable[[], float], theirs: Callable[[], float], pairs: int = PAIRS
) -> tuple[float, float, float]:
    """Run the two in turn, who goes first alternating; return both medians and the median of the pairs' ratios."""
    found = in_turn({"ours": ours, "theirs": theirs}, pairs)
    return (
        statistics.median(found["ours"]),
        statistics.median(found["theirs"]),
        median_ratio(found["ours"], found["theirs"]),
    )


def in_turn(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run each once a round, every other round in reverse; return what each gave."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in reversed(runs) if number % 2 else runs:
            found[name].append(runs[name]())
    return found


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios of what was measured side by side."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def percentile(values: list[float], share: float) -> float:
    """Return the value that ``share`` of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
