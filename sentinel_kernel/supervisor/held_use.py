"""What there is to see of a sandbox's held folders without opening any: how full, how new, what becomes of files."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.current import Current


def usage_of(current: Current | None, history: tuple[int, int]) -> tuple[int, int, int] | None:
    """Return what the layers' file system holds (blocks, inodes) and when the workspace's upper folder changed last.

    Without former versions, which take ``history`` of it. None where nothing is held.
    """
    if current is None or not current.sandbox.held.folders:
        return None
    upper = current.sandbox.held.folders[0].upper
    space = os.fstatvfs(upper)
    blocks, inodes = history
    return (
        space.f_blocks - space.f_bfree - blocks,
        space.f_files - space.f_ffree - inodes,
        os.fstat(upper).st_mtime_ns,
    )


def commit_mode(current: Current | None) -> str:
    """Return what the profile commits by itself."""
    return "none" if current is None else current.preparation.profile.filesystem.commit


def writes_directly(current: Current | None) -> bool:
    """Tell whether cells may change folders of the host themselves, which nobody could take back."""
    return current is not None and bool(
        current.preparation.plan.asked or any(mount.mode == "rw" for mount in current.sandbox.live)
    )
