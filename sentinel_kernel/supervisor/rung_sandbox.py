"""A sandbox on the landlock rung: made without namespaces or mounts, kept together by its warden."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import time

from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.boot.context import BootContext
from sentinel_kernel.boot.sequence import boot
from sentinel_kernel.errors import BootError
from sentinel_kernel.linux.seccomp import Listener
from sentinel_kernel.supervisor.channels import LESSER
from sentinel_kernel.supervisor.meeting_place import base_directory
from sentinel_kernel.supervisor.private_folder import sweep_private_folders
from sentinel_kernel.supervisor.sandbox import (
    DIED,
    Sandbox,
    clone,
    exchange,
    let_go,
    pipe_for_child,
    place,
    socket_pair_for_child,
)
from sentinel_kernel.supervisor.warden import END, guard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.plan import BootPlan
    from sentinel_kernel.supervisor.backend import Backend
    from sentinel_kernel.supervisor.private_folder import PrivateFolders

_END_SECONDS = 5.0
_SWEEP_SECONDS = 60
_WORD_BYTES = 64
_gone: list[int] = []
"""Wardens that have said their last word and remove their folders yet, and the process that sweeps."""


class ListedSandbox(Sandbox):
    """A sandbox whose processes are its warden's descendants."""

    word: socket.socket | None = None
    """To the warden."""
    warden: int = -1

    def end(self) -> int:
        """Have the warden kill everything below it, and return the wait status of init; idempotent.

        Raises:
            BootError: a process is stuck in an uninterruptible call and did not die within 5 s.

        """
        if self.exit_status is not None:
            return self.exit_status
        if self.word is None:
            return 0
        self.exit_status = end_warden(self.word, self.warden)
        return self.exit_status

    def close(self) -> None:
        """Release every descriptor."""
        super().close()
        if self.calls is not None:
            self.calls.close()
        if self.word is not None:
            self.word.close()
        reap_wardens()


def end_warden(word: socket.socket, warden: int) -> int:
    """Have the warden end its sandbox, and return the wait status of its init. Raises BootError as above."""
    with contextlib.suppress(OSError):
        word.send(END)
    word.settimeout(_END_SECONDS)
    try:
        packet = word.recv(_WORD_BYTES)
        while packet.startswith(b"pid"):
            packet = word.recv(_WORD_BYTES)
    except TimeoutError:
        raise BootError(
            "end",
            0,
            f"Processes below {warden} of the sandbox do not die: one is stuck in the Linux kernel (state D).",
            "Look for a hanging network disk; the process goes when that answers.",
        ) from None
    except OSError:
        packet = b""
    _gone.append(warden)
    reap_wardens()
    if packet.startswith(b"exit "):
        return int(packet[5:])
    sweep()  # it was killed, and what was below it may still run
    return 0


def reap_wardens() -> None:
    """Take note of wardens that have ended."""
    for pid in list(_gone):
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
        _gone.remove(pid)


def note_lesser() -> None:
    """Take down that there is a sandbox on this rung: from then on each start looks for what such ones have left.

    Where it is the first, this does.
    """
    if take_note():
        sweep()


def take_note(note: str = "") -> bool:
    """Write the note down that there is such a sandbox; False where it is there."""
    try:
        path = note or os.path.join(base_directory(), LESSER)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def sweep_lesser(base: str) -> None:
    """Look for what sandboxes on this rung have left; where all are gone, the next start does without."""
    reap_wardens()
    sweep(os.path.join(base, LESSER))


def sweep(note: str = "") -> None:
    """Have a process end and remove what killed sandboxes left, and ``note`` if none is there; nobody waits for it."""
    try:
        pid = os.fork()
    except OSError:
        return  # the next start does it
    if pid:
        _gone.append(pid)
        return
    try:
        from sentinel_kernel.supervisor.live_mounts import alone  # noqa: PLC0415 - in the process alone
        from sentinel_kernel.supervisor.strays import any_marked, end_strays  # noqa: PLC0415 - as above

        alone(())
        # Not only until the supervisor ends: a kernel whose warden was killed may be closed at once, and be the last.
        signal.alarm(_SWEEP_SECONDS)
        end_strays()
        sweep_private_folders()
        if note and not any_marked():
            os.unlink(note)
            # One may have started meanwhile: it takes the note again once it is marked, before this or after it.
            if any_marked():
                take_note(note)
    finally:
        os._exit(0)


def start_listed(
    plan: BootPlan,
    make_filter: Callable[[], bytes],
    folders: PrivateFolders,
    backend: Backend,
    fault: tuple[str, int] | None = None,
) -> ListedSandbox:
    """Make the sandbox of ``plan``, as sandbox.start_sandbox does on the full rung.

    Precondition: this process has one thread, and descriptors 0, 1 and 2 are open.

    Raises:
        BootError: a step failed; everything was undone. ``folders`` are still held where no warden has come to be.

    """
    started = time.monotonic()
    reap_wardens()
    own_id = os.getpid()
    with contextlib.ExitStack() as child_ends, contextlib.ExitStack() as own_ends:
        report, child_report = socket_pair_for_child(own_ends, child_ends)
        control, child_control = socket_pair_for_child(own_ends, child_ends)
        word, child_word = socket_pair_for_child(own_ends, child_ends)
        liveness, own_liveness = pipe_for_child(child_ends, own_ends)
        error_output, child_error = pipe_for_child(own_ends, child_ends)
        try:
            warden, warden_pidfd, placed = clone(CloneFlags(0), backend.group)
        except OSError as error:
            raise BootError(
                "clone", error.errno or 0, f"No process could be started: {error.strerror}."
            ) from None
        if warden == 0:
            for descriptor in (own_liveness, report.fileno(), control.fileno(), error_output, word.fileno()):
                os.close(descriptor)

            def start() -> None:
                context = BootContext(
                    plan=plan,
                    report=child_report,
                    control=child_control.fileno(),
                    error_output=child_error,
                    liveness=liveness,
                    nice=backend.nice,
                )
                boot(context, fault)

            mark = plan.lists.mark if plan.lists is not None else 0
            guard(child_word, own_id, start, folders.remove, folders.descriptors, mark)
        os.close(warden_pidfd)
        folders.close()
        undone = own_ends.enter_context(contextlib.ExitStack())
        undone.callback(_end_quietly, word, warden)
        if not placed:
            place(backend, warden)
        child_ends.close()
        pid, pidfd = _first_process(word)
        undone.callback(os.close, pidfd)
        _, descriptors = exchange(report, make_filter)
        try:
            check_seen(pid, pidfd)
        except BootError:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        undone.pop_all()
        own_ends.pop_all()
        sandbox = ListedSandbox(
            plan=plan,
            pid=pid,
            pidfd=pidfd,
            listener=Listener(descriptors[0]),
            control=control,
            error_output=error_output,
            report=report,
            workspace_upper=-1,
            workspace_context=-1,
            boot_seconds=time.monotonic() - started,
            word=word,
            warden=warden,
        )
        let_go(report, own_liveness)
        return sandbox


def check_seen(pid: int, pidfd: int) -> None:
    """Look whether /proc shows a process, whose ``pidfd`` this is.

    Raises:
        BootError: it does not, or the process has ended.

    """
    if os.path.exists(f"/proc/{pid}/statm"):
        return
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    if ended.poll(0):
        raise BootError(DIED, 0, "The set-up process was killed at once.")
    raise BootError(
        "see_processes",
        errno.ENOENT,
        "/proc hides the sandbox's processes from the kernel itself (it is mounted with hidepid), so that no limit "
        "could be kept.",
        "As root: mount -o remount,hidepid=0 /proc (or gid= of a group that you are in); or have user namespaces "
        "allowed, in which /proc is the sandbox's own.",
    )


def _first_process(word: socket.socket) -> tuple[int, int]:
    """Return process id and pidfd of the sandbox's first process."""
    word.settimeout(_END_SECONDS)
    try:
        packet, descriptors, _, _ = socket.recv_fds(word, _WORD_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        packet, descriptors = b"", []
    if not packet.startswith(b"pid ") or len(descriptors) != 1:
        raise BootError(DIED, 0, "The set-up process was killed at once.")
    return int(packet[4:]), descriptors[0]


def _end_quietly(word: socket.socket, warden: int) -> None:
    with contextlib.suppress(BootError):
        end_warden(word, warden)
