"""The sandbox in use: started at the host's word, its calls and init's events served, replaced when it dies."""

from __future__ import annotations

import contextlib
import os
import select
import time

from sentinel_kernel.errors import BootError, ProtocolError, SentinelError
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.current import (
    Phase,
    cause_of,
    death,
    drop_worker,
    give_channels,
    interrupt,
    kill_cause,
    limit_processors,
    make_sandbox,
    read_error_output,
    ready_fields,
    release,
    start_failure,
    unwatch,
    watch,
    watch_dump,
)
from sentinel_kernel.supervisor.identities import Identities
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.preparation import parse_start
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.sandbox import DIED
from sentinel_kernel.supervisor.saving import save_files, tell_of_saved_files
from sentinel_kernel.supervisor.spare import Spare
from sentinel_kernel.supervisor.switching import change_profile

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
    """A kernel's supervision: one sandbox in use, and perhaps a spare."""

    def __init__(self, host: HostLink, poll: select.poll, package_directory: str) -> None:
        """Speak to ``host``, watch through ``poll``; ``package_directory`` is the folder of sentinel_kernel."""
        self._host = host
        self._poll = poll
        self._package_directory = package_directory
        self._identities = Identities()
        self._ledger = Ledger(self._send_violation)
        self.spare = Spare(poll, self._identities, package_directory)
        self._phase = Phase.NONE
        self._deadline: float | None = None
        self._current: Current | None = None
        self._request: StartRequest | None = None
        self._start_id: object = None
        self._generation = 0
        self._killed_starts = 0
        self.ending = False
        """The host has said that it ends: nobody is left to tell what is saved now."""

    @property
    def kernel(self) -> str:
        """What stays the same when the server restarts the kernel; empty before the first start."""
        return self._request.kernel if self._request is not None else ""

    def meet(self, host: HostLink) -> None:
        """Speak to the kernel's next host from here on; it starts its sandbox itself."""
        self._host = host
        self._request = None
        self.ending = False

    def close(self) -> None:
        """Leave nothing behind."""
        self.end()
        self.spare.drop()

    def serve(self, ready: dict[int, int]) -> bool:
        """Serve what sandboxes have to say; False where the one in use is another one, or none, afterwards."""
        self.spare.serve(ready)
        return self._current is None or self._serve_sandbox(self._current, ready)

    def catch_up(self) -> None:
        """Do what is due by the clock."""
        if self._ledger.next_flush_seconds() == 0.0:
            self._ledger.flush()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._overdue()

    def waits(self) -> list[float]:
        """Return in how many seconds something is due; called before each wait."""
        flush = self._ledger.next_flush_seconds()
        dues = [
            self.spare.due_seconds(),
            None if flush is None else max(flush, 0.01),
            None if self._deadline is None else max(0.0, self._deadline - time.monotonic()),
        ]
        if self._current is not None:
            watch_dump(self._current, self._poll)
            if self._current.held_line is not None:
                dues.append(self._current.held_line.due_seconds())
        return [due for due in dues if due is not None]

    def _serve_sandbox(self, current: Current, ready: dict[int, int]) -> bool:
        """Serve what the sandbox has to say; False where it is another one, or none, afterwards."""
        listener = current.sandbox.listener.descriptor
        if current.held_line is not None and current.held_line.descriptor in ready:
            current.held_line.readable()
        self._place_line(current)
        if ready.get(listener, 0) & select.POLLIN and current.handler.serve_waiting():
            self._replace_sandbox(current, kill_cause(current))
            return False
        if listener in ready and not ready[listener] & select.POLLIN:
            unwatch(current, self._poll, listener)  # POLLHUP: nobody is under the filter any more
        if current.sandbox.error_output in ready and not read_error_output(current):
            unwatch(current, self._poll, current.sandbox.error_output)
        if current.sandbox.control.fileno() in ready and not self._serve_init(current):
            return False
        if current.sandbox.pidfd in ready:
            self._sandbox_died(current)
            return False
        return True

    def _place_line(self, current: Current, *, now: bool = False) -> None:
        found = current.held_line.take(now=now) if current.held_line is not None else None
        if found is not None:
            self._ledger.place(*found)

    def end_cell(self, identifier: object) -> None:
        """Send the final counts of a cell's violations, then answer."""
        if self._current is not None:
            self._place_line(self._current, now=True)
        self._ledger.flush()
        self._host.reply(identifier, ok=True)

    def interrupt(self, identifier: object) -> None:
        """Interrupt what runs in the worker."""
        current = self._current if self._phase is Phase.RUNNING else None
        self._host.reply(identifier, ok=current is not None and interrupt(current))

    def change_profile(self, identifier: object, name: str) -> None:
        """Change the running sandbox to another profile; answered with whether that can be done in place."""
        told: dict[str, Any] = {"live": False, "obstacles": []}
        if self._current is not None and self._request is not None and self._phase is Phase.RUNNING:
            self._request, told = change_profile(self._current, self._request, name)
        self._host.reply(identifier, ok=True, fields=told)

    def make_spare(self) -> None:
        """Make a spare, if there is memory for it; in the place of a sandbox that has just ended, there is."""
        if self._request is not None and self._phase in (Phase.RUNNING, Phase.NONE):
            self.spare.make(self._request, scarce=self._phase is Phase.RUNNING)

    def begin_cell(self, identifier: object) -> None:
        """Refresh the workspace and forget the last cell's violations, then answer."""
        self.spare.used()
        self._ledger.begin_cell()
        fault: dict[str, Any] = {}
        try:
            if self._current is not None:
                self._current.sandbox.refresh_workspace()
        except OSError as error:
            fault = {"message": f"refresh_workspace: {error}"}
        self._host.reply(identifier, ok=not fault, fields=fault)

    def start(self, message: dict[str, Any], identifier: object) -> None:
        """Replace the sandbox, if any, by one that ``message`` asks for; answered once it is up or has failed."""
        orphan = message.pop("descriptor", -1)
        if orphan >= 0:
            # The layer of a sandbox whose supervisor was killed; the host had kept it.
            self._salvage(orphan, str(message.get("workspace", "")))
            os.close(orphan)
        self.end()
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
        taken = self.spare.take(request, self._ledger)
        if taken is not None:
            self._adopt(*taken)
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
            self._fail_start(BootError("prepare", error.errno or 0, f"Preparing it failed: {error}."))
            return
        watch(current, self._poll)
        self._begin(current)
        if request.payload:
            self._ready(current)

    def _adopt(self, current: Current, warm: bool) -> None:
        """Make the spare the sandbox in use."""
        if current.channels is not None:
            self._announce(current.channels)
        self._begin(current)
        if warm:
            self._fork(current)

    def _begin(self, current: Current) -> None:
        self._current = current
        self._ledger.begin_cell()
        self._phase = Phase.WARMING
        self._deadline = time.monotonic() + _START_SECONDS

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
        self._answer_start()

    def _give_up(self, error: SentinelError) -> None:
        self.end()
        self._fail_start(error)

    def _fail_start(self, error: SentinelError) -> None:
        self._phase = Phase.NONE
        self._deadline = None
        self._host.event(protocol.EVENT_UNAVAILABLE, describe(error))
        self._answer_start({"message": str(error)})

    def _answer_start(self, failure: dict[str, Any] | None = None) -> None:
        if self._start_id is not None:
            self._host.reply(self._start_id, ok=failure is None, fields=failure)
            self._start_id = None

    def end(self) -> None:
        """Kill the sandbox, save what it wrote, and release all that belonged to it."""
        current = self._current
        if current is None:
            return
        self._current = None
        self._phase = Phase.NONE
        self._deadline = None
        with contextlib.suppress(BootError):
            current.sandbox.end()
        if current.sandbox.workspace_upper >= 0:
            self._salvage(current.sandbox.workspace_upper, current.preparation.plan.workspace)
        release(current, self._poll)

    def _salvage(self, upper: int, workspace: str) -> None:
        kernel = self._request.kernel if self._request is not None else ""
        save_files(self._host, upper, workspace, kernel, last=self.ending or self._host.gone)

    def _serve_init(self, current: Current) -> bool:
        """Handle one packet of init; False where the sandbox was ended over it."""
        try:
            event = current.link.receive()
        except ProtocolError as error:
            self._replace_sandbox(current, {"kind": "supervisor_error", "detail": str(error)})
            return False
        if event is None:
            unwatch(current, self._poll, current.sandbox.control.fileno())
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
        self._tell_death(cause_of(status), replaced=True)
        drop_worker(current, self._poll)
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
            self.end()
            self._launch()
            return
        if failure is not None or starting:
            self._give_up(failure or start_failure(current, status))
            return
        if self._request is not None and self._request.payload:
            self._tell_death(cause_of(status), replaced=False)
            self.end()
            return
        self._replace_sandbox(current, cause_of(status))

    def _replace_sandbox(self, current: Current, cause: dict[str, Any]) -> None:
        with contextlib.suppress(BootError):
            current.sandbox.end()
        self._tell_death(cause, replaced=True)
        self.end()
        if not self.ending and not self._host.gone:
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
        self._give_up(start_failure(current, None))

    def _tell_death(self, cause: dict[str, Any], *, replaced: bool) -> None:
        self._ledger.flush()
        self._host.event(protocol.EVENT_WORKER_DIED, death(self._generation, cause, replaced=replaced))

    def _send_violation(self, violation: Violation) -> bool:
        return self._host.violation({"generation": self._generation, "violation": violation.to_json()})
