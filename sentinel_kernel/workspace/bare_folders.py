"""Folders that nothing is told of but themselves: files are told of by their paths, which name the folders above."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.workspace.journal_records import Path

MOST_BY_THEMSELVES = 1000
"""Where more are held none of them is committed by itself: they are no results, and take inodes of the host's."""


def bare(folders: Iterable[Path], files: Iterable[Path]) -> list[Path]:
    """Return those of ``folders`` that have none of ``files`` at any depth, in their order; pure."""
    above: set[Path] = set()
    for layer, path in files:
        folder = path.rpartition("/")[0]
        while folder and (layer, folder) not in above:
            above.add((layer, folder))
            folder = folder.rpartition("/")[0]
    return [one for one in folders if one not in above]
