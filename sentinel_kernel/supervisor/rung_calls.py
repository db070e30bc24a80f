"""Held calls of a sandbox on the landlock rung that Landlock does not see: made in its stead on its own files alone.

What a path is, is copied once; then it is opened by us below a folder of the sandbox's, through no link, and the call
is made on what was opened. What lies elsewhere is refused, whatever the program puts behind the pointer meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct

from sentinel_kernel.linux.acting import acting_as
from sentinel_kernel.linux.files import open_without_links, set_times
from sentinel_kernel.linux.memory import read_memory
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.supervisor.network.socket_calls import signed
from sentinel_kernel.supervisor.network.sockets import close_on_exec
from sentinel_kernel.supervisor.network.taken import close_file, held, take, take_socket
from sentinel_kernel.supervisor.path_lists import close_folders
from sentinel_kernel.supervisor.rung_processes import RungProcesses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.plan import PathLists
    from sentinel_kernel.policy.request import Request

_PATH_BYTES = 4096
_AT_FDCWD = -100
_O_TMPFILE = 0o20000000
_MODE = 0o1777
"""Whoever runs a file would become its owner or group by the other bits."""

_TIMES = struct.Struct("=4q")  # struct timespec[2]
_TWO = struct.Struct("=2q")  # struct utimbuf
_CLOSED = errno.EPERM
_ADDRESS = 1


class RungCalls:
    """Makes the calls of policy/rung.py's ``held_calls`` for one sandbox."""

    def __init__(
        self,
        listener: Listener,
        lists: PathLists,
        folders: dict[str, int],
        machine: Mapping[str, int],
        first: int,
        who: tuple[int, int] | None,
    ) -> None:
        """Serve ``listener`` of the sandbox whose init is ``first``; ``machine`` gives the numbers of calls.

        ``folders`` come from :func:`path_lists.open_folders` and are ours from here on. A sandbox of root's runs as
        ``who``.
        """
        self._listener = listener
        self._who = who
        self._lists = lists
        calls: dict[str, Callable[[Notification, Request], bool]] = {
            "connect": self._connect,
            "listen": self._listen,
            "chmod": lambda held, _: self._chmod(held, _AT_FDCWD, 0, 1),
            "fchmod": self._chmod_open,
            "fchmodat": lambda held, _: self._chmod(held, signed(held.arguments[0]), 1, 2),
            "fchmodat2": lambda held, _: self._chmod(held, signed(held.arguments[0]), 1, 2),
            "utimensat": self._set_times,
            "utime": self._set_seconds,
            "utimes": lambda held, _: self._set_microseconds(held, _AT_FDCWD, 0),
            "futimesat": lambda held, _: self._set_microseconds(held, signed(held.arguments[0]), 1),
            **RungProcesses(listener, first, lists.abi).calls(),
        }
        self._calls = {machine[name]: call for name, call in calls.items() if name in machine}
        self._lister = {machine[name]: name for name in ("open", "openat") if name in machine}
        self._folders = folders

    @property
    def tmp(self) -> int:
        """The sandbox's folder for temporary files, open; ours."""
        return self._folders[self._lists.tmp]

    def takes(self, number: int) -> bool:
        """Tell whether the call is one of these."""
        return number in self._calls

    def answer(self, notification: Notification, request: Request) -> bool:
        """Answer a call that the policy in force allows; False where the Linux kernel is to decide it."""
        try:
            return self._calls[notification.number](notification, request)
        except OSError as error:
            self._listener.refuse(notification.id, error.errno or _CLOSED)
            return True

    def close(self) -> None:
        """Close the folders."""
        close_folders(self._folders)

    # --- paths

    def _path(self, notification: Notification, folder: int, argument: int) -> str:
        """Return the absolute path that an argument names, by its letters alone.

        Raises:
            OSError: there is none.

        """
        text, _, rest = read_memory(
            notification.thread, notification.arguments[argument], _PATH_BYTES
        ).partition(b"\0")
        if not text and not rest:
            raise OSError(errno.EFAULT, "no path")
        if not text:
            raise OSError(errno.ENOENT, "an empty path")
        name = os.fsdecode(text)
        if not name.startswith("/"):
            thread = notification.thread
            place = f"/proc/{thread}/cwd" if folder == _AT_FDCWD else f"/proc/{thread}/fd/{folder}"
            name = f"{self._link(place)}/{name}"
        return "/" + os.path.normpath(name).lstrip("/")

    def _link(self, path: str) -> str:
        """Return where a link of a process of the sandbox's leads."""
        with acting_as(self._who):
            return os.readlink(path)

    def _place_of(self, path: str) -> str:
        """Return the folder of the sandbox's that ``path`` lies in. Raises OSError where it lies in none."""
        for place in self._lists.writable:
            if is_within(path, place):
                return place
        raise OSError(_CLOSED, "not a file of the sandbox's")

    @contextlib.contextmanager
    def _own(self, path: str, *, private: bool = False) -> Iterator[int]:
        """Open a path of the sandbox's own by name alone. Raises OSError where it is none, or leads through a link.

        With ``private`` it lies where nobody else can have made it.
        """
        place = self._place_of(path)
        if private and place == self._lists.output:
            raise OSError(errno.EACCES, "somebody else's, perhaps")
        descriptor = open_without_links(
            self._folders[place], os.path.relpath(path, place), os.O_PATH | os.O_NOFOLLOW
        )
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _own_open(self, notification: Notification, request: Request, number: int) -> Iterator[int]:
        """Yield a duplicate of what the caller has open as ``number``, if that is a file of the sandbox's own."""
        taken = take(notification.thread, request.pid, number)
        try:
            path = os.readlink(f"/proc/self/fd/{taken}")
            status = os.fstat(taken)
            if status.st_nlink == 0 and path.endswith(" (deleted)"):
                self._place_of(path)  # it has no name any more, and is nobody else's
            else:
                with self._own(path) as named:
                    if not os.path.samestat(os.fstat(named), status):
                        raise OSError(_CLOSED, "not a file of the sandbox's")
            yield taken
        finally:
            close_file(taken)

    def _done(self, notification: Notification) -> bool:
        self._listener.answer(notification.id, 0)
        return True

    # --- modes and times

    def _chmod(self, notification: Notification, folder: int, path: int, mode: int) -> bool:
        with self._own(self._path(notification, folder, path)) as own:
            if not self._listener.is_valid(notification.id):
                return True
            if stat.S_ISLNK(os.fstat(own).st_mode):
                raise OSError(errno.EOPNOTSUPP, "a link has no mode")
            os.chmod(f"/proc/self/fd/{own}", notification.arguments[mode] & _MODE)
        return self._done(notification)

    def _chmod_open(self, notification: Notification, request: Request) -> bool:
        with self._own_open(notification, request, signed(notification.arguments[0])) as own:
            if not self._listener.is_valid(notification.id):
                return True
            os.fchmod(own, notification.arguments[1] & _MODE)
        return self._done(notification)

    def _set_times(self, notification: Notification, request: Request) -> bool:
        folder, path, times = signed(notification.arguments[0]), *notification.arguments[1:3]
        layout = self._read(notification, times, _TIMES.size)
        if path == 0:
            with self._own_open(notification, request, folder) as own:
                return self._set(notification, own, layout)
        with self._own(self._path(notification, folder, 1)) as own:
            return self._set(notification, own, layout)

    def _set_seconds(self, notification: Notification, _request: Request) -> bool:
        layout = self._read(notification, notification.arguments[1], _TWO.size)
        if layout is not None:
            accessed, modified = _TWO.unpack(layout)
            layout = _TIMES.pack(accessed, 0, modified, 0)
        with self._own(self._path(notification, _AT_FDCWD, 0)) as own:
            return self._set(notification, own, layout)

    def _set_microseconds(self, notification: Notification, folder: int, path: int) -> bool:
        layout = self._read(notification, notification.arguments[path + 1], _TIMES.size)
        if layout is not None:
            accessed, micro, modified, micros = _TIMES.unpack(layout)
            layout = _TIMES.pack(accessed, micro % 10**6 * 1000, modified, micros % 10**6 * 1000)
        with self._own(self._path(notification, folder, path)) as own:
            return self._set(notification, own, layout)

    @staticmethod
    def _read(notification: Notification, address: int, size: int) -> bytes | None:
        if address == 0:
            return None
        layout = read_memory(notification.thread, address, size)
        if len(layout) < size:
            raise OSError(errno.EFAULT, "no times")
        return layout

    def _set(self, notification: Notification, own: int, layout: bytes | None) -> bool:
        if self._listener.is_valid(notification.id):
            set_times(own, layout)
            self._listener.answer(notification.id, 0)
        return True

    # --- folders in which something is hidden

    def lists(self, number: int) -> bool:
        """Tell whether a call may open a folder to list it."""
        return number in self._lister

    def list_folder(self, notification: Notification) -> bool:
        """Open a folder that Landlock keeps shut, because a rule for it would open what is hidden in it too.

        The names in it are all that it gives: what is opened below it is judged by its own place. False where it is
        none of those, and Landlock is to decide.
        """
        by_name = self._lister[notification.number] == "open"
        folder = _AT_FDCWD if by_name else signed(notification.arguments[0])
        path, flags = (0, 1) if by_name else (1, 2)
        if notification.arguments[flags] & (_O_TMPFILE | os.O_PATH):
            return False
        try:
            named = self._path(notification, folder, path)
        except OSError:
            return False
        if named not in self._lists.split or not self._listener.is_valid(notification.id):
            return False
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folders[named])
        try:
            close = bool(notification.arguments[flags] & os.O_CLOEXEC)
            self._listener.answer_with_file(notification.id, descriptor, close_on_exec=close)
        finally:
            os.close(descriptor)
        return True

    # --- sockets

    def _take(self, notification: Notification, request: Request) -> socket.SocketType:
        taken = take_socket(notification.thread, request.pid, signed(notification.arguments[0]))
        if taken is None:
            raise OSError(errno.ENOTSOCK, "no socket")
        return taken

    def _connect(self, notification: Notification, request: Request) -> bool:
        """Connect to a socket in the sandbox's home or folder for temporary files: only it can have made that."""
        data = request.copied.get(_ADDRESS, b"")
        if int.from_bytes(data[:2], "little") != socket.AF_UNIX:
            raise OSError(errno.EACCES, "no network")
        text = data[2:].partition(b"\0")[0]
        if not text:
            raise OSError(errno.ECONNREFUSED, "an abstract name")  # where nobody of the sandbox's may listen
        name = os.fsdecode(text)
        if not name.startswith("/"):
            name = f"{self._link(f'/proc/{notification.thread}/cwd')}/{name}"
        own = self._take(notification, request)
        with held(own):
            if own.family != socket.AF_UNIX:
                raise OSError(errno.EACCES, "no network")
            if _is_connected(own):
                raise OSError(errno.EISCONN, "connected already")
            number, blocking = signed(notification.arguments[0]), os.get_blocking(own.fileno())
            made = socket.socket(socket.AF_UNIX, own.type | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        # Not the program's own: whether that one waits is the program's to change at any time, and we must not.
        with made, self._own("/" + os.path.normpath(name).lstrip("/"), private=True) as target:
            if not self._listener.is_valid(notification.id):
                return True
            with acting_as(self._who):
                made.connect(f"/proc/self/fd/{target}")
            made.setblocking(blocking)
            close = close_on_exec(notification.thread, number)
            if self._listener.put_file(notification.id, made.fileno(), number, close_on_exec=close):
                self._listener.answer(notification.id, 0)
        return True

    def _listen(self, notification: Notification, request: Request) -> bool:
        """Listen on a socket with a path; one with an abstract name could be taken for a program of the machine's."""
        own = self._take(notification, request)
        with held(own):
            if own.family != socket.AF_UNIX:
                raise OSError(errno.EACCES, "no network")
            name = own.getsockname()
            if isinstance(name, bytes):
                raise OSError(errno.EACCES, "an abstract name")
            if not self._listener.is_valid(notification.id):
                return True
            own.listen(min(signed(notification.arguments[1]), socket.SOMAXCONN))
        return self._done(notification)


def _is_connected(own: socket.SocketType) -> bool:
    try:
        own.getpeername()
    except OSError:
        return False
    return True
