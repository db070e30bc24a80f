"""Reads what is typed behind `%sentinel_preflight`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.setting_values import PREFLIGHT_MODES
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.wire import Json

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


_MEANINGS = {
    "off": ("off: nothing is looked at", "off：不检查"),
    "advise": (
        "advise: said before it runs where that matters, and the cell runs",
        "advise：必要时事先提示，单元格仍会运行",
    ),
    "refuse": ("refuse: such a cell is not run", "refuse：不运行这样的单元格"),
}


def modes_page(preflight: str, dangerous: str, *, chinese: bool) -> Json:
    """Return the bundle that tells what is done about cells before they run."""
    from sentinel_kernel.kernel.rendering import table_bundle  # noqa: PLC0415 - only for the magic

    language = int(chinese)
    rows = [
        (("lines that will be refused", "会被拒绝的行")[language], _MEANINGS[preflight][language]),
        (("dangerous code", "危险代码")[language], _MEANINGS[dangerous][language]),
    ]
    return table_bundle(("Sentinel: before a cell runs", "Sentinel：单元格运行之前")[language], rows)


def too_little(change: PreflightChange, preflight: str, dangerous: str) -> bool:
    """Tell whether a change would do less than the kernel was started for, where that was to refuse.

    A cell may have been written by whoever the refusal is meant for.
    """
    return (preflight == "refuse" and change.mode not in ("", "refuse")) or (
        dangerous == "refuse" and change.dangerous not in ("", "refuse")
    )
