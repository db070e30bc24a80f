"""Finds what a cell's own line of pip is to install, where the line is plain enough to be typed outside."""

from __future__ import annotations

import re
import shlex

from sentinel_kernel.policy.cell_source import CellSource
from sentinel_kernel.policy.packages import is_known, meant_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE = re.compile(r"(?:^|[\s!%;&|(/])pip3?\s+install\s+([^;&|#\n]*)")
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?:\[[A-Za-z0-9_,-]{1,64}\])?(?:[=<>!~]=?[A-Za-z0-9.*,=<>!~]{1,64})?",
    re.ASCII,
)
_KEPT = frozenset(("-U", "--upgrade"))
_MOST_WORDS = 64
"""Each is compared with all known packages."""

_LEFT_OUT = frozenset(("-q", "--quiet", "-v", "--verbose", "--user", "--no-cache-dir"))
_LEFT_OUT_WITH_VALUE = frozenset(("--retries", "--timeout", "--progress-bar"))
"""Options that say nothing of what is installed, or that only make sense inside."""


def typed_install(code: str | None, line: int | None) -> tuple[str, bool] | None:
    """Return (what to type behind ``pip install``, whether all packages are known), None where there is no such line.

    ``line`` is the cell's line (from 1) that it is about; None, or a cell that a shell runs: the first that installs.
    """
    if not code or "install" not in code:
        return None
    cell = CellSource(code)
    lines = code.split("\n")
    for number in sorted(_lines(cell)):
        if line is not None and not cell.shell and number != line:
            continue
        found = _LINE.search(lines[number - 1]) if number <= len(lines) else None
        if found is not None:
            return _arguments(found[1])
    return None


def _lines(cell: CellSource) -> Iterator[int]:
    """Yield the numbers of the lines that are IPython's own, or a shell's."""
    yield from cell.masked
    if cell.shell:
        yield from range(1, cell.text.count("\n") + 2)


def _arguments(text: str) -> tuple[str, bool] | None:
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    if len(words) > _MOST_WORDS:
        return None
    kept: list[str] = []
    names: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in _KEPT:
            kept.append(word)
        elif word in _LEFT_OUT_WITH_VALUE:
            next(waiting, None)
        elif word.startswith("-") and word.partition("=")[0] not in _LEFT_OUT | _LEFT_OUT_WITH_VALUE:
            return None  # it installs something else than what it names
        elif not word.startswith("-"):
            found = _REQUIREMENT.fullmatch(word)
            if found is None or (not is_known(found[1]) and meant_by(found[1].replace("-", "_")) is not None):
                return None
            kept.append(word)
            names.append(found[1])
    return (shlex.join(kept), all(map(is_known, names))) if names else None
