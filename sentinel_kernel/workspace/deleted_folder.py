"""What goes with a folder of the host's that a cell has deleted: how much, and the worst of it."""

from __future__ import annotations

import os
import stat

from sentinel_kernel.linux.files import open_beneath
from sentinel_kernel.policy.committable import REFUSED, TOO_DEEP, VERSION_CONTROL
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.workspace.layer import MAXIMUM_DEPTH, status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LOOKED_AT = 20_000


class Contents(MutableRecord):
    """What is in it; where that is more than is looked at, the reason is as for the worst."""

    count: int = 0
    bytes: int = 0
    reason: str = ""


def contents_of(above: int, path: str, reason_of: Callable[[str], str]) -> Contents:
    """Return what is in the folder ``path``, of which ``above`` is the parent; ``reason_of`` judges a path."""
    found = Contents()
    try:
        _look(above, path, found, reason_of, 0)
    except OSError:
        found.reason = found.reason or VERSION_CONTROL  # what can't be looked at is asked about
    return found


def _look(above: int, path: str, found: Contents, reason_of: Callable[[str], str], depth: int) -> None:
    folder = open_beneath(above, path.rpartition("/")[2], os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if found.count >= _LOOKED_AT or depth >= MAXIMUM_DEPTH:
                    found.reason = found.reason or VERSION_CONTROL
                    return
                status = status_of(folder, entry.name)
                if status is None:
                    continue
                found.count += 1
                inner = f"{path}/{entry.name}"
                reason = reason_of(inner)
                if reason and reason not in REFUSED | {TOO_DEEP}:
                    found.reason = found.reason or reason
                if stat.S_ISDIR(status.st_mode):
                    _look(folder, inner, found, reason_of, depth + 1)
                else:
                    found.bytes += status.st_size
    finally:
        os.close(folder)
