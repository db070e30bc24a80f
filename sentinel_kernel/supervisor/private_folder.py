"""The folders of a sandbox on the landlock rung: one of its own that goes with it, and one for output that stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile

from sentinel_kernel.errors import BootError
from sentinel_kernel.linux.locks import try_lock_whole, try_share_whole
from sentinel_kernel.record import MutableRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import Identity

OUTPUT = "sentinel-output"
"""The folder in the workspace that cells may write."""

_PREFIX = "sentinel-"
_TMP, _HOME, _LIBRARY = "tmp", "home", "lib"
_INIT = b'"""What the sandbox may see of Sentinel Kernel."""\n'
_MOST_OUTPUTS = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolders(MutableRecord):
    """What was made for one sandbox; :meth:`remove` is the warden's to call, once nothing of the sandbox is left."""

    path: str
    output: str
    """In the workspace; empty where nothing may be written there."""
    owner: tuple[int, int] | None
    """Whose the files in ``output`` become, where the sandbox runs as an id of its own."""
    lock: int = -1
    """Holds ``output`` against its removal by another sandbox's end."""

    @property
    def tmp(self) -> str:
        """TMPDIR inside."""
        return f"{self.path}/{_TMP}"

    @property
    def home(self) -> str:
        """HOME inside."""
        return f"{self.path}/{_HOME}"

    @property
    def library(self) -> str:
        """Where the sandbox finds ``sentinel_kernel.worker``."""
        return f"{self.path}/{_LIBRARY}"

    def remove(self) -> None:
        """Remove the private folder, give what is in ``output`` to its owner, and remove that if nothing is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.lock < 0:
            return
        if self.owner is not None:
            with contextlib.suppress(OSError):
                _give(self.lock, self.owner)
        with contextlib.suppress(OSError):
            if try_lock_whole(self.lock):  # else another sandbox writes there
                os.rmdir(self.output)  # of what is empty
        os.close(self.lock)

    def close(self) -> None:
        """Let go of the descriptor; in the supervisor, where the warden has it."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def make_private_folders(
    identity: Identity, workspace: str, package_directory: str, *, writes: bool
) -> PrivateFolders:
    """Make the folders of a sandbox that runs as ``identity``; without ``writes`` there is none for output.

    Raises:
        BootError: they can't be made.

    """
    base = tempfile.gettempdir()
    try:
        path = tempfile.mkdtemp(prefix=f"{_PREFIX}{identity.host_uid}-{os.getpid()}-", dir=base)
        made = PrivateFolders(path, "", None)
        try:
            for folder in (made.tmp, made.home, made.library, f"{made.library}/sentinel_kernel"):
                os.mkdir(folder, 0o755 if folder.startswith(made.library) else 0o700)
            with open(f"{made.library}/sentinel_kernel/__init__.py", "wb") as file:
                file.write(_INIT)
            os.symlink(os.path.join(package_directory, "worker"), f"{made.library}/sentinel_kernel/worker")
            if os.geteuid() != identity.host_uid:
                for folder in (made.tmp, made.home):
                    os.chown(folder, identity.host_uid, identity.host_gid)
                os.chown(path, -1, identity.host_gid)
                os.chmod(path, 0o710)  # noqa: S103 - the group is the sandbox's own, which comes through it to them
        except OSError:
            made.remove()
            raise
    except OSError as error:
        raise BootError(
            "make_private_folder",
            error.errno or 0,
            f"The sandbox's own folder can't be made below {base}: {error.strerror}.",
            "Free some disk space there, or set TMPDIR to a folder of yours.",
        ) from None
    if writes:
        _make_output(made, identity, workspace)
    return made


def _make_output(made: PrivateFolders, identity: Identity, workspace: str) -> None:
    """Make or take the folder for output; where nothing can be written there is none."""
    own_id = os.geteuid() != identity.host_uid
    for number in range(1, _MOST_OUTPUTS):
        path = os.path.join(workspace, OUTPUT if number == 1 else f"{OUTPUT}-{number}")
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755)
            folder = os.open(path, _FOLDER)
        except OSError:
            return
        # One of root's sandboxes has it alone: each runs as another id.
        try:
            if not (try_lock_whole(folder) if own_id else try_share_whole(folder)):
                os.close(folder)
                continue
            if own_id:
                status = os.fstat(folder)
                above = os.stat(workspace)
                made.owner = (above.st_uid, above.st_gid)
                _give(folder, (identity.host_uid, identity.host_gid))
                os.fchmod(folder, stat.S_IMODE(status.st_mode) | 0o755)
        except OSError:
            os.close(folder)
            continue
        made.output, made.lock = path, folder
        return


def _give(folder: int, owner: tuple[int, int]) -> None:
    """Make ``owner`` the owner of all that lies in a folder, through no link; set-user-ID bits go (chown(2))."""
    os.fchown(folder, *owner)
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        if is_folder:
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _give(below, owner)
            finally:
                os.close(below)
        else:
            os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)


def sweep_private_folders() -> None:
    """Remove what sandboxes left whose supervisor and warden were both killed."""
    base = tempfile.gettempdir()
    for name in os.listdir(base):
        parts = name.removeprefix(_PREFIX).split("-")
        if not name.startswith(_PREFIX) or len(parts) != 3 or not (parts[0] + parts[1]).isdigit():
            continue
        if os.path.exists(f"/proc/{parts[1]}"):
            continue
        path = os.path.join(base, name)
        with contextlib.suppress(OSError):
            if os.lstat(path).st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
