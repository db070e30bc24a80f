"""Renames that replace nothing, or exchange two files (renameat2(2), Linux 3.15), and a file system's write-back."""

from __future__ import annotations

import errno
import os
import stat

from sentinel_kernel.linux.libc import system_call

_NOREPLACE = 1
_EXCHANGE = 2
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})


def rename_to_free_name(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Rename a file to a name that nothing has.

    Where the file system has no such rename (FUSE, NFS), the file gets a second name and loses its first. Where a file
    has one name alone (some servers of sshfs), the name is taken by an empty file, which is then replaced.

    Raises:
        OSError: EEXIST where the name is taken.

    """
    try:
        _renameat2(folder, name, new_folder, new_name, _NOREPLACE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        try:
            os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)
        except OSError as no_link:
            if no_link.errno not in _NO_LINKS or stat.S_ISDIR(
                os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            ):
                raise
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(new_name, flags, 0o600, dir_fd=new_folder))
            try:
                os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
            except OSError:
                os.unlink(new_name, dir_fd=new_folder)  # the empty one
                raise
        else:
            os.unlink(name, dir_fd=folder)


def exchange(folder: int, name: str, other: str) -> bool:
    """Exchange two files of a folder in one step; False where the file system can't.

    Raises:
        OSError: one of them is not there, or it is refused.

    """
    try:
        _renameat2(folder, name, folder, other, _EXCHANGE)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        return False
    return True


def write_back(descriptor: int) -> None:
    """Wait until the file system that ``descriptor`` lies on has everything on its disk (syncfs(2)). Raises OSError."""
    system_call("syncfs", descriptor)


def _renameat2(folder: int, name: str, new_folder: int, new_name: str, flags: int) -> None:
    system_call("renameat2", folder, os.fsencode(name), new_folder, os.fsencode(new_name), flags)
