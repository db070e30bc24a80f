"""One sandbox after another: launched at the host's word, served, and replaced when it dies."""

from __future__ import annotations

import contextlib
import os
import select
import time

from sentinel_kernel.errors import BootError, ProtocolError, SentinelError
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import last_words, protocol
from sentinel_kernel.supervisor.backend import Backends
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.current import (
    Phase,
    cause_of,
    death,
    drop_worker,
    give_channels,
    kill_cause,
    limit_processors,
    make_sandbox,
    read_error_output,
    ready_fields,
    release,
    start_failure,
    unwatch,
    watch,
    watch_calls,
)
from sentinel_kernel.supervisor.heritage import is_sound
from sentinel_kernel.supervisor.identities import Identities
from sentinel_kernel.supervisor.leftovers import Leftovers, held_fields
from sentinel_kernel.supervisor.preparation import parse_start
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.sandbox import DIED
from sentinel_kernel.supervisor.spare import Spare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.channels import Channels
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.keeper import Keeper
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.preparation import StartRequest

_START_SECONDS = 60.0
_KILL_SECONDS = 5.0
_KILLED_STARTS = 2


class Lifetime:
    """The sandbox in use, and perhaps a spare."""

    def __init__(
        self,
        host: HostLink,
        poll: select.poll,
        package_directory: str,
        ledger: Ledger,
        keepers: list[Keeper],
    ) -> None:
        """Speak to ``host``, watch through ``poll``; ``package_directory`` is the folder of sentinel_kernel."""
        self.host = host
        self.ending = False
        """The host has said that it ends: nobody is left to tell what is saved now."""

        self.request: StartRequest | None = None
        """What a replacement of the sandbox is made by."""

        self.current: Current | None = None
        self.lesser = False
        """The last sandbox was on a lesser rung than the full one."""

        self.phase = Phase.NONE
        self.generation = 0
        self._poll = poll
        self._package_directory = package_directory
        self._ledger = ledger
        self.keepers = keepers
        self._identities = Identities()
        self.backends = Backends()
        self.spare = Spare(poll, self._identities, self.backends, package_directory)
        self._deadline: float | None = None
        self._start_id: object = None
        self._killed_starts = 0
        self._killed_for: dict[str, Any] | None = None
        self.leftovers = Leftovers(self)
        self._kept = False
        """The keepers were told of the worker, and not yet that it is gone."""

    @property
    def running(self) -> Current | None:
        """The sandbox whose worker is there, if there is one."""
        return self.current if self.phase is Phase.RUNNING else None

    def close(self) -> None:
        """Leave nothing behind."""
        self.end()
        self.spare.drop()
        self.backends.close()

    def serve(self, ready: dict[int, int]) -> bool:
        """Serve what sandboxes have to say; False where the one in use is another one, or none, afterwards."""
        self.spare.serve(ready)
        return self.current is None or self._serve_sandbox(self.current, ready)

    def catch_up(self) -> None:
        """Do what is due by the clock."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._overdue()

    def due_seconds(self) -> float | None:
        """Return in how many seconds something inside is overdue."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def kill_worker(self, cause: dict[str, Any]) -> None:
        """Kill the worker; its death is told with ``cause``, and a new one is forked."""
        current = self.running
        if current is None or self._killed_for is not None:
            return
        self._killed_for = cause
        self._deadline = time.monotonic() + _KILL_SECONDS
        last_words.kill_worker(current, cause)

    def _serve_sandbox(self, current: Current, ready: dict[int, int]) -> bool:
        """Serve what the sandbox has to say; False where it is another one, or none, afterwards."""
        listener = current.sandbox.listener.descriptor
        if current.held_line is not None and current.held_line.descriptor in ready:
            current.held_line.readable()
        if current.held_line is not None:
            current.held_line.settle()
        waits = ready.get(listener, 0) & select.POLLIN
        if current.handler.must_kill or (waits and current.handler.serve_waiting()):
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

    def start(self, message: dict[str, Any], identifier: object) -> None:
        """Replace the sandbox, if any, by one that ``message`` asks for; answered once it is up or has failed."""
        self.leftovers.orphans(message, str(message.get("kernel", "")))
        self.end()
        self._start_id = identifier
        try:
            self.request = parse_start(message)
        except ProtocolError as error:
            self._fail_start(error)
            return
        self.leftovers.tell_of_earlier(self.request.kernel)
        self._launch()

    def _launch(self) -> None:
        """Make the sandbox of the last request; when it can't be made, say so once everything is undone."""
        request = self.request
        if request is None:
            return
        taken = self.spare.take(request, self._ledger)
        if taken is not None:
            self._adopt(*taken)
            return
        try:
            current = make_sandbox(
                request,
                self._identities,
                self.backends,
                self._ledger,
                self._package_directory,
                self._announce,
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
        self.current = current
        self.lesser = current.rung != "full"
        self._ledger.begin_cell()
        self.phase = Phase.WARMING
        self._deadline = time.monotonic() + _START_SECONDS

    def _announce(self, channels: Channels) -> None:
        """Give the host its ends; this process keeps none of them."""
        self.generation += 1
        descriptors = [sock.fileno() for sock in channels.connected]
        self.host.event(protocol.EVENT_CHANNELS, {"generation": self.generation}, descriptors)
        channels.close_connected()

    def _ready(self, current: Current) -> None:
        self.phase = Phase.RUNNING
        self._deadline = None
        self._killed_starts = 0
        self._killed_for = None
        current.served = True
        limit_processors(current)
        held, descriptors = held_fields(current.sandbox.held, protocol.MAXIMUM_DESCRIPTORS)
        fields = {**ready_fields(current, self.generation), "held": held}
        self.host.event(protocol.EVENT_READY, fields, descriptors)
        self.answer_start()  # what the host asks next is served behind the keepers
        self._kept = True
        for keeper in self.keepers:
            keeper.sandbox_ready(current, self.generation)

    def _give_up(self, error: SentinelError) -> None:
        self.end()
        self._fail_start(error)

    def _fail_start(self, error: SentinelError) -> None:
        self.phase = Phase.NONE
        self._deadline = None
        self.host.event(protocol.EVENT_UNAVAILABLE, describe(error))
        self.answer_start({"message": str(error)})

    def answer_start(self, failure: dict[str, Any] | None = None) -> None:
        """Answer the start request that is open, if one is."""
        if self._start_id is not None:
            self.host.reply(self._start_id, ok=failure is None, fields=failure)
            self._start_id = None

    def end(self) -> None:
        """Kill the sandbox, save what it wrote, and release all that belonged to it."""
        current = self.current
        if current is None:
            return
        self._tell_keepers({})
        self.current = None
        self.phase = Phase.NONE
        self._deadline = None
        self._killed_for = None
        with contextlib.suppress(BootError):
            current.sandbox.end()
        self.leftovers.ended(current)
        release(current, self._poll)

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
            case "warm" if self.phase is Phase.WARMING:
                self._fork(current)
            case "hello" if self.phase is Phase.FORKING:
                self._greet(current, event.sender_pid)
            case "exit" if event.body.get("worker") and self.phase in (Phase.RUNNING, Phase.FORKING):
                self._worker_died(current, event.body.get("status"))
            case "killed_all" if self.phase is Phase.CLEARING:
                self._fork_again(current)
            case _:
                pass  # of a phase that is over
        return self.current is current

    def _fork(self, current: Current) -> None:
        request = self.request
        if request is None:
            return
        if not is_sound(current):  # an earlier worker's cell has changed what each later one begins with
            self.end()
            self._launch()
            return
        self.request = replace(request, argv_once=())
        self.phase = Phase.FORKING
        self._deadline = time.monotonic() + _START_SECONDS
        try:
            give_channels(current, request)
        except OSError:
            self._sandbox_died(current)  # init is dead, and its pidfd has not told yet

    def _greet(self, current: Current, pid: int) -> None:
        try:
            current.worker_pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # dead already; init's exit event follows
        current.worker_pid = pid
        watch_calls(current, self._ledger, pid)
        self._ready(current)

    def _worker_died(self, current: Current, status: object) -> None:
        """Tell the host, then have everything else in the sandbox killed before a new worker is forked."""
        cause, self._killed_for = self._killed_for or cause_of(status), None
        if current.held_line is not None:
            current.held_line.settle(now=True)
        cause.setdefault("place", last_words.place_of_death(current, cause))
        if self.lesser:
            self._replace_sandbox(current, cause)  # what it left behind goes with it
            return
        self._tell_death(cause, replaced=True)
        drop_worker(current, self._poll)
        self.phase = Phase.CLEARING
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
        starting = self.phase in (Phase.WARMING, Phase.FORKING)
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
        if self.request is not None and self.request.payload:
            self._tell_death(cause_of(status), replaced=False)
            self.end()
            return
        self._replace_sandbox(current, cause_of(status))

    def broken(self, detail: str) -> None:
        """Replace the sandbox in use, if there is one: something about it is wrong."""
        if self.current is not None:
            self._replace_sandbox(self.current, {"kind": "supervisor_error", "detail": detail})

    def _replace_sandbox(self, current: Current, cause: dict[str, Any]) -> None:
        with contextlib.suppress(BootError):
            current.sandbox.end()
        self._tell_death(cause, replaced=True)
        self.end()
        if not self.ending and not self.host.gone:
            self._launch()

    def _overdue(self) -> None:
        """Something inside did not answer in time."""
        current, phase = self.current, self.phase
        self._deadline = None
        if current is None:
            return
        if phase is Phase.CLEARING or current.served:
            silent = {"kind": "supervisor_error", "detail": "init did not answer"}
            self._replace_sandbox(current, self._killed_for or silent)
            return
        read_error_output(current)
        self._give_up(start_failure(current, None))

    def _tell_keepers(self, cause: dict[str, Any]) -> None:
        if self._kept:
            self._kept = False
            for keeper in self.keepers:
                keeper.sandbox_gone(cause)

    def _tell_death(self, cause: dict[str, Any], *, replaced: bool) -> None:
        self._ledger.flush()
        self._tell_keepers(cause)
        self.host.event(protocol.EVENT_WORKER_DIED, death(self.generation, cause, replaced=replaced))
