"""The host kernel put together: its parts, its one loop, and how it ends."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import zmq

from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.audit_page import AuditPage
from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS, CellCalls
from sentinel_kernel.kernel.cell_record import words_fields
from sentinel_kernel.kernel.cell_start import CellStart
from sentinel_kernel.kernel.cell_summary import CellSummary
from sentinel_kernel.kernel.client_side import ClientSide, watch_sockets
from sentinel_kernel.kernel.connection import read_connection
from sentinel_kernel.kernel.deaths import death_words
from sentinel_kernel.kernel.displays import Displays
from sentinel_kernel.kernel.ends import watch_ends
from sentinel_kernel.kernel.execution import Execution
from sentinel_kernel.kernel.faults import Faults
from sentinel_kernel.kernel.files_entry import FilesEntry
from sentinel_kernel.kernel.firewall import Firewall
from sentinel_kernel.kernel.gauge_entry import GaugeEntry
from sentinel_kernel.kernel.large_frame import Ledger
from sentinel_kernel.kernel.lifecycle import Lifecycle, State
from sentinel_kernel.kernel.limits import Limits
from sentinel_kernel.kernel.live_status import LiveStatus
from sentinel_kernel.kernel.loop import Loop
from sentinel_kernel.kernel.magics import Magics
from sentinel_kernel.kernel.outbox import Outbox
from sentinel_kernel.kernel.outer import Outer
from sentinel_kernel.kernel.publisher import Publisher
from sentinel_kernel.kernel.questions import Questions
from sentinel_kernel.kernel.settings import session_id
from sentinel_kernel.kernel.settings_look import look_at_places
from sentinel_kernel.kernel.status_page import StatusPage
from sentinel_kernel.kernel.unheeded import Unheeded
from sentinel_kernel.kernel.usage import Usage
from sentinel_kernel.kernel.violation_words import ViolationWords
from sentinel_kernel.kernel.widgets import HostWidgets
from sentinel_kernel.kernel.wire import Session, unsigned
from sentinel_kernel.kernel.worker_side import WorkerSide
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from sentinel_kernel.kernel.carrying import Carrying
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.dry_run import DryRuns
    from sentinel_kernel.kernel.failures import Failures
    from sentinel_kernel.kernel.frontend_comms import FrontendComms
    from sentinel_kernel.kernel.held_calls import HeldCalls
    from sentinel_kernel.kernel.leaving import Leaving
    from sentinel_kernel.kernel.output_filter import OutputFilter
    from sentinel_kernel.kernel.preflight import Preflight
    from sentinel_kernel.kernel.profile_switch import ProfileSwitch
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.supervisor_process import SupervisorProcess
    from sentinel_kernel.kernel.wire import Json

SHUTDOWN_SECONDS = 1.0
"""How long the worker may take to run its exit handlers before the sandbox is ended."""

LINGER_MS = 100

_DIED_TOO_OFTEN = 1


class Host:
    """Owns every part. Raises SentinelError where the connection file is of no use or an address is taken."""

    def __init__(self, settings: Settings, supervisor: SupervisorProcess | Exception) -> None:
        connection = read_connection(settings.connection_file)
        self.settings = settings
        self.loop = Loop()
        name = session_id(settings.connection_file)
        self.session = Session(connection.key, connection.signature_scheme, name)
        self.faults, self.firewall = Faults(), Firewall(name)
        self.loop.on_fault = self._stumbled
        try:
            self.sockets = Outer(connection)
        except zmq.ZMQError as error:
            remedy = "Start the kernel again: the client then chooses other ports."
            raise SentinelError(f"A port of the connection file can't be used: {error}.", remedy) from error
        ledger = Ledger()
        self.publisher = Publisher(self.loop, self.sockets.iopub, ledger)
        self.outbox = Outbox(self.session, self.sockets, self.publisher)
        self.lifecycle = Lifecycle(self.loop, settings, ledger, self)
        self.cell_calls = CellCalls(self.loop, settings, self.lifecycle)
        # The execution is made further down.
        self.violation_words = ViolationWords(settings, lambda: self.lifecycle.ready, lambda: self.execution)
        self.audit = AuditPage(self)
        self.displays = Displays(self.loop, self.outbox, settings.language, self.violation_words.complete)
        self.displays.waiting += words.about_settings(settings)
        status = StatusPage(settings, self.lifecycle, self.displays)
        self.magics = Magics(
            settings.language,
            settings.profile_directories,
            Ceiling(settings),
            lambda: self.lifecycle.profile,
            lambda: [*status.rows(), self.audit.row()],
            (settings.preflight, settings.dangerous),
        )
        self.questions = Questions(self)
        self._held_calls: HeldCalls | None = None
        self.lifecycle.told[protocol.EVENT_ASK] = self._call_held
        self.limits = Limits(self)
        self.widgets = HostWidgets(self.outbox)
        self.unheeded = Unheeded(self)
        self.live_status = LiveStatus(self)
        self.gauge = GaugeEntry(self)
        self.files = FilesEntry(self)
        self.usage = Usage(self.lifecycle, self.gauge.refresh_soon)
        self.summary = CellSummary(self, on=settings.cell_summary)
        self.cell_start = CellStart(self)
        self.dry_runs: DryRuns | None = None
        """What carries out dry runs, once there was one."""
        self.execution = Execution(self.outbox, self.cell_start.begin, self._forward, self.cell_calls.quiet)
        self.outbox.told.code_of = self.execution.code_of
        self.clients = ClientSide(self)
        self.worker = WorkerSide(self)
        self._exit_status = 0
        self._rung_told = False
        self._shutdown: Request | None = None
        watch_sockets(self)
        watch_ends(self)
        self.lifecycle.attach(supervisor)

    @cached_property
    def output_filter(self) -> OutputFilter:
        """What makes outputs harmless for the browser."""
        from sentinel_kernel.kernel.output_filter import OutputFilter  # noqa: PLC0415 - for the first output

        return OutputFilter(self)

    @cached_property
    def profile_switch(self) -> ProfileSwitch:
        """What carries out a change of profile."""
        from sentinel_kernel.kernel.profile_switch import ProfileSwitch  # noqa: PLC0415 - not on the start path

        return ProfileSwitch(self)

    @cached_property
    def carrying(self) -> Carrying:
        """What takes variables from one worker to the next."""
        from sentinel_kernel.kernel.carrying import Carrying  # noqa: PLC0415 - not on the start path

        return Carrying(self)

    @cached_property
    def frontends(self) -> FrontendComms:
        """The comms that frontends opened towards the host itself."""
        from sentinel_kernel.kernel.frontend_comms import FrontendComms  # noqa: PLC0415 - not on the start path

        return FrontendComms(self)

    @cached_property
    def preflight(self) -> Preflight:
        """What looks at cells before they run."""
        from sentinel_kernel.kernel.preflight import Preflight  # noqa: PLC0415 - for the first cell

        return Preflight(self)

    @cached_property
    def failures(self) -> Failures:
        """What explains errors that the sandbox caused."""
        from sentinel_kernel.kernel.failures import Failures  # noqa: PLC0415 - for cells that fail

        return Failures(self)

    @cached_property
    def leaving(self) -> Leaving:
        """What holds cells behind an exit()."""
        from sentinel_kernel.kernel.leaving import Leaving  # noqa: PLC0415 - few cells say so

        return Leaving(self)

    def _call_held(self, event: Json) -> None:
        if self._held_calls is None:
            from sentinel_kernel.kernel.held_calls import HeldCalls  # noqa: PLC0415 - not on the start path

            self._held_calls = HeldCalls(self)
        self._held_calls.told(event)

    def run(self) -> int:
        """Serve until the kernel is shut down; return the exit status."""
        look_at_places(self)
        self.loop.run(self._pump)
        self.lifecycle.close()
        self.sockets.close(LINGER_MS)
        return self._exit_status

    def _stumbled(self, fault: Exception) -> None:
        """Give up the sandbox over which the host stumbled where nothing else caught it. Raises what is too much."""
        self.faults.note("The sandbox is given up", fault)
        if self.faults.too_many:
            raise fault
        self.lifecycle.broken("The host stumbled over what the sandbox sent.")

    def _pump(self) -> bool:
        link = self.lifecycle.link
        if link is not None:
            link.dispatch()
        # The worker's side last: it decides what is watched, from where things stand then.
        more = self.clients.pump()
        more |= self.worker.pump()
        if self.questions.open:
            self.questions.go_on()  # a cell's own prompt may have been answered, or the cell have ended
        link = self.lifecycle.link
        return more or self.clients.has_more() or (link is not None and link.has_news)

    # --- what the lifecycle tells (lifecycle.Listener)

    def worker_answers(self, *, after_death: bool) -> None:
        """Go on with what waits: a worker is there."""
        if after_death:
            self.outbox.status("starting")
            self.outbox.status("idle")
        self.displays.waiting += self.violation_words.own_faults()
        if self.lifecycle.ready.get("rung_words") and not self._rung_told:
            self._rung_told = True
            from sentinel_kernel.kernel.rung_words import first_notice  # noqa: PLC0415 - on a lesser rung alone

            self.displays.waiting.append(first_notice(self.lifecycle.ready))
        self.usage.sandbox_ready()
        self.gauge.refresh_soon()
        self.execution.resume()

    def worker_gone(self, cause: Json) -> None:
        """Forward the worker's last messages, say in every running cell why it died, and abort what waits.

        Where a cell has asked for it, by exit(), what waits goes on with the next worker.
        """
        if self._shutdown is not None:
            self.worker_shuts_down()
            return
        with self.faults.survived("Not all that a worker said last was shown"):
            self.worker.read_rest()
        told = death_words(self, cause)
        cause["left"] = "leaving" in vars(self) and self.leaving.under_way
        if not self._end_running("SandboxDied", told, abort_waiting=not cause["left"]):
            self.displays.waiting.append(told)  # between cells: the next one says why it finds nothing
        self.cell_calls.worker_gone()
        self.gauge.worker_gone()
        self.widgets.forget()  # as clients do when they hear the status below
        self.execution.last_count = 0  # the next worker counts anew, as after every restart
        self.outbox.status("restarting")

    def sandbox_unavailable(self) -> None:
        """Answer everything from here on."""
        problem = self.lifecycle.problem
        if problem is not None:
            _, cause, remedy = problem.describe(self.settings.language)
            told = words.Words(cause, cause, remedy, remedy)
            self._end_running("SandboxUnavailable", told, abort_waiting=False, keep=self.execution.opening())
        self.execution.resume()

    def violation_reported(self, violation: Json) -> None:
        """Show a refused call in the cell that made it."""
        identifier = str(violation.get("id"))
        new = identifier not in self.displays.last_violations
        self.displays.refused(violation, self.execution.newest())
        link, told = self.lifecycle.link, self.displays.last_violations.get(identifier)
        if new and told is not None and link is not None:
            link.request(protocol.OP_WORDS, words_fields(told), lambda _reply: None, CELL_SECONDS)
        self.live_status.refresh_soon()
        self.gauge.refresh_soon()

    def audit_changed(self, state: Json) -> None:
        """Say where the audit can't be written."""
        self.audit.changed(state)

    def files_saved(self, path: str, files: int, left_out: int = 0) -> None:
        """Say where the files of a sandbox that ended are, whatever ended it."""
        self.files.saved(path, files, left_out)

    def died_too_often(self) -> None:
        """Give up: the server restarts kernels itself, and stops at its own limit."""
        self._exit_status = _DIED_TOO_OFTEN
        self.lifecycle.stop()

    # --- what clients ask for

    def interrupt(self, request: Request | None = None) -> None:
        """Interrupt the running cells, for a client's request or for SIGINT."""
        for cell in self.execution.running.values():
            self.limits.person_asked(cell, waiting=False)  # input() is over, and may ask anew
            cell.prompt = ""
        self.questions.interrupted()
        self.unheeded.interrupted()
        if "carrying" in vars(self):
            self.carrying.interrupted()
        if request is None:
            self.cell_calls.interrupt(lambda: None)
            return
        self.outbox.status("busy", request.header)

        def done() -> None:
            self.outbox.reply(request, {"status": "ok"})
            self.outbox.status("idle", request.header)

        self.cell_calls.interrupt(done)

    def shutdown(self, request: Request) -> None:
        """Let the worker run its exit handlers, then end everything."""
        if self._shutdown is not None or self.lifecycle.state is State.STOPPING:
            return
        self._shutdown = request
        self.outbox.status("busy", request.header)
        inner = self.lifecycle.inner
        if self.lifecycle.state is State.READY and inner is not None:
            inner["control"].send(unsigned(request.identities, request.parts))
            self.loop.call_later(SHUTDOWN_SECONDS, self.worker_shuts_down)
        else:
            self.worker_shuts_down()

    def worker_shuts_down(self) -> None:
        """Answer the shutdown request that is out, if any, and stop."""
        request, self._shutdown = self._shutdown, None
        if request is None or self.lifecycle.state is State.STOPPING:
            return
        try:
            restart = bool(request.content().get("restart", False))
        except ProtocolError:
            restart = False
        self.worker.read_rest()
        content = {"status": "ok", "restart": restart}
        self.outbox.reply(request, content)
        self.outbox.publish("shutdown_reply", content, request.header)
        self.outbox.status("idle", request.header)
        self.lifecycle.stop(restart=restart)

    def give_up_worker(self, keep: Cell, reason: str) -> None:
        """Leave the worker for a fresh one, as a magic in ``keep`` wants it."""
        self._end_running("SandboxDied", words.switched(reason), abort_waiting=False, keep=keep)

    def end_worker(self, told: words.Words) -> None:
        """End the worker at a person's word, say so in its cells, and go on in a fresh sandbox of the same kind."""
        self._end_running("SandboxDied", told, abort_waiting=True)
        lifecycle = self.lifecycle
        lifecycle.switch(lifecycle.profile, "reset", self.execution.last_count + 1, lambda _succeeded: None)

    def _forward(self, request: Request) -> None:
        self.clients.forward(request)

    # --- small parts

    def _end_running(
        self, ename: str, told: words.Words, *, abort_waiting: bool, keep: Cell | None = None
    ) -> bool:
        """Answer everything that the worker had: its cells with the reason, all else with an error.

        Returns whether there was a cell to tell.
        """
        language = self.settings.language
        evalue = f"{told.message(language)} {told.hint(language)}"
        error = {
            "ename": ename,
            "evalue": evalue,
            "traceback": [f"{ename}: ", *told.plain(language).split("\n")],
        }
        if abort_waiting:
            self.clients.take_waiting()
        cells, requests = self.execution.clear(abort_waiting=abort_waiting, keep=keep)
        self.questions.worker_gone()
        if "carrying" in vars(self):
            self.carrying.abandon()
        for cell in cells:
            with self.faults.survived("A cell was ended without all that was to be shown in it"):
                self.questions.left_open(cell)
                self.displays.bring_up_to_date(cell)
            if not cell.silent and not cell.replied:
                self.outbox.error(error, cell.request.header)
            if not cell.replied:
                count = self.execution.last_count if cell.execution_count is None else cell.execution_count
                reply = {"status": "error", "execution_count": count, "payload": [], **error}
                self.outbox.reply(cell.request, {**reply, "user_expressions": {}}, {"status": "error"})
            if not cell.idle:
                self.outbox.status("idle", cell.request.header)
                cell.idle = True
        for request in requests:
            self.outbox.reply(request, {"status": "error", **error})
            self.outbox.status("idle", request.header)
        return bool(cells)


def run_host(settings: Settings, supervisor: SupervisorProcess | Exception) -> int:
    """Run the host kernel. Raises SentinelError where it can't start at all."""
    return Host(settings, supervisor).run()
