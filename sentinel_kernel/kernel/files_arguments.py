"""What is typed behind `%sentinel_files`, `_commit`, `_discard`, `_undo` and `_export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.policy.spelling import closest
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES, COMMIT, DISCARD = "sentinel_files", "sentinel_commit", "sentinel_discard"
UNDO, EXPORT = "sentinel_undo", "sentinel_export"
MAGICS = (COMMIT, DISCARD, EXPORT, FILES, UNDO)

USAGE = {
    FILES: " [--diff] [--json] [PATH|GLOB ...]",
    COMMIT: " [PATH|GLOB ...]",
    DISCARD: " [PATH|GLOB ... | --all]",
    EXPORT: " PATH",
}
OPTIONS: Mapping[str, tuple[str, ...]] = {FILES: ("--diff", "--json"), DISCARD: ("--all",)}
"""What may be typed besides paths."""

_MOST_PATHS = 100
_PATH_CHARACTERS = 4096


class FilesWanted(Record):
    """What a line asks for; no ``paths`` stand for all."""

    name: str
    paths: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()


class FilesTyped(Exception):
    """A line that can't be understood; ``option`` is the word that is none, ``meant`` what it is near to, or ""."""

    def __init__(self, option: str = "", meant: str = "") -> None:
        super().__init__(option)
        self.option = option
        self.meant = meant


def read_line(name: str, text: str) -> FilesWanted:
    """Return what the line asks for; paths with spaces stand in quotes. Raises FilesTyped."""
    import shlex  # noqa: PLC0415 - not on the start path

    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is not closed
        raise FilesTyped from None
    known = OPTIONS.get(name, ())
    options = frozenset(word for word in words if word in known)
    wrong = next((word for word in words if word.startswith("--") and word not in known), None)
    if wrong is not None:
        raise FilesTyped(wrong, closest(wrong, known))
    paths = tuple(word for word in words if word not in known)
    few, most = {UNDO: (0, 0), EXPORT: (1, 1)}.get(name, (0, _MOST_PATHS))
    fits = all(0 < len(path) <= _PATH_CHARACTERS and "\0" not in path for path in paths)
    if not few <= len(paths) <= most or not fits or ("--all" in options and paths):
        raise FilesTyped
    if options >= {"--diff", "--json"}:
        raise FilesTyped
    return FilesWanted(name, paths, options)
