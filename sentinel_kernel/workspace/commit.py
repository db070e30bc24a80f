"""Commits changes to the host's folder: each file old or new at every moment, whatever ends the process."""

from __future__ import annotations

from sentinel_kernel.record import MutableRecord, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sentinel_kernel.policy.committable import Surroundings
    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer

QUESTIONS = ("overwrite", "delete", "dangerous", "conflict")


class Outcome(MutableRecord):
    """What came of it; lists hold the first ones, counts are of all."""

    count: int = 0
    bytes: int = 0
    paths: list[str] = fresh(default_factory=list)
    beside: list[str] = fresh(default_factory=list)
    """Where a conflict's file of the cell was put: beside the host's."""
    failed_count: int = 0
    failed: list[tuple[str, str, str]] = fresh(default_factory=list)
    """(path, layer, code of workspace/request.py)."""


def questions(change: Change) -> tuple[str, ...]:
    """Return what of ``QUESTIONS`` a person has to say yes to before this is committed; pure."""
    raise NotImplementedError


def commit(
    layer: Layer,
    chosen: Iterable[Change],
    surroundings: Surroundings,
    answers: frozenset[str],
    *,
    outcome: Outcome,
    told: Callable[[Outcome], None] = lambda _: None,
) -> None:
    """Commit ``chosen`` (in the order of a listing, which it may be), adding to ``outcome``.

    What needs a yes that is not in ``answers`` fails as ``not_committable``. A host's file that is another than when it
    was listed is kept, and so is the cell's (``NAME.sentinel-TIME`` beside it), or it fails as ``changed_meanwhile``
    where ``conflict`` was not answered. ``told`` is called after each batch (some hundred files).

    Afterwards cells see the host's file where nobody had the cell's open (:mod:`..workspace.giving_up`), and the
    memory of its copy is free.
    """
    raise NotImplementedError


def settle(layer: Layer) -> None:
    """Wait until what was committed is on the disk; call it when the person has the answer. Raises OSError."""
    raise NotImplementedError
