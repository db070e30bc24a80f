"""Whether a folder of the host may be shown to a running sandbox, and how it is named there; pure."""

from __future__ import annotations

from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

PLACE: Final = "/mnt"
"""Where folders appear that are shown while the sandbox runs; writing below it is fenced by the mounts alone."""

MODES: Final = ("ro", "rw")
MOST: Final = 16
"""So many folders are shown so at a time."""

_NAME_CHARACTERS: Final = 60
_NEVER_SHOWN: Final = ("/proc", "/sys", "/dev", "/run")
"""They hold no data, and a layer above them would be one above the machine's own switches."""
_SYSTEM: Final = (
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/root",
    "/sbin",
    "/usr",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/spool",
)
RUN_BY_THE_HOST: Final = frozenset({".envrc", ".git", ".hg", ".husky", ".ipython", ".jupyter", ".vscode"})
"""Names in a folder that programs of the host obey: hooks, settings, start-up files."""


class Surroundings(Record):
    """What the host would run or keep secret; real paths."""

    home: str
    hidden: tuple[str, ...]
    """Paths that are covered wherever they would be seen."""
    run: tuple[str, ...]
    """Folders that the host's interpreters, or its shells, load code from."""


class Objection(Record):
    """Why a folder is not shown: a code for the words (kernel/mount_words.py), and what it is about."""

    code: str
    detail: str = ""


def objection(path: str, mode: str, around: Surroundings) -> Objection | None:
    """Return why the folder ``path`` (absolute, links resolved) may not be shown in ``mode``; None where it may."""
    if path == "/" or any(is_within(path, top) for top in _NEVER_SHOWN):
        return Objection("special", path)
    for secret in around.hidden:
        if is_within(path, secret):
            return Objection("secret", secret)
    if mode == "ro":
        return None
    obeyed = _obeyed(path, around)
    return Objection("host_runs", obeyed) if obeyed else None


def _obeyed(path: str, around: Surroundings) -> str:
    """Return what of the folder, or around it, the host would run or obey; empty where nothing is known."""
    for folder in (*_SYSTEM, *around.run):
        if folder != "/" and (is_within(path, folder) or is_within(folder, path)):
            return folder
    # The home folder as a whole holds .bashrc, .profile, .local/bin and what else a login runs.
    if is_within(around.home, path):
        return around.home
    top = path[len(around.home) + 1 :].partition("/")[0] if is_within(path, around.home) else ""
    return path if top.startswith(".") or RUN_BY_THE_HOST.intersection(path.split("/")) else ""


def name_for(path: str, taken: Iterable[str]) -> str:
    """Return the name below /mnt for the folder ``path``: its own, made safe, with a number where it is taken."""
    last = path.rstrip("/").rpartition("/")[2]
    safe = "".join(one if one.isalnum() or one in "._-" else "_" for one in last).lstrip(".")
    base = safe[:_NAME_CHARACTERS] or "folder"
    names = set(taken)
    if base not in names:
        return base
    number = 2
    while f"{base}-{number}" in names:
        number += 1
    return f"{base}-{number}"


def covered(path: str, hidden: Sequence[str]) -> list[str]:
    """Return which of the ``hidden`` paths lie in the folder ``path``, relative to it, none within another."""
    inner = sorted(
        {one[len(path.rstrip("/")) + 1 :] for one in hidden if one != path and is_within(one, path)}
    )
    return [one for one in inner if not any(one != other and is_within(one, other) for other in inner)]
