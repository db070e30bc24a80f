"""One sandbox's life, seen from outside: clone, identity maps, boot's hand-over, end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import time

from sentinel_kernel.abi.sched import SANDBOX_NAMESPACES, CloneFlags
from sentinel_kernel.boot.context import BootContext
from sentinel_kernel.boot.sequence import boot
from sentinel_kernel.errors import BootError
from sentinel_kernel.linux import mounts, namespaces
from sentinel_kernel.linux.seccomp import Listener
from sentinel_kernel.policy.plan import SHOWN_FILES, Sizes, inodes_for
from sentinel_kernel.record import MutableRecord, field_names, fresh
from sentinel_kernel.supervisor.held_folders import HeldFolders, held_folders, open_lowers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.policy.plan import BootPlan
    from sentinel_kernel.supervisor.backend import Backend
    from sentinel_kernel.supervisor.live_mounts import LiveMount
    from sentinel_kernel.supervisor.rung_calls import RungCalls

_BOOT_SECONDS = 20.0
_KEEPS = "disk_bytes"
"""The file system of the layers, with the former versions of what they hold."""

_END_SECONDS = 5.0
_REPORT_BYTES = 4096
_HANDED_OVER = 250
"""More descriptors than a child has to hand over."""
_SIZES = frozenset(field_names(Sizes))
PLACE_REMEDY = "Set SENTINEL_LIMITS_BACKEND=fallback, which needs no control group."
DIED = "boot"
"""The step of a set-up whose process ended without naming one: it was killed."""


class Sandbox(MutableRecord):
    """A running sandbox and the descriptors that belong to it; :meth:`end` closes all of them."""

    plan: BootPlan
    pid: int
    """Process id, in the host's numbers, of pid 1 inside."""
    pidfd: int
    listener: Listener
    control: socket.socket
    """SEQPACKET to init (its fd 3)."""
    error_output: int
    """Read end of init's standard error."""
    report: socket.socket
    """Boot's report socket; at end of file the payload was executed."""
    workspace_upper: int
    """The layer that holds what was written in the workspace, or -1."""
    workspace_context: int
    """Reconfigures the workspace's overlay (fspick(2)), or -1."""
    boot_seconds: float
    sized: tuple[tuple[str, int], ...] = ()
    """Contexts of the file systems in memory whose size is the profile's, by the name of that size."""
    kept: tuple[int, int] = (0, 0)
    """Bytes and names that former versions take beside the changed files: their room is on top of the size."""
    shown: Mapping[str, int] = fresh(default_factory=dict)
    """Files that stand for the machine's own inside, by name, open for writing."""
    place: int = -1
    """Its root in a mount that can be written: where the places of later mounts are made."""
    live: list[LiveMount] = fresh(default_factory=list)
    """What was mounted since it started (supervisor/live_mounts.py)."""
    held: HeldFolders = fresh(default_factory=HeldFolders)
    """The folders whose changes are held."""
    sockets: dict[str, socket.socket] = fresh(default_factory=dict)
    """What the plan has bound inside, by name."""
    calls: RungCalls | None = None
    """Makes calls in its stead, on the landlock rung."""
    exit_status: int | None = None

    def end(self) -> int:
        """Kill everything inside through pid 1, wait, and return its wait status; idempotent.

        The upper layer stays readable until :meth:`close`.

        Raises:
            BootError: a process is stuck in an uninterruptible call and did not die within 5 s.

        """
        if self.exit_status is not None:
            return self.exit_status
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(_END_SECONDS * 1000):
            raise BootError(
                "end",
                0,
                f"Process {self.pid} of the sandbox does not die: it is stuck in the Linux kernel (state D).",
                "Look for a hanging network disk; the process goes when that answers.",
            )
        self.exit_status = os.waitpid(self.pid, 0)[1]
        return self.exit_status

    def close(self) -> None:
        """Release every descriptor; the sandbox must have been ended."""
        self.listener.close()
        self.control.close()
        self.report.close()
        self.held.close()
        for name in ("pidfd", "error_output", "workspace_upper", "workspace_context", "place"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)
        for descriptor in (*(descriptor for _, descriptor in self.sized), *self.shown.values()):
            os.close(descriptor)
        self.sized, self.shown = (), {}
        for bound in self.sockets.values():
            bound.close()
        self.sockets = {}
        for mount in self.live:
            mount.close()
        self.live.clear()

    def descriptors(self) -> tuple[int, ...]:
        """Return what a loop has to watch: listener, init's standard error, init's socket, the pidfd of pid 1."""
        return (self.listener.descriptor, self.error_output, self.control.fileno(), self.pidfd)

    def refresh_workspace(self, *, beside: bool = False) -> None:
        """Make what cells write above in memory show what changed on the host since the last call.

        ``beside``: in folders beside the workspace alone, as nothing has in the workspace.

        Folders that are shown live are not in it: what they write to may be a disk (supervisor/refreshing.py).
        """
        if self.workspace_context >= 0 and not beside:
            mounts.reconfigure(self.workspace_context)
        self.held.refresh()

    def take_held(self) -> HeldFolders:
        """Return the held folders, which are the caller's from now on; the sandbox has ended."""
        taken, self.held = self.held, HeldFolders()
        for folder in taken.folders:
            if folder.shared:
                folder.shared, self.workspace_upper, self.workspace_context = False, -1, -1
        return taken

    def resize(self, sizes: Sizes) -> list[str]:
        """Give the file systems in memory these sizes; return the names of those that hold more than that now."""
        full = []
        for name, context in self.sized:
            try:
                _resize(name, context, sizes, self.kept)
            except OSError:
                full.append(name)
        return full

    def keep_room(self, sizes: Sizes, kept: tuple[int, int]) -> None:
        """Have former versions, which take ``kept`` now, take nothing of what cells may write within ``sizes``."""
        if kept == self.kept:
            return
        for name, context in self.sized:
            if name == _KEEPS:
                # Freed room may be taken by a cell already: then it stays until the next time.
                with contextlib.suppress(OSError):
                    _resize(name, context, sizes, kept)
                    self.kept = kept

    def exec_failure(self) -> BootError | None:
        """Return why the payload could not be executed; None where it was (the report socket is at its end)."""
        try:
            packet = self.report.recv(_REPORT_BYTES)
        except ConnectionResetError:
            packet = self.report.recv(_REPORT_BYTES)  # told once where it ended with our word unread
        return _boot_error(packet) if packet else None


def _resize(name: str, context: int, sizes: Sizes, kept: tuple[int, int]) -> None:
    """Give a file system in memory its size, and room for what is kept in it beside. Raises OSError."""
    size_bytes = getattr(sizes, name)
    more_bytes, more_inodes = kept if name == _KEEPS else (0, 0)
    mounts.resize(context, size_bytes + more_bytes, inodes_for(size_bytes) + more_inodes)


def start_sandbox(
    plan: BootPlan,
    make_filter: Callable[[], bytes],
    trees: Mapping[str, int],
    backend: Backend,
    fault: tuple[str, int] | None = None,
) -> Sandbox:
    """Make the sandbox of ``plan``: on return the filter is loaded and the payload is being executed.

    All of it happens under the limits of ``backend``.

    ``make_filter`` is called while the child mounts, which takes about as long. ``trees`` are the detached mounts of
    :func:`~sentinel_kernel.supervisor.trees.prepare_trees`; they are used up.

    Precondition: this process has one thread, and descriptors 0, 1 and 2 are open.

    Raises:
        BootError: a step failed; everything was undone.

    """
    started = time.monotonic()
    with contextlib.ExitStack() as child_ends, contextlib.ExitStack() as own_ends:
        report, child_report = socket_pair_for_child(own_ends, child_ends)
        control, child_control = socket_pair_for_child(own_ends, child_ends)
        liveness, own_liveness = pipe_for_child(child_ends, own_ends)
        error_output, child_error = pipe_for_child(own_ends, child_ends)
        go_child, go = pipe_for_child(child_ends, own_ends)
        for tree in trees.values():
            child_ends.callback(os.close, tree)
        lowers = open_lowers(plan, own_ends)
        try:
            pid, pidfd, placed = clone(SANDBOX_NAMESPACES, backend.group)
        except OSError as error:
            raise BootError(
                "clone", error.errno or 0, f"New namespaces were refused: {error.strerror}."
            ) from None
        if pid == 0:
            # The supervisor's ends must not live on in here: they would hide its death.
            for descriptor in (own_liveness, go, report.fileno(), control.fileno(), error_output):
                os.close(descriptor)
            if os.read(go_child, 1) != b"g":
                os._exit(1)
            boot(
                BootContext(
                    plan=plan,
                    report=child_report,
                    control=child_control.fileno(),
                    error_output=child_error,
                    liveness=liveness,
                    trees=trees,
                    nice=backend.nice,
                ),
                fault,
            )
        own_ends.callback(_reap, pid, pidfd)
        if not placed:
            place(backend, pid)
        identity = plan.identity
        try:
            namespaces.write_identity_maps(
                pid,
                f"{identity.inside_uid} {identity.host_uid} 1",
                f"{identity.inside_gid} {identity.host_gid} 1",
            )
        except OSError as error:
            # A process that was killed, and is not reaped yet, has its files in /proc owned by root: EACCES.
            if error.errno in (errno.ENOENT, errno.ESRCH) or namespaces.is_dying(pidfd):
                raise BootError(DIED, error.errno or 0, "The set-up process was killed at once.") from None
            reason = f"The user's id can't be mapped: {error}."
            raise BootError("map_identity", error.errno or 0, reason) from None
        os.write(go, b"g")
        child_ends.close()
        names, descriptors = exchange(report, make_filter)
        sized = descriptors[len(descriptors) - len(names) :]
        del descriptors[len(descriptors) - len(names) :]
        handed = list(zip(names, sized, strict=True))
        workspace = descriptors[1:3] or [-1, -1]
        own_ends.pop_all()
        os.close(go)
        # own_liveness stays open for this process's whole life on purpose: its end is what the child watches until
        # exec. Afterwards PDEATHSIG does, so it can go.
        sandbox = Sandbox(
            plan=plan,
            pid=pid,
            pidfd=pidfd,
            listener=Listener(descriptors[0]),
            control=control,
            error_output=error_output,
            report=report,
            workspace_upper=workspace[0],
            workspace_context=workspace[1],
            boot_seconds=time.monotonic() - started,
            sized=tuple(named for named in handed if named[0] in _SIZES),
            shown={name: file for name, file in handed if name in SHOWN_FILES},
            place=dict(handed).get("place", -1),
            sockets={
                name.removeprefix("socket:"): socket.socket(fileno=file)
                for name, file in handed
                if name.startswith("socket:")
            },
            held=held_folders(plan, handed, (workspace[0], workspace[1]), lowers),
        )
        let_go(report, own_liveness)
        return sandbox


def clone(flags: CloneFlags, group: int) -> tuple[int, int, bool]:
    """Return pid, pidfd and whether the child began in the control group ``group`` (-1: none is asked for)."""
    if group >= 0:
        # Not known to the Linux kernel, or hidden by a filter around us (ENOSYS): the child is moved there instead.
        with contextlib.suppress(OSError):
            return *namespaces.clone_into(flags, group), True
    return *namespaces.clone(flags), False


def place(backend: Backend, pid: int) -> None:
    """Put the child under the limits of ``backend``. Raises BootError."""
    try:
        backend.place(pid)
    except OSError as error:
        reason = f"The sandbox can't be put into its control group: {error.strerror}."
        raise BootError("place", error.errno or 0, reason, PLACE_REMEDY) from None


def exchange(report: socket.socket, make_filter: Callable[[], bytes]) -> tuple[list[str], list[int]]:
    """Give the child its filter; return the names of the sizes whose contexts come last, and all descriptors."""
    # A child that has failed by now is not there to take it; its report says why.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        report.send(make_filter())
    return _receive_hand_over(report)


def let_go(report: socket.socket, liveness: int) -> None:
    """Have the payload executed. The child no longer needs ``liveness``: it ends with this process by then."""
    # One that was killed meanwhile is seen by its pidfd, as any other that dies.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        report.send(b"go")
    os.close(liveness)


def _receive_hand_over(report: socket.socket) -> tuple[list[str], list[int]]:
    report.settimeout(_BOOT_SECONDS)
    try:
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                report, _REPORT_BYTES, _HANDED_OVER, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            # Told once where the child ended with the filter unread, ahead of its own report.
            packet, descriptors, _, _ = socket.recv_fds(
                report, _REPORT_BYTES, _HANDED_OVER, socket.MSG_CMSG_CLOEXEC
            )
    except TimeoutError:
        raise BootError(
            "hand_over", 110, f"The set-up did not finish within {_BOOT_SECONDS:.0f} s."
        ) from None
    report.settimeout(None)
    word, *names = packet.decode("ascii", "replace").split(" ")
    if word == "listener" and len(descriptors) > len(names):
        return names, list(descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    raise _boot_error(packet)


def _boot_error(packet: bytes) -> BootError:
    if not packet:
        return BootError(DIED, 0, "The set-up process died without a word.")
    report = json.loads(packet)  # from boot: trusted code, before anything hostile runs
    return BootError(report["step"], report["errno"], report["message"])


def _reap(pid: int, pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pidfd)


def socket_pair_for_child(
    own: contextlib.ExitStack, child: contextlib.ExitStack
) -> tuple[socket.socket, socket.socket]:
    """Return two ends: what ``own`` closes, and what ``child`` does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own.callback(ours.close)
    child.callback(theirs.close)
    return ours, theirs


def pipe_for_child(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Return the reading and the writing end, and whom they are closed by."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    reader.callback(os.close, read_end)
    writer.callback(os.close, write_end)
    return read_end, write_end
