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

from sentinel_kernel.policy.cause import CAUSES

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

REPAIRED = 0.95
"""How many of the first remedies must make the program work."""
WITHOUT = 0.15
"""How many programs may have no remedy at all."""
ELSEWHERE = {"folder_rename", "host_refused"}
"""Causes that need a folder or a network of their own: their programs are in the tests of those."""
STEP = 6
"""One in so many programs is run each time, and the first of each cause beside them."""


def spread() -> list[Program]:
    """Return the programs that are run each time: some of each file, and of each cause."""
    first = {program.cause[0]: program for program in reversed(THEIRS)}
    return [one for number, one in enumerate(THEIRS) if number % STEP == 0 or first[one.cause[0]] is one]


def check(verdicts: Sequence[Verdict], record_property: Callable[[str, object], None]) -> None:
    """Hand the figures to the report, and hold them to the goals."""
    record_property("figures", f"{table(verdicts)}\n{totals(verdicts)}")
    what = f"{totals(verdicts)}\n{failures(verdicts)}"
    assert all(one.explained for one in verdicts), what
    tried = [one for one in verdicts if one.tried]
    assert sum(one.remedy == "worked" for one in tried) >= REPAIRED * len(tried), what


def test_the_corpus_is_large_and_mixed() -> None:
    assert len(THEIRS) >= 80
    assert len(OWN) >= 60
    assert {program.where for program in THEIRS} == {"main", "thread", "child", "swallowed", "library"}
    assert {cause for program in THEIRS for cause in program.cause} == set(CAUSES) - ELSEWHERE
    assert sum(bool(program.none) for program in THEIRS) <= WITHOUT * len(THEIRS)


def test_refused_programs_are_explained_and_repaired(record_property: Callable[[str, object], None]) -> None:
    check(list(run_all(spread())), record_property)


@pytest.mark.soak
def test_every_refused_program_is_explained_and_repaired(
    record_property: Callable[[str, object], None],
) -> None:
    verdicts = list(run_all(THEIRS))
    check(verdicts, record_property)
    assert figures(verdicts).none <= WITHOUT * len(THEIRS)
    assert failures(list(run_all(OWN))) == ""


def test_failures_of_ones_own_are_left_alone(record_property: Callable[[str, object], None]) -> None:
    some = [one for number, one in enumerate(OWN) if number % 10 < 7]
    assert len(some) >= 60
    verdicts = list(run_all(some))
    record_property("figures", totals(verdicts))
    assert failures(verdicts) == ""
