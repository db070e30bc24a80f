"""The supervisor's event loop: the host's requests, init's events, held calls, deaths and replacements."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass, field, replace
from enum import Enum

from sentinel_kernel.errors import BootError, ProtocolError, SentinelError
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.identities import Identities
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.notifications import NotificationHandler, Outcome
from sentinel_kernel.supervisor.preparation import parse_start, prepare
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.salvage import artifact_store, salvage
from sentinel_kernel.supervisor.sandbox import start_sandbox
from sentinel_kernel.supervisor.worker_link import WorkerLink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.channels import Channels
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.identities import IdentityLease
    from sentinel_kernel.supervisor.preparation import Preparation, StartRequest
    from sentinel_kernel.supervisor.sandbox import Sandbox

_START_SECONDS = 60.0
_KILL_SECONDS = 5.0
_ERROR_OUTPUT_BYTES = 8192
_NOTIFICATIONS_A_TURN = 64
RUNG = "full"


class Phase(Enum):
    """How far the current sandbox is."""

    NONE = "none"
    WARMING = "warming"
    """Init is importing; nothing hostile has run."""
    FORKING = "forking"
    RUNNING = "running"
    CLEARING = "clearing"
    """The worker died; init is killing what it left behind."""


@dataclass(slots=True)
class _Current:
    """The sandbox in being and everything that goes when it goes."""

    sandbox: Sandbox
    preparation: Preparation
    lease: IdentityLease
    link: WorkerLink
    handler: NotificationHandler
    channels: Channels | None
    worker_pid: int = -1
    worker_pidfd: int = -1
    error_output: bytearray = field(default_factory=bytearray)
    watched: set[int] = field(default_factory=set)


class Session:
    """One host's supervisor: at most one sandbox at a time."""

    def __init__(self, host: HostLink, package_directory: str) -> None:
        """Serve ``host``; ``package_directory`` is the folder of the sentinel_kernel package."""
        self._host = host
        self._package_directory = package_directory
        self._identities = Identities()
        self._ledger = Ledger(self._send_violation)
        self._poll = select.poll()
        self._poll.register(host.sock, select.POLLIN)
        self._wake_reader, self._wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._wake_reader, select.POLLIN)
        self._phase = Phase.NONE
        self._deadline: float | None = None
        self._current: _Current | None = None
        self._request: StartRequest | None = None
        self._start_id: object = None
        self._generation = 0
        self._stopping = False

    def run(self) -> None:
        """Serve until the host stops us, goes away, or SIGTERM comes; then leave nothing behind."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        try:
            while not self._stopping and not self._host.gone:
                self._turn()
        finally:
            self._end_sandbox()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True

    # --- one turn -----------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        ready = dict(self._poll.poll(self._timeout_milliseconds()))
        current = self._current
        if current is not None:
            listener = current.sandbox.listener.descriptor
            if ready.get(listener, 0) & select.POLLIN and not self._serve_notifications(current):
                return
            if listener in ready and not ready[listener] & select.POLLIN:
                self._unwatch(current, listener)  # POLLHUP: nobody is under the filter any more
            if current.sandbox.error_output in ready:
                self._read_error_output(current)
            if current.sandbox.control.fileno() in ready and not self._serve_init(current):
                return
            if current.sandbox.pidfd in ready:
                self._sandbox_died(current)
                return
        if self._host.sock.fileno() in ready:
            while not self._stopping and (message := self._host.receive()) is not None:
                self._serve_host(message)
        self._ledger.flush() if self._ledger.next_flush_seconds() == 0.0 else None
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._overdue()

    def _timeout_milliseconds(self) -> float | None:
        waits = []
        flush = self._ledger.next_flush_seconds()
        if flush is not None:
            waits.append(max(flush, 0.01))
        if self._deadline is not None:
            waits.append(max(0.0, self._deadline - time.monotonic()))
        return min(waits) * 1000 + 1 if waits else None

    def _serve_notifications(self, current: _Current) -> bool:
        """Answer held calls; False where the sandbox was killed over one."""
        poll = select.poll()
        poll.register(current.sandbox.listener.descriptor, select.POLLIN)
        for _ in range(_NOTIFICATIONS_A_TURN):
            if current.handler.serve_one() is Outcome.KILL:
                self._rule_kill(current)
                return False
            if not any(event & select.POLLIN for _, event in poll.poll(0)):
                break
        return True

    # --- the host's requests ------------------------------------------------------------------------------------

    def _serve_host(self, message: dict[str, Any]) -> None:
        identifier = message.get("id")
        match message.get("op"):
            case protocol.OP_BEGIN_CELL:
                self._begin_cell(identifier)
            case protocol.OP_END_CELL:
                self._ledger.flush()
                self._host.reply(identifier, ok=True)
            case protocol.OP_INTERRUPT:
                self._host.reply(identifier, ok=self._interrupt())
            case protocol.OP_START:
                self._start(message, identifier)
            case protocol.OP_STOP:
                self._end_sandbox()
                self._host.reply(identifier, ok=True)
                self._stopping = True
            case other:
                self._host.reply(identifier, ok=False, fields={"message": f"unknown op {other!r}"})

    def _begin_cell(self, identifier: object) -> None:
        self._ledger.begin_cell()
        try:
            if self._current is not None:
                self._current.sandbox.refresh_workspace()
        except OSError as error:
            self._host.reply(identifier, ok=False, fields={"message": f"refresh_workspace: {error}"})
        else:
            self._host.reply(identifier, ok=True)

    def _interrupt(self) -> bool:
        """Send SIGINT to the worker's process group: the worker and the children that it started."""
        current = self._current
        if current is None or current.worker_pid <= 1 or self._phase is not Phase.RUNNING:
            return False
        poll = select.poll()
        poll.register(current.worker_pidfd, select.POLLIN)
        if poll.poll(0):
            return False  # dead: its number may be another's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(current.worker_pid, signal.SIGINT)
        return True

    def _start(self, message: dict[str, Any], identifier: object) -> None:
        orphan = message.pop("descriptor", -1)
        if orphan >= 0:
            # The layer of a sandbox whose supervisor was killed; the host had kept it.
            self._salvage(orphan, str(message.get("workspace", "")))
            os.close(orphan)
        self._end_sandbox()
        self._start_id = identifier
        try:
            self._request = parse_start(message)
        except ProtocolError as error:
            self._fail_start(error)
            return
        self._launch()

    # --- making and ending a sandbox ----------------------------------------------------------------------------

    def _launch(self) -> None:
        """Make the sandbox of the last request; when it can't be made, say so once everything is undone."""
        request = self._request
        if request is None:
            return
        try:
            current = self._make_sandbox(request)
        except SentinelError as error:
            self._fail_start(error)
            return
        except OSError as error:
            self._fail_start(
                BootError("prepare", error.errno or 0, f"Preparing the sandbox failed: {error}.")
            )
            return
        self._current = current
        self._ledger.begin_cell()
        self._phase = Phase.WARMING
        self._deadline = time.monotonic() + _START_SECONDS
        sandbox = current.sandbox
        for descriptor in (
            sandbox.listener.descriptor,
            sandbox.error_output,
            sandbox.control.fileno(),
            sandbox.pidfd,
        ):
            self._poll.register(descriptor, select.POLLIN)
            current.watched.add(descriptor)
        if request.payload:
            self._ready(current)

    def _make_sandbox(self, request: StartRequest) -> _Current:
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as meanwhile:
            lease = self._identities.lease()
            undo.callback(lease.close)
            directory = RunDirectory()
            meanwhile.callback(directory.remove)
            channels = directory.make_channels()
            undo.callback(channels.close)
            preparation = prepare(request, lease.identity, self._package_directory, directory.path)
            self._announce(channels)
            sandbox = start_sandbox(preparation.plan, preparation.filter_program, request.fault)
            undo.pop_all()
            handler = NotificationHandler(sandbox.listener, preparation.policy, self._ledger)
            return _Current(sandbox, preparation, lease, WorkerLink(sandbox.control), handler, channels)

    def _announce(self, channels: Channels) -> None:
        """Give the host its ends; this process keeps none of them."""
        self._generation += 1
        self._host.event(
            protocol.EVENT_CHANNELS,
            {"generation": self._generation},
            [sock.fileno() for sock in channels.connected],
        )
        while channels.connected:
            channels.connected.pop().close()

    def _ready(self, current: _Current) -> None:
        self._phase = Phase.RUNNING
        self._deadline = None
        upper = current.sandbox.workspace_upper
        self._host.event(
            protocol.EVENT_READY,
            {
                "generation": self._generation,
                "worker_pid": current.worker_pid,
                "profile": current.preparation.profile.name,
                "rung": RUNG,
                "boot_seconds": current.sandbox.boot_seconds,
                "notices": list(current.preparation.plan.notices),
            },
            [upper] if upper >= 0 else [],
        )
        if self._start_id is not None:
            self._host.reply(self._start_id, ok=True)
            self._start_id = None

    def _fail_start(self, error: SentinelError) -> None:
        self._phase = Phase.NONE
        self._deadline = None
        fields = describe(error)
        self._host.event(protocol.EVENT_UNAVAILABLE, fields)
        if self._start_id is not None:
            self._host.reply(self._start_id, ok=False, fields={"message": str(error)})
            self._start_id = None

    def _end_sandbox(self) -> None:
        """Kill the sandbox, save what it wrote, and release all that belonged to it."""
        current = self._current
        if current is None:
            return
        self._current = None
        self._phase = Phase.NONE
        self._deadline = None
        for descriptor in list(current.watched):
            self._unwatch(current, descriptor)
        with contextlib.suppress(BootError):
            current.sandbox.end()
        if current.sandbox.workspace_upper >= 0:
            self._salvage(current.sandbox.workspace_upper, current.preparation.plan.workspace)
        if current.worker_pidfd >= 0:
            os.close(current.worker_pidfd)
        if current.channels is not None:
            current.channels.close()
        current.sandbox.close()
        current.lease.close()

    def _salvage(self, upper: int, workspace: str) -> None:
        saved = salvage(upper, workspace, artifact_store())
        if saved.path or saved.skipped:
            self._host.event(
                protocol.EVENT_ARTIFACTS,
                {"path": saved.path, "files": saved.files, "bytes": saved.bytes, "skipped": saved.skipped},
            )

    # --- init and the worker ------------------------------------------------------------------------------------

    def _serve_init(self, current: _Current) -> bool:
        """Handle one packet of init; False where the sandbox was ended over it."""
        try:
            event = current.link.receive()
        except ProtocolError as error:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": str(error)})
            return False
        if event is None:
            self._unwatch(current, current.sandbox.control.fileno())
            return True
        match event.name:
            case "warm" if self._phase is Phase.WARMING:
                self._fork(current)
            case "hello" if self._phase is Phase.FORKING:
                self._greet(current, event.sender_pid)
            case "exit" if event.body.get("worker") and self._phase in (Phase.RUNNING, Phase.FORKING):
                self._worker_died(current, int(event.body.get("status", 0)))
            case "killed_all" if self._phase is Phase.CLEARING:
                self._fork_again(current)
            case _:
                pass  # of a phase that is over
        return True

    def _fork(self, current: _Current) -> None:
        request, channels = self._request, current.channels
        if request is None or channels is None:
            return
        profile = current.preparation.profile
        argv = (*request.argv, *request.argv_once)
        self._request = replace(request, argv_once=())
        current.link.fork_worker(
            channels.listening,
            argv,
            current.preparation.plan.workspace,
            profile.preload,
            request.magics,
        )
        channels.close()
        current.channels = None
        self._phase = Phase.FORKING
        self._deadline = time.monotonic() + _START_SECONDS

    def _greet(self, current: _Current, pid: int) -> None:
        try:
            current.worker_pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # dead already; init's exit event follows
        current.worker_pid = pid
        current.handler.worker_pid = pid
        self._ready(current)

    def _worker_died(self, current: _Current, status: int) -> None:
        """Tell the host, then have everything else in the sandbox killed before a new worker is forked."""
        self._ledger.flush()
        self._host.event(protocol.EVENT_WORKER_DIED, {**self._death(_cause(status)), "replaced": True})
        if current.worker_pidfd >= 0:
            os.close(current.worker_pidfd)
        current.worker_pidfd = current.worker_pid = current.handler.worker_pid = -1
        self._phase = Phase.CLEARING
        self._deadline = time.monotonic() + _KILL_SECONDS
        try:
            current.link.kill_all()
        except OSError:
            self._overdue()

    def _fork_again(self, current: _Current) -> None:
        self._ledger.begin_cell()
        try:
            directory = RunDirectory()
            try:
                current.channels = directory.make_channels()
            finally:
                directory.remove()
        except (SentinelError, OSError) as error:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": str(error)})
            return
        self._announce(current.channels)
        self._fork(current)

    # --- deaths -------------------------------------------------------------------------------------------------

    def _rule_kill(self, current: _Current) -> None:
        """Carry out a KILL rule: the call is still held, so it never takes effect."""
        violation = current.handler.killed_by
        current.sandbox.end()
        self._ledger.flush()
        detail = violation.syscall if violation is not None else ""
        identifier = violation.id if violation is not None else None
        self._replace_sandbox(current, {"kind": "rule_kill", "violation_id": identifier, "detail": detail})

    def _sandbox_died(self, current: _Current) -> None:
        """Pid 1 is gone and everything with it, without our doing."""
        status = current.sandbox.end()
        self._read_error_output(current)
        failure = current.sandbox.exec_failure()
        if failure is not None or self._phase in (Phase.WARMING, Phase.FORKING):
            error = failure or self._start_failure(current, status)
            self._end_sandbox()
            self._fail_start(error)
            return
        if self._request is not None and self._request.payload:
            self._ledger.flush()
            self._host.event(protocol.EVENT_WORKER_DIED, {**self._death(_cause(status)), "replaced": False})
            self._end_sandbox()
            return
        self._replace_sandbox(current, _cause(status))

    def _replace_sandbox(self, current: _Current, cause: dict[str, Any]) -> None:
        with contextlib.suppress(BootError):
            current.sandbox.end()
        self._host.event(protocol.EVENT_WORKER_DIED, {**self._death(cause), "replaced": True})
        self._end_sandbox()
        if not self._stopping and not self._host.gone:
            self._launch()

    def _overdue(self) -> None:
        """Something inside did not answer in time."""
        current, phase = self._current, self._phase
        self._deadline = None
        if current is None:
            return
        if phase is Phase.CLEARING:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": "init did not answer"})
            return
        self._read_error_output(current)
        error = self._start_failure(current, None)
        self._end_sandbox()
        self._fail_start(error)

    def _start_failure(self, current: _Current, status: int | None) -> BootError:
        output = bytes(current.error_output).decode("utf-8", "replace").strip()
        tail = "".join(
            character for character in output[-1500:] if character.isprintable() or character == "\n"
        )
        how = "did not answer in time" if status is None else f"ended with wait status {status}"
        remedy = f"Check that ipykernel can be imported there: {current.preparation.plan.argv[0]} -m pip install ipykernel"
        return BootError("start_worker", 0, f"The worker's interpreter {how}.\n{tail}".strip(), remedy)

    def _death(self, cause: dict[str, Any]) -> dict[str, Any]:
        empty = {"kind": "exit", "signal": None, "status": None, "violation_id": None, "detail": ""}
        return {"generation": self._generation, "cause": {**empty, **cause}}

    # --- small parts --------------------------------------------------------------------------------------------

    def _send_violation(self, violation: Violation) -> bool:
        return self._host.violation({"generation": self._generation, "violation": violation.to_json()})

    def _read_error_output(self, current: _Current) -> None:
        poll = select.poll()
        poll.register(current.sandbox.error_output, select.POLLIN)
        if not poll.poll(0):
            return
        chunk = os.read(current.sandbox.error_output, 65536)
        if not chunk:
            self._unwatch(current, current.sandbox.error_output)
            return
        current.error_output += chunk
        del current.error_output[:-_ERROR_OUTPUT_BYTES]

    def _unwatch(self, current: _Current, descriptor: int) -> None:
        if descriptor in current.watched:
            current.watched.discard(descriptor)
            self._poll.unregister(descriptor)


def _cause(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        return {"kind": "signal", "signal": os.WTERMSIG(status)}
    return {"kind": "exit", "status": os.WEXITSTATUS(status)}
