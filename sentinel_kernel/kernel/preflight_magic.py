"""Reads what is typed behind `%sentinel_preflight`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.settings import PREFLIGHT_MODES
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = " [off|advise|refuse] [--dangerous off|advise|refuse]"


class PreflightChange(Record):
    """Modes from this cell on; "" leaves one as it is."""

    mode: str = ""
    dangerous: str = ""


def read_change(words: Sequence[str]) -> PreflightChange | None:
    """Return the change that a line asks for; None where it can't be understood."""
    rest = list(words)
    mode = rest.pop(0) if rest and not rest[0].startswith("-") else ""
    dangerous = ""
    if rest:
        if len(rest) != 2 or rest[0] != "--dangerous":
            return None
        dangerous = rest[1]
    known = (*PREFLIGHT_MODES, "")
    return PreflightChange(mode, dangerous) if mode in known and dangerous in known else None


def too_little(change: PreflightChange, preflight: str, dangerous: str) -> bool:
    """Tell whether a change would do less than the kernel was started for, where that was to refuse.

    A cell may have been written by whoever the refusal is meant for.
    """
    return (preflight == "refuse" and change.mode not in ("", "refuse")) or (
        dangerous == "refuse" and change.dangerous not in ("", "refuse")
    )
