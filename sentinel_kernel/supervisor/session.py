"""The supervisor's event loop: the host's requests, init's events, held calls, deaths and replacements."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from sentinel_kernel.errors import BootError, ProtocolError, SentinelError
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.current import (
    Phase,
    cause_of,
    drop_worker,
    give_channels,
    interrupt,
    limit_processors,
    make_sandbox,
    read_error_output,
    ready_fields,
    release,
    start_failure,
    watch_dump,
)
from sentinel_kernel.supervisor.identities import Identities
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.preparation import parse_start
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.sandbox import DIED
from sentinel_kernel.supervisor.saving import save_files, tell_of_saved_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.channels import Channels
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.preparation import StartRequest

_START_SECONDS = 60.0
_KILL_SECONDS = 5.0
_KILLED_STARTS = 2


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
        self._current: Current | None = None
        self._request: StartRequest | None = None
        self._start_id: object = None
        self._generation = 0
        self._killed_starts = 0
        self._ending = False
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

    def _turn(self) -> None:
        if self._current is not None:
            watch_dump(self._current, self._poll)
        ready = dict(self._poll.poll(self._timeout_milliseconds()))
        if self._current is not None and not self._serve_sandbox(self._current, ready):
            return
        if self._host.sock.fileno() in ready:
            while not self._stopping and (message := self._host.receive()) is not None:
                self._serve_host(message)
        self._ledger.flush() if self._ledger.next_flush_seconds() == 0.0 else None
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._overdue()

    def _serve_sandbox(self, current: Current, ready: dict[int, int]) -> bool:
        """Serve what the sandbox has to say; False where it is another one, or none, afterwards."""
        listener = current.sandbox.listener.descriptor
        if current.held_line is not None and current.held_line.descriptor in ready:
            current.held_line.readable()
        self._place_line(current)
        if ready.get(listener, 0) & select.POLLIN and current.handler.serve_waiting():
            self._rule_kill(current)
            return False
        if listener in ready and not ready[listener] & select.POLLIN:
            self._unwatch(current, listener)  # POLLHUP: nobody is under the filter any more
        if current.sandbox.error_output in ready and not read_error_output(current):
            self._unwatch(current, current.sandbox.error_output)
        if current.sandbox.control.fileno() in ready and not self._serve_init(current):
            return False
        if current.sandbox.pidfd in ready:
            self._sandbox_died(current)
            return False
        return True

    def _timeout_milliseconds(self) -> float | None:
        waits = []
        flush = self._ledger.next_flush_seconds()
        if flush is not None:
            waits.append(max(flush, 0.01))
        if self._deadline is not None:
            waits.append(max(0.0, self._deadline - time.monotonic()))
        if self._current is not None and self._current.held_line is not None:
            due = self._current.held_line.due_seconds()
            waits += [] if due is None else [due]
        return min(waits) * 1000 + 1 if waits else None

    def _place_line(self, current: Current, *, now: bool = False) -> None:
        found = current.held_line.take(now=now) if current.held_line is not None else None
        if found is not None:
            self._ledger.place(*found)

    def _serve_host(self, message: dict[str, Any]) -> None:
        identifier = message.get("id")
        match message.get("op"):
            case protocol.OP_BEGIN_CELL:
                self._begin_cell(identifier)
            case protocol.OP_END_CELL:
                if self._current is not None:
                    self._place_line(self._current, now=True)
                self._ledger.flush()
                self._host.reply(identifier, ok=True)
            case protocol.OP_INTERRUPT:
                current = self._current if self._phase is Phase.RUNNING else None
                self._host.reply(identifier, ok=current is not None and interrupt(current))
            case protocol.OP_START:
                self._start(message, identifier)
            case protocol.OP_STOP:
                self._ending = True
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
        tell_of_saved_files(self._host, self._request.kernel)
        self._launch()

    def _launch(self) -> None:
        """Make the sandbox of the last request; when it can't be made, say so once everything is undone."""
        request = self._request
        if request is None:
            return
        try:
            current = make_sandbox(
                request, self._identities, self._ledger, self._package_directory, self._announce
            )
        except SentinelError as error:
            if isinstance(error, BootError) and error.step == DIED and self._killed_starts < _KILLED_STARTS:
                self._killed_starts += 1
                self._launch()
            else:
                self._fail_start(error)
            return
        except OSError as error:
            reason = f"Preparing the sandbox failed: {error}."
            self._fail_start(BootError("prepare", error.errno or 0, reason))
            return
        self._current = current
        self._ledger.begin_cell()
        self._phase = Phase.WARMING
        self._deadline = time.monotonic() + _START_SECONDS
        sandbox = current.sandbox
        for descriptor in sandbox.descriptors():
            self._poll.register(descriptor, select.POLLIN)
            current.watched.add(descriptor)
        if request.payload:
            self._ready(current)

    def _announce(self, channels: Channels) -> None:
        """Give the host its ends; this process keeps none of them."""
        self._generation += 1
        descriptors = [sock.fileno() for sock in channels.connected]
        self._host.event(protocol.EVENT_CHANNELS, {"generation": self._generation}, descriptors)
        channels.close_connected()

    def _ready(self, current: Current) -> None:
        self._phase = Phase.RUNNING
        self._deadline = None
        self._killed_starts = 0
        current.served = True
        limit_processors(current)
        upper = current.sandbox.workspace_upper
        descriptors = [upper] if upper >= 0 else []
        self._host.event(protocol.EVENT_READY, ready_fields(current, self._generation), descriptors)
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
        release(current)

    def _salvage(self, upper: int, workspace: str) -> None:
        kernel = self._request.kernel if self._request is not None else ""
        save_files(self._host, upper, workspace, kernel, last=self._ending or self._host.gone)

    def _serve_init(self, current: Current) -> bool:
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

    def _fork(self, current: Current) -> None:
        request = self._request
        if request is None:
            return
        self._request = replace(request, argv_once=())
        give_channels(current, request)
        self._phase = Phase.FORKING
        self._deadline = time.monotonic() + _START_SECONDS

    def _greet(self, current: Current, pid: int) -> None:
        try:
            current.worker_pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # dead already; init's exit event follows
        current.worker_pid = pid
        current.handler.worker_pid = pid
        self._ready(current)

    def _worker_died(self, current: Current, status: int) -> None:
        """Tell the host, then have everything else in the sandbox killed before a new worker is forked."""
        self._ledger.flush()
        self._host.event(protocol.EVENT_WORKER_DIED, {**self._death(cause_of(status)), "replaced": True})
        if current.held_line is not None:
            self._unwatch(current, current.held_line.descriptor)
        drop_worker(current)
        self._phase = Phase.CLEARING
        self._deadline = time.monotonic() + _KILL_SECONDS
        try:
            current.link.kill_all()
        except OSError:
            self._overdue()

    def _fork_again(self, current: Current) -> None:
        self._ledger.begin_cell()
        try:
            with contextlib.closing(RunDirectory()) as directory:
                current.channels = directory.make_channels()
        except (SentinelError, OSError) as error:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": str(error)})
            return
        self._announce(current.channels)
        self._fork(current)

    def _rule_kill(self, current: Current) -> None:
        """Carry out a KILL rule: the call is still held, so it never takes effect."""
        violation = current.handler.killed_by
        current.sandbox.end()
        self._ledger.flush()
        detail = violation.syscall if violation is not None else ""
        identifier = violation.id if violation is not None else None
        self._replace_sandbox(current, {"kind": "rule_kill", "violation_id": identifier, "detail": detail})

    def _sandbox_died(self, current: Current) -> None:
        """Pid 1 is gone and everything with it, without our doing."""
        status = current.sandbox.end()
        read_error_output(current)
        failure = current.sandbox.exec_failure()
        starting = self._phase in (Phase.WARMING, Phase.FORKING)
        killed = os.WIFSIGNALED(status) and self._killed_starts < _KILLED_STARTS
        if starting and failure is None and (killed or current.served):
            # Killed, or crippled by an earlier worker's cell: no fault of the interpreter, and told already.
            self._killed_starts += 1
            self._end_sandbox()
            self._launch()
            return
        if failure is not None or starting:
            error = failure or start_failure(current, status)
            self._end_sandbox()
            self._fail_start(error)
            return
        if self._request is not None and self._request.payload:
            self._ledger.flush()
            self._host.event(protocol.EVENT_WORKER_DIED, {**self._death(cause_of(status)), "replaced": False})
            self._end_sandbox()
            return
        self._replace_sandbox(current, cause_of(status))

    def _replace_sandbox(self, current: Current, cause: dict[str, Any]) -> None:
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
        if phase is Phase.CLEARING or current.served:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": "init did not answer"})
            return
        read_error_output(current)
        error = start_failure(current, None)
        self._end_sandbox()
        self._fail_start(error)

    def _death(self, cause: dict[str, Any]) -> dict[str, Any]:
        empty = {"kind": "exit", "signal": None, "status": None, "violation_id": None, "detail": ""}
        return {"generation": self._generation, "cause": {**empty, **cause}}

    def _send_violation(self, violation: Violation) -> bool:
        return self._host.violation({"generation": self._generation, "violation": violation.to_json()})

    def _unwatch(self, current: Current, descriptor: int) -> None:
        if descriptor in current.watched:
            current.watched.discard(descriptor)
            self._poll.unregister(descriptor)
