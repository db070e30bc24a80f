"""Which entries of sys.path the host keeps: none in the notebook's folder, save the environment's own."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # nothing is imported before the path is clean
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def trusted_path(path: Sequence[str], workspace: str, prefixes: Iterable[str]) -> list[str]:
    """Return ``path`` (a sys.path) without entries in the workspace, save those of the environment itself.

    A notebook's folder often came from somebody else: a module planted there must not be imported by the
    host. A virtual environment inside the project is the user's own, as the interpreter in it is.
    """
    return [
        entry
        for entry in path
        if entry and (not _inside(entry, workspace) or any(_inside(entry, prefix) for prefix in prefixes))
    ]


def _inside(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path == folder or path.startswith(folder.rstrip("/") + "/")
