"""One change that a cell made to a folder of the host, as it is listed, asked about and committed."""

from __future__ import annotations

from sentinel_kernel.policy import committable
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

NEW: Final = "new"
CHANGED: Final = "changed"
DELETED: Final = "deleted"
MODE: Final = "mode"
SPECIAL: Final = "special"
BESIDE: Final = "beside"
"""Of no change that is held: what a commit put beside the host's file."""


class Change(Record):
    """What differs between the host's folder and what cells see of it at one path."""

    path: str
    """Within the layer; bytes that are no UTF-8 as surrogates (PEP 383)."""
    layer: str
    kind: str
    """``new``, ``changed``, ``deleted``, ``mode`` (its permissions alone), ``special`` (a link, FIFO, socket)."""
    is_folder: bool = False
    size: int = -1
    """Of the cell's file in bytes; -1 where there is none."""
    host_size: int = -1
    """Of the host's file in bytes; -1 where there is none."""
    mtime_ns: int = 0
    """Of the cell's file; 0 where there is none."""
    conflict: bool = False
    """The host's file was changed after the cell wrote its own, or deleted it."""
    committable: str = ""
    """Empty; or why it needs a question of its own, or can't be committed (policy/committable.py)."""
    autocommit: bool = False
    """It may be committed without anybody being asked, where the profile commits new files."""
    waits: str = ""
    """Why a new plain file of no danger is none of those (policy/committable.py); else empty."""
    inside: int = 0
    """Of a host's folder that was deleted: how many files and folders go with it, as far as was counted."""
    executable: bool = False
    binary: bool = False
    """Its beginning holds a zero byte."""
    host_key: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Of the host's file when it was listed: inode, size, mtime and ctime in ns; zeros where there was none."""
    cell_key: tuple[int, int, int, int] = (0, 0, 0, 0)
    """The same of the cell's."""

    def to_json(self) -> dict[str, object]:
        """Return the fields that a list tells of."""
        return {
            "path": self.path,
            "layer": self.layer,
            "kind": self.kind,
            "is_folder": self.is_folder,
            "size": self.size,
            "host_size": self.host_size,
            "mtime_ns": self.mtime_ns,
            "conflict": self.conflict,
            "committable": self.committable,
            "autocommit": self.autocommit,
            "waits": self.waits,
            "binary": self.binary,
        }


def as_own(change: Change, own: Mapping[tuple[str, str], tuple[int, int, int, int]]) -> Change:
    """Return ``change`` as one that needs nobody's word where it is a later version of a file of ``own``; pure.

    ``own`` are the host's files that were committed by themselves: one that somebody has touched since is theirs.
    """
    if change.kind != CHANGED or change.is_folder or change.committable:
        return change
    if own.get((change.layer, change.path)) != change.host_key or not committable.by_itself(change.path):
        return change
    return replace(change, autocommit=True, conflict=False)
