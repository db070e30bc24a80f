"""Refused, limited and dying programs are explained and repaired, and no failure of a program's own is blamed on us."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from corpus import programs
from corpus_run import run_all
from corpus_verdict import failures, figures, table, totals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corpus import Program
    from corpus_verdict import Verdict

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

ALL = programs()
THEIRS = [program for program in ALL if not program.owned]
OWN = [program for program in ALL if program.owned]

EXPLAINED = 1.0
"""How many of the programs must have the right cause, rule and line."""
REPAIRED = 0.95
"""How many of the first remedies must make the program work."""
WITHOUT = 0.15
"""How many programs may have no remedy at all."""


def spread(chosen: Sequence[Program], step: int) -> list[Program]:
    """Return every ``step``-th program, and the first of each cause beside them."""
    first = {program.cause[:1]: program for program in reversed(chosen)}
    return [one for number, one in enumerate(chosen) if number % step == 0 or first[one.cause[:1]] is one]


def check(verdicts: Sequence[Verdict], record_property: Callable[[str, object], None]) -> None:
    """Hand the figures to the report, and hold them to the goals."""
    record_property("figures", f"{table(verdicts)}\n{totals(verdicts)}")
    found, what = figures(verdicts), f"{totals(verdicts)}\n{failures(verdicts)}"
    assert found.wrong == 0, what
    assert min(found.causes, found.rules, found.lines, found.errors) >= EXPLAINED * found.programs, what
    assert found.worked >= REPAIRED * found.tried, what
    assert found.none <= WITHOUT * len(THEIRS), what


def test_the_corpus_is_large_and_mixed() -> None:
    assert len(THEIRS) >= 80
    assert len(OWN) >= 60
    assert {program.where for program in THEIRS} == {"main", "thread", "child", "swallowed", "library"}
    assert sum(bool(program.none) for program in THEIRS) <= WITHOUT * len(THEIRS)


@pytest.mark.soak
def test_refused_programs_are_explained_and_repaired(record_property: Callable[[str, object], None]) -> None:
    check(list(run_all(spread(THEIRS, 6))), record_property)


@pytest.mark.soak
def test_every_refused_program_is_explained_and_repaired(
    record_property: Callable[[str, object], None],
) -> None:
    check(list(run_all(THEIRS)), record_property)


@pytest.mark.soak
def test_failures_of_ones_own_are_left_alone(record_property: Callable[[str, object], None]) -> None:
    verdicts = list(run_all(OWN))
    record_property("figures", totals(verdicts))
    assert failures(verdicts) == ""
