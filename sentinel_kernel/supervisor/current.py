"""The sandbox in being with everything that belongs to it: making it, reading its last words, releasing it."""

from __future__ import annotations

import contextlib
import os
import select
from enum import Enum

from sentinel_kernel.errors import BootError
from sentinel_kernel.linux.process import interrupt_group
from sentinel_kernel.record import MutableRecord, as_dict, fresh, replace
from sentinel_kernel.supervisor.by_number import set_processors
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.counted_threads import count_threads
from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.preparation import chosen_processors, compile_filter, prepare
from sentinel_kernel.supervisor.sandbox import start_sandbox
from sentinel_kernel.supervisor.switching import Switching
from sentinel_kernel.supervisor.trees import prepare_trees
from sentinel_kernel.supervisor.worker_link import STACK_SIGNAL, WorkerLink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.backend import Backend, Backends
    from sentinel_kernel.supervisor.channels import Channels
    from sentinel_kernel.supervisor.held_line import HeldLine
    from sentinel_kernel.supervisor.identities import Identities, IdentityLease
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.notifications import NotificationHandler
    from sentinel_kernel.supervisor.preparation import Preparation, StartRequest
    from sentinel_kernel.supervisor.sandbox import Sandbox
    from sentinel_kernel.supervisor.started import Started

_ERROR_OUTPUT_BYTES = 8192
_SHOWN_CHARACTERS = 1500
_HIGHEST_STATUS = 0xFFFF


class Phase(Enum):
    """How far the current sandbox is."""

    NONE = "none"
    WARMING = "warming"
    """Init is importing; nothing hostile has run."""
    FORKING = "forking"
    RUNNING = "running"
    CLEARING = "clearing"
    """The worker died; init is killing what it left behind."""


class Current(MutableRecord):
    """The sandbox in being and everything that goes when it goes."""

    sandbox: Sandbox
    preparation: Preparation
    lease: IdentityLease
    link: WorkerLink
    switching: Switching
    handler: NotificationHandler
    channels: Channels | None
    backend: Backend
    own_limits: frozenset[str] = frozenset()
    """The names of the limits that are the person's own (policy/own_limits.py)."""
    served: bool = False
    """A worker has run in it: from then on what goes wrong inside may be a cell's doing."""
    worker_pid: int = -1
    worker_pidfd: int = -1
    held_line: HeldLine | None = None
    started: Started | None = None
    size_pipe: int = -1
    """Read end of the pipe that the worker writes a stack to where a file would grow beyond RLIMIT_FSIZE."""
    limits_set: set[int] = fresh(default_factory=set)
    """Which rlimits programs inside have asked to set (prlimit(2)): what meets those may be their own doing."""
    filling: dict[str, Place] = fresh(default_factory=dict)
    """Where the worker was when a file system grew, by the name of the size, since the cell began."""
    word_pipe: int = -1
    """Write end of the pipe that the worker's MemoryError takes its text from."""
    unsettled: int = 0
    """How many looks are due for processes that a change of the sizes has missed (supervisor/switching.py)."""
    peak_tasks: int = 0
    """The most processes and threads that the meter has seen since the cell began."""
    held_peaks: dict[str, int] = fresh(default_factory=dict)
    """The most bytes that it has seen in each file system in memory since then, by the name of the size."""
    promised_bytes: int = 0
    """The size of a file in /dev/shm that it has no room for, made since then (supervisor/promised_files.py)."""
    heritage: tuple[Any, ...] = ()
    """What init hands down to its children, as it was before the first worker (supervisor/heritage.py)."""
    error_output: bytearray = fresh(default_factory=bytearray)
    watched: set[int] = fresh(default_factory=set)

    @property
    def rung(self) -> str:
        """The rung of the isolation ladder that it is on."""
        return self.preparation.plan.rung


def make_sandbox(
    request: StartRequest,
    identities: Identities,
    backends: Backends,
    ledger: Ledger,
    package_directory: str,
    announce: Callable[[Channels], None],
) -> Current:
    """Prepare and boot the sandbox of ``request``; ``announce`` gives the host its channels before the boot.

    Raises:
        SentinelError: it can't be made; everything was undone.
        OSError: as above, by an error that has no words of its own.

    """
    with contextlib.ExitStack() as undo, contextlib.ExitStack() as meanwhile:
        lease = identities.lease()
        undo.callback(lease.close)
        directory = RunDirectory()
        meanwhile.callback(directory.close)
        channels = directory.make_channels()
        undo.callback(channels.close)
        preparation = prepare(request, lease.identity, package_directory, directory.path)
        announce(channels)
        plan = preparation.plan
        backend = backends.make(request.limits_backend, (plan.workspace, plan.argv[0]))
        undo.callback(backend.close)
        backend.set(plan.sizes, processors=False)
        preparation = count_threads(preparation, request, backend)
        policies: list[CompiledPolicy] = []

        def make_filter(made: Preparation) -> bytes:
            policy, program = compile_filter(made, cached=request.cached)
            policies.append(policy)
            return program

        sandbox: Sandbox
        try:
            trees = prepare_trees(plan)
            sandbox = start_sandbox(
                preparation.plan, lambda: make_filter(preparation), trees, backend, request.fault
            )
        except BootError as error:
            from sentinel_kernel.supervisor.rung_choice import start_lesser  # noqa: PLC0415 - seldom needed

            policies.clear()
            preparation, sandbox = start_lesser(
                preparation, package_directory, error, make_filter, backend, request.fault
            )
        undo.pop_all()
        # What only answering calls needs is imported while the sandbox's interpreter starts.
        from sentinel_kernel.supervisor.notifications import NotificationHandler  # noqa: PLC0415

        handler = NotificationHandler(sandbox.listener, policies[0], ledger, sandbox.pid)
        handler.rung = sandbox.calls
        return Current(
            sandbox,
            preparation,
            lease,
            WorkerLink(sandbox.control),
            Switching(policies[0], preparation.reachable, preparation.refused),
            handler,
            channels,
            backend,
            own_limits=frozenset(name for name, _ in request.limits),
        )


def ready_fields(current: Current, generation: int) -> dict[str, Any]:
    """Return what the host is told of a sandbox whose worker is there."""
    plan = current.preparation.plan
    return {
        "generation": generation,
        "worker_pid": current.worker_pid,
        "profile": current.preparation.profile.name,
        "rung": current.rung,
        "rung_words": plan.lists.words() if plan.lists is not None else {},
        "backend": current.backend.name,
        "backend_detail": current.backend.detail,
        "boot_seconds": current.sandbox.boot_seconds,
        "sizes": as_dict(plan.sizes),
        "ceiling": as_dict(current.preparation.ceiling),
        "holds_io": current.backend.holds_io,
        "mounts": [mount.to_json() for mount in current.sandbox.live],
        "writable": list(plan.asked),
        "fenced": plan.fenced,
        "notices": list(plan.notices),
    }


def limit_processors(current: Current) -> None:
    """Keep the worker, and all that it starts, on the profile's share of the processors.

    Not before: init's imports are ours, and half of a kernel's start.
    """
    plan = current.preparation.plan
    try:
        current.backend.set(plan.sizes)
    except OSError as error:
        current.backend.detail += f"; the share of processors could not be set: {error.strerror}"
    if not plan.cpus:
        return
    pid = current.worker_pid if current.worker_pid > 0 else current.sandbox.pid
    try:
        set_processors(pid, current.sandbox.pid, plan.cpus)
    except ProcessLookupError:
        return
    except OSError:
        # Ours have become other ones since the plan was made.
        present = sorted(os.sched_getaffinity(0))
        cpus = tuple(chosen_processors(plan.sizes.cpu_count, present))
        current.preparation = replace(current.preparation, plan=replace(plan, cpus=cpus))
        with contextlib.suppress(OSError):
            set_processors(pid, current.sandbox.pid, cpus or present)


def watch(current: Current, poll: select.poll) -> None:
    """Watch what a sandbox has to say from its start on."""
    for descriptor in current.sandbox.descriptors():
        poll.register(descriptor, select.POLLIN)
        current.watched.add(descriptor)


def unwatch(current: Current, poll: select.poll, descriptor: int) -> None:
    """Watch ``descriptor`` no longer; idempotent."""
    if descriptor in current.watched:
        current.watched.discard(descriptor)
        poll.unregister(descriptor)


def unwatch_all(current: Current, poll: select.poll) -> None:
    """Watch nothing of a sandbox any more."""
    for descriptor in list(current.watched):
        unwatch(current, poll, descriptor)


def watch_dump(current: Current, poll: select.poll) -> None:
    """Watch the worker's pipe only while a stack is expected: at other times it may write what it likes."""
    if current.held_line is None:
        return
    descriptor = current.held_line.descriptor
    if current.held_line.expected and descriptor not in current.watched:
        poll.register(descriptor, select.POLLIN)
        current.watched.add(descriptor)
    elif not current.held_line.expected:
        unwatch(current, poll, descriptor)


def begin_places(current: Current, message: dict[str, Any]) -> None:
    """Take note of a cell, so that its lines are known in a stack."""
    current.handler.addressed.clear()
    if current.handler.places is not None:
        current.handler.places.begin_cell()
    if current.held_line is not None:
        current.held_line.begin_cell(message)


def end_places(current: Current, message: dict[str, Any]) -> None:
    """Take what has come of a stack: it is whole before the cell can end."""
    if current.held_line is not None:
        current.held_line.settle(now=True)
        current.held_line.names.end(str(message.get("msg_id")))


def interrupt(current: Current) -> bool:
    """Interrupt the worker's process group: the worker and the children that it started; False if it is dead."""
    return current.worker_pid > 1 and interrupt_group(current.worker_pidfd, current.worker_pid)


def give_channels(current: Current, request: StartRequest) -> None:
    """Ask init for a worker on the channels that were made for it, with a pipe for its stack dumps."""
    if current.channels is None:
        return
    # Imported by now, beside what answers calls.
    from sentinel_kernel.supervisor.held_line import HeldLine  # noqa: PLC0415
    from sentinel_kernel.supervisor.started import Started  # noqa: PLC0415

    current.started = Started()
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    words, current.word_pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    current.size_pipe, sizes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        current.link.fork_worker(
            current.channels.listening,
            writer,
            words,
            current.started.descriptor,
            sizes,
            (*request.argv, *request.argv_once),
            current.preparation.plan.workspace,
            current.preparation.profile.preload,
            request.magics,
        )
    finally:
        os.close(writer)
        os.close(words)
        os.close(sizes)
    current.held_line = HeldLine(reader, STACK_SIGNAL)
    current.channels.close()
    current.channels = None


def watch_calls(current: Current, ledger: Ledger, pid: int) -> None:
    """Have the calls of the worker ``pid``, which has run no cell yet, told with their places."""
    current.handler.worker_pid = pid
    if current.held_line is not None and current.started is not None:
        from sentinel_kernel.supervisor.placing import Places  # noqa: PLC0415 - imported by now, as above

        current.handler.places = Places(ledger, current.held_line, current.started, pid)


def drop_worker(current: Current, poll: select.poll) -> None:
    """Let go of what belonged to a worker that died."""
    if current.held_line is not None:
        unwatch(current, poll, current.held_line.descriptor)
        current.held_line.close()
    if current.worker_pidfd >= 0:
        os.close(current.worker_pidfd)
    if current.started is not None:
        current.started.close()
    for pipe in (current.word_pipe, current.size_pipe):
        if pipe >= 0:
            os.close(pipe)
    current.word_pipe = current.size_pipe = -1
    current.limits_set.clear()
    current.held_line = current.started = current.handler.places = None
    current.worker_pidfd = current.worker_pid = current.handler.worker_pid = -1


def release(current: Current, poll: select.poll) -> None:
    """Close every descriptor of a sandbox that was ended, and give its identity back."""
    unwatch_all(current, poll)
    drop_worker(current, poll)
    if current.channels is not None:
        current.channels.close()
    current.sandbox.close()
    current.backend.close()
    current.lease.close()


def read_error_output(current: Current) -> bool:
    """Keep the end of what init wrote to its standard error; False at the end of it."""
    poll = select.poll()
    poll.register(current.sandbox.error_output, select.POLLIN)
    if not poll.poll(0):
        return True
    chunk = os.read(current.sandbox.error_output, 65536)
    current.error_output += chunk
    del current.error_output[:-_ERROR_OUTPUT_BYTES]
    return bool(chunk)


def start_failure(current: Current, status: int | None) -> BootError:
    """Return the error for an interpreter that never became a worker (``status`` None: it is too slow)."""
    output = bytes(current.error_output).decode("utf-8", "replace").strip()
    tail = "".join(
        character for character in output[-_SHOWN_CHARACTERS:] if character.isprintable() or character == "\n"
    )
    how = "did not answer in time" if status is None else f"ended with wait status {status}"
    python = current.preparation.plan.argv[0]
    remedy = f"Check that ipykernel can be imported there: {python} -m pip install ipykernel"
    return BootError("start_worker", 0, f"The worker's interpreter {how}.\n{tail}".strip(), remedy)


def cause_of(status: object) -> dict[str, Any]:
    """Return a wait status (waitpid(2)) as the fields of a death's cause."""
    if not isinstance(status, int) or not 0 <= status <= _HIGHEST_STATUS:
        return {"kind": "exit", "status": 0}  # no wait status: init is as hostile as what runs beside it
    if os.WIFSIGNALED(status):
        return {"kind": "signal", "signal": os.WTERMSIG(status)}
    return {"kind": "exit", "status": os.WEXITSTATUS(status)}


def death(generation: int, cause: dict[str, Any], *, replaced: bool) -> dict[str, Any]:
    """Return what the host is told of the death of the worker number ``generation``."""
    empty = {
        "kind": "exit",
        "signal": None,
        "status": None,
        "violation_id": None,
        "detail": "",
        "place": None,
    }
    return {"generation": generation, "cause": {**empty, **cause}, "replaced": replaced}


def kill_cause(current: Current) -> dict[str, Any]:
    """Return a KILL rule as a death's cause: the call is still held when the sandbox ends, and never takes effect."""
    violation = current.handler.killed_by
    if violation is None:
        return {"kind": "rule_kill"}
    return {
        "kind": "rule_kill",
        "violation_id": violation.id,
        "detail": violation.syscall,
        "place": place_fields(current.handler.killed_at),
    }
