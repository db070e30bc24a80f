"""Who watches the sandbox in use, and how they know of each other."""

from __future__ import annotations

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.cell_clock import CellClock
from sentinel_kernel.supervisor.dry_copies import DryCopies
from sentinel_kernel.supervisor.giving_way import GivingWay
from sentinel_kernel.supervisor.group_watch import GroupWatch
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.limit_watch import LimitWatch
from sentinel_kernel.supervisor.meter import Meter
from sentinel_kernel.supervisor.processor_share import ProcessorShare
from sentinel_kernel.supervisor.promised_files import PromisedFiles
from sentinel_kernel.supervisor.questions import Questions
from sentinel_kernel.supervisor.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sentinel_kernel.supervisor.backend import Backends
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.explaining import Explaining
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.live_mounts import LiveMounts
    from sentinel_kernel.supervisor.network.way_out import WayOut
    from sentinel_kernel.supervisor.proxying import Proxying
    from sentinel_kernel.supervisor.refreshing import Refreshing
    from sentinel_kernel.supervisor.start_trial import StartTrial


class _Inside(Keeper):
    """Tells ``serve`` of each sandbox in which boot has bound something for the supervisor; most have nothing."""

    def __init__(self, serve: Callable[[Current], None]) -> None:
        self._serve = serve

    def sandbox_ready(self, current: Current, generation: int) -> None:  # noqa: ARG002 - all are alike
        if current.sandbox.sockets:
            self._serve(current)


class Watchers:
    """The keepers of one session. They are not imported before the first sandbox starts, which takes longer."""

    def __init__(
        self,
        send: Callable[[str, dict[str, Any]], None],
        interrupt: Callable[[Current], bool],
        ledger: Ledger,
        keepers: list[Keeper],
        host_pid: Callable[[], int],
        backends: Backends,
    ) -> None:
        """Tell the host through ``send``, an event's name and its fields; each is added to ``keepers``.

        ``backends`` make those of the sandboxes.
        """
        self._host_pid = host_pid
        self._proxying: Proxying | None = None
        self._send = send
        self.questions = Questions(lambda fields: send(protocol.EVENT_ASK, fields), ledger, keepers)
        self.meter = Meter(self._tell)
        self.clock = CellClock(self._tell, interrupt, lambda: self.questions.waiting > 0, host_pid)
        self.share = ProcessorShare()
        self._limits = LimitWatch(self._tell)
        self.way_out: WayOut | None = None
        """Who serves a sandbox that may reach hosts, once there is one."""
        self.recorder = Recorder(self._tell, lambda: self.meter.sample)
        # The first one: until nothing runs any more of a dry run, the others hold back as if it went on.
        keepers.append(DryCopies())
        keepers += [self.questions, self.meter, self.clock, self._limits, self.share, GroupWatch(self._tell)]
        keepers += [PromisedFiles(), GivingWay(self.meter, backends)]
        self._ledger, self._keepers = ledger, keepers
        self._explaining: Explaining | None = None
        self._live_mounts: LiveMounts | None = None
        self._refreshing: Refreshing | None = None
        self._start_trial: StartTrial | None = None
        # The last one: it notes what the others found.
        keepers += [self.recorder, _Inside(self._serve_inside)]

    @property
    def explaining(self) -> Explaining:
        """Who finds out whether the sandbox caused an error."""
        if self._explaining is None:
            from sentinel_kernel.supervisor.explaining import Explaining  # noqa: PLC0415 - for cells that fail alone
            from sentinel_kernel.supervisor.limit_evidence import LimitEvidence  # noqa: PLC0415 - as above

            evidence = LimitEvidence(self._limits, self.meter)
            self._explaining = Explaining(self._tell, self._ledger, evidence)
            self._keepers.append(self._explaining)
        return self._explaining

    @property
    def live_mounts(self) -> LiveMounts:
        """Who shows folders of the host in the running sandbox."""
        if self._live_mounts is None:
            from sentinel_kernel.supervisor.live_mounts import LiveMounts  # noqa: PLC0415 - few ask for it

            self._live_mounts = LiveMounts(self.recorder.note)
            self._keepers.append(self._live_mounts)
        return self._live_mounts

    @property
    def start_trial(self) -> StartTrial:
        """Who finds out what a start would fail by."""
        if self._start_trial is None:
            from sentinel_kernel.supervisor.start_trial import StartTrial  # noqa: PLC0415 - for changes alone

            self._start_trial = StartTrial()
            self._keepers.append(self._start_trial)
        return self._start_trial

    def refresh(self, contexts: Sequence[int]) -> None:
        """Make folders that are shown live show what changed on the host; a keeper is busy meanwhile."""
        if self._refreshing is None:
            from sentinel_kernel.supervisor.refreshing import Refreshing  # noqa: PLC0415 - few sandboxes have one

            self._refreshing = Refreshing(self.recorder.note)
            self._keepers.append(self._refreshing)
        self._refreshing.start(contexts)

    def _serve_inside(self, current: Current) -> None:
        """Bring in who serves what boot has bound inside."""
        if current.preparation.plan.fenced and self.way_out is None:
            from sentinel_kernel.supervisor.network.way_out import WayOut  # noqa: PLC0415 - few sandboxes have one

            self.way_out = WayOut(self._ledger, self.recorder.connection)
            self._keepers.append(self.way_out)
        if "proxy" in current.sandbox.sockets and self.way_out is not None and self._proxying is None:
            from sentinel_kernel.supervisor.proxying import Proxying  # noqa: PLC0415 - few sandboxes have a proxy

            self._proxying = Proxying(self._host_pid, self._ledger, self.way_out)
            self._keepers.append(self._proxying)

    def configure(self, message: dict[str, Any]) -> None:
        """Take the settings of a start request."""
        self.questions.configure(float(message.get("ask_seconds") or 0.0))
        self.recorder.configure(message)

    def _tell(self, name: str, fields: dict[str, Any]) -> None:
        if name == protocol.EVENT_LIMIT:
            self._limits.heard(fields["limit"])
        self.recorder.told(name, fields)
        self._send(name, fields)
