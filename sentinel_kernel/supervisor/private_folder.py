"""The folders of a sandbox on the landlock rung: one of its own that goes with it, and one for output that stays."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import sys
import tempfile

from sentinel_kernel.errors import BootError
from sentinel_kernel.linux.locks import try_lock_whole, try_share_whole
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor.untrusted_trees import FOLDER, empty_folder, give_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import Identity
    from sentinel_kernel.supervisor.untrusted_trees import Undone

OUTPUT = "sentinel-output"
"""The folder in the workspace that cells may write."""

_PREFIX = "sentinel-"
_TMP, _HOME, _LIBRARY = "tmp", "home", "lib"
_INIT = b'"""What the sandbox may see of Sentinel Kernel."""\n'
_LONGEST_BASE, _SHORT_BASE = 54, "/tmp"
"""Bytes. A socket's name has at most 107 (unix(7)): the worker's own (worker/output.py) has 11 more than TMPDIR inside,
and that at most 41 more than this."""

_MOST_OUTPUTS = 100
_ATTEMPTS = 20
_MOST_SWEPT = 32
_MOST_SEEN = 20_000
_MADE = re.compile(rf"{_PREFIX}\d{{1,10}}-\d{{1,10}}-[a-z0-9_]{{8}}")


class PrivateFolders(MutableRecord):
    """What was made for one sandbox; :meth:`remove` is the warden's to call, once nothing of the sandbox is left."""

    path: str
    output: str = ""
    """In the workspace; empty where nothing may be written there."""
    user: int = -1
    """Who the sandbox is, where it runs as an id of its own."""
    owner: tuple[int, int] = (-1, -1)
    """Whose its files in ``output`` become then."""
    hold: int = -1
    """Holds the private folder against the sweep of another sandbox's start."""
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

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return what whoever removes them needs."""
        return tuple(descriptor for descriptor in (self.hold, self.lock) if descriptor >= 0)

    def remove(self) -> None:
        """Remove the private folder, give what is in ``output`` to its owner, and remove that if nothing is in it.

        This takes as long as the sandbox has made it: it is the warden's, or for what no sandbox has been in.
        """
        with contextlib.suppress(OSError):
            _remove(self.path, self.hold)
        if self.lock >= 0:
            with contextlib.suppress(OSError):
                if self.user >= 0:
                    _tell(self.output, "given back", give_files(self.lock, self.user, self.owner))
            self._leave_output()
        self.close()

    def undo(self) -> None:
        """Remove what was made for a sandbox that has not come to be; nothing where its warden has it."""
        if self.hold < 0:
            return
        with contextlib.suppress(OSError):
            _remove(self.path, self.hold)
        if self.lock >= 0:
            with contextlib.suppress(OSError):
                if self.user >= 0:
                    os.fchown(self.lock, *self.owner)
            self._leave_output()
        self.close()

    def _leave_output(self) -> None:
        with contextlib.suppress(OSError):
            if try_lock_whole(self.lock):  # else another sandbox writes there
                os.rmdir(self.output)  # of what is empty

    def close(self) -> None:
        """Let go of the descriptors; in the supervisor, where the warden has them."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.hold = self.lock = -1


def make_private_folders(
    identity: Identity, workspace: str, package_directory: str, *, writes: bool
) -> PrivateFolders:
    """Make the folders of a sandbox that runs as ``identity``; without ``writes`` there is none for output.

    Raises:
        BootError: they can't be made.

    """
    base = _base()
    try:
        made = _make_held(f"{_PREFIX}{identity.host_uid}-{os.getpid()}-", base)
        try:
            for folder in (made.tmp, made.home, made.library, f"{made.library}/sentinel_kernel"):
                os.mkdir(folder, 0o755 if folder.startswith(made.library) else 0o700)
            with open(f"{made.library}/sentinel_kernel/__init__.py", "wb") as file:
                file.write(_INIT)
            os.symlink(os.path.join(package_directory, "worker"), f"{made.library}/sentinel_kernel/worker")
            if os.geteuid() != identity.host_uid:
                for folder in (made.tmp, made.home):
                    os.chown(folder, identity.host_uid, identity.host_gid)
                os.chown(made.path, -1, identity.host_gid)
                # The group is the sandbox's own, which comes through it to them.
                os.chmod(made.path, 0o710)  # noqa: S103 - as said above
        except OSError:
            made.undo()
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


def _base() -> str:
    """Return where private folders lie: in TMPDIR, but in /tmp where sockets in them would have too long a name."""
    # Landlock's rules, the sweep and the sandbox's own look at paths know none that leads through a link.
    base = os.path.realpath(tempfile.gettempdir())
    return base if len(os.fsencode(base)) <= _LONGEST_BASE else os.path.realpath(_SHORT_BASE)


def _make_held(prefix: str, base: str) -> PrivateFolders:
    """Make a folder and hold it; one that a sweep has taken in between is left to that. Raises OSError."""
    for _ in range(_ATTEMPTS):
        path = tempfile.mkdtemp(prefix=prefix, dir=base)
        hold = -1
        try:
            hold = os.open(path, FOLDER)
            if try_lock_whole(hold) and os.path.samestat(os.fstat(hold), os.lstat(path)):
                return PrivateFolders(path, hold=hold)
        except FileNotFoundError:
            pass  # swept
        except OSError:
            os.rmdir(path)
            if hold >= 0:
                os.close(hold)
            raise
        if hold >= 0:
            os.close(hold)
    raise OSError(errno.EAGAIN, "each one was taken away at once")


def _make_output(made: PrivateFolders, identity: Identity, workspace: str) -> None:
    """Make or take the folder for output; where nothing can be written there is none.

    A sandbox that runs as an id of its own is given the folder alone, and only one that belongs to the workspace's
    owner: what lay in it before can have further names elsewhere.
    """
    own_id = os.geteuid() != identity.host_uid
    for number in range(1, _MOST_OUTPUTS):
        path = os.path.join(workspace, OUTPUT if number == 1 else f"{OUTPUT}-{number}")
        fresh = True
        try:
            try:
                os.mkdir(path, 0o755)
            except FileExistsError:
                fresh = False
            folder = os.open(path, FOLDER)
        except OSError:
            return
        # One of root's sandboxes has it alone: each runs as another id.
        try:
            taken = try_lock_whole(folder) if own_id else try_share_whole(folder)
            if taken and own_id:
                taken = _give_folder(folder, made, identity, workspace, fresh=fresh)
        except OSError:
            taken = False
        if taken:
            made.output, made.lock = path, folder
            return
        os.close(folder)


def _give_folder(
    folder: int, made: PrivateFolders, identity: Identity, workspace: str, *, fresh: bool
) -> bool:
    """Give the folder to a sandbox of root's; False where it is somebody else's. Raises OSError."""
    status, above = os.fstat(folder), os.stat(workspace)
    if status.st_dev != above.st_dev or status.st_uid not in (above.st_uid, os.geteuid() if fresh else -1):
        return False
    made.user, made.owner = identity.host_uid, (above.st_uid, above.st_gid)
    os.fchown(folder, identity.host_uid, identity.host_gid)
    os.fchmod(folder, stat.S_IMODE(status.st_mode) | 0o755)
    return True


def _remove(path: str, folder: int) -> None:
    """Remove a folder that is open and held. Raises OSError where something stays."""
    undone = empty_folder(folder)
    _tell(path, "removed", undone)
    os.rmdir(path)


def _tell(path: str, what: str, undone: Undone) -> None:
    if undone.count:
        sys.stderr.write(f"sentinel-kernel: {undone.count} in {path} could not be {what}: {undone.first}\n")
        sys.stderr.flush()


def sweep_private_folders() -> None:
    """Remove what sandboxes left whose supervisor and warden were both killed; for a forked process.

    Those are told by the lock that nobody holds, never by a process's number: containers may share the folder.
    """
    base = _base()
    with os.scandir(base) as entries:
        names = [entry.name for entry in itertools.islice(entries, _MOST_SEEN) if _MADE.fullmatch(entry.name)]
    for name in names[:_MOST_SWEPT]:
        path = os.path.join(base, name)
        with contextlib.suppress(OSError):
            folder = os.open(path, FOLDER)
            try:
                if os.fstat(folder).st_uid == os.geteuid() and try_lock_whole(folder):
                    _remove(path, folder)
            finally:
                os.close(folder)
