"""Hands reports to the audit's writer: in batches, bounded, without waiting save for KILL and ASK."""

from __future__ import annotations

import time

from sentinel_kernel.audit.place import AuditSettings
from sentinel_kernel.supervisor.audit_process import AuditProcess
from sentinel_kernel.supervisor.recorded import note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.supervisor.recorded import Refusals

DURABLE_SECONDS = 0.05
"""How long a held call may wait until its row is on the disk."""

ANSWERED_SECONDS = 1.0
"""How long one may wait that a person has just allowed: it would be refused in spite of the answer."""

FLUSH_SECONDS = 0.5
_SAMPLES_SECONDS = 2.0
"""How long samples wait where nothing else is to be written: each batch wakes the writer."""
_START_SECONDS = 0.03
"""How long after its first report a writer is made: no cell's start is slowed by it."""
_REST_SECONDS = 1.0
"""A writer without anything to write for so long ends: an idle kernel has none. It comes back in some 30 ms."""
_PUSH_SECONDS = 0.1
_SYNC_SECONDS = 2.0
_PENDING = 2000
_WRITERS = 3
"""So many writers may end unasked; then there is no audit any more, which is told."""


class AuditDelivery:
    """What waits for the writer, and the writer while there is one.

    ``changed`` is called with the audit's state where it is another one; ``refusals`` are asked what of them is due.
    """

    def __init__(self, changed: Callable[[dict[str, Any]], None], refusals: Refusals) -> None:
        """Deliver nothing before :meth:`configure`, and nothing before ``awake``."""
        self._changed = changed
        self._refusals = refusals
        self.settings = AuditSettings("")
        self._run: dict[str, Any] = {}
        self.awake = False
        """A cell has begun: before that reports wait, so that the kernel's start is not slowed."""
        self.late = 0
        """How many calls were ended before their row was on the disk."""
        self._writer: AuditProcess | None = None
        self._unasked_ends = 0
        self._ended: list[AuditProcess] = []
        self._last_report = 0.0
        self._start_at: float | None = None
        self._flush_at: float | None = None
        self._pending: list[tuple[str, dict[str, Any]]] = []
        self._dropped = 0
        self._token = 0
        self._acknowledged = 0
        self._syncs: list[tuple[int, float, Callable[[dict[str, Any]], None]]] = []
        self._state: dict[str, Any] = {}
        self._told: tuple[Any, ...] = ()
        self._alerts_failed: dict[int, int] = {}
        """By writer: each counts its own."""

    def configure(self, settings: AuditSettings, run: dict[str, Any]) -> None:
        """Take the settings, and the columns of the row that stands for the kernel."""
        if settings != self.settings:
            self.close()
            self._state = {}
        self.settings = settings
        if run.get("id") != self._run.get("id"):
            self._run = run
            if self._writer is not None:
                self.report("run", run)

    def failing(self, reason: str, remedy: str) -> None:
        """Say that there is no audit, and why."""
        self._take({"state": "failing", "reason": reason, "remedy": remedy})

    @property
    def works(self) -> bool:
        """Whether rows get to the disk, as far as is known."""
        return bool(self.settings.path) and self._state.get("state") != "failing"

    def state(self) -> dict[str, Any]:
        """Return the audit's state as the host is told it."""
        off = not self.settings.path and not self.settings.problem
        return {
            "state": "off" if off else "on",
            "reason": "",
            "remedy": "",
            **self._state,
            "path": self.settings.path,
            "run": self._run.get("id", ""),
            "late": self.late,
            "dropped": self._dropped + self._refusals.dropped,
            "alerts_failed": sum(self._alerts_failed.values()),
        }

    def report(self, kind: str, values: dict[str, Any]) -> None:
        """Have one row written before long."""
        if not self.settings.path:
            return
        if len(self._pending) >= _PENDING:
            kept = [report for report in self._pending if report[0] != "sample"]
            self._dropped += len(self._pending) - len(kept)
            self._pending = kept
            if len(kept) >= _PENDING:
                self._dropped += 1
                return
        self._pending.append((kind, values))
        self.soon(_SAMPLES_SECONDS if kind == "sample" else FLUSH_SECONDS)

    def soon(self, seconds: float = FLUSH_SECONDS) -> None:
        """Have what is due handed over within so many seconds."""
        self._last_report = now = time.monotonic()
        if self._writer is not None:
            if self._flush_at is None or self._flush_at > now + seconds:
                self._flush_at = now + seconds
        elif self.awake and self._unasked_ends < _WRITERS:
            self._start_at = self._start_at or now + _START_SECONDS

    def durable(self, seconds: float = DURABLE_SECONDS) -> bool:
        """Have all that was reported on the disk; False where that does not happen within ``seconds``."""
        end = time.monotonic() + seconds
        if not self._have_writer():
            return False
        self._token += 1
        token, failures = self._token, self._failures()
        self._flush(token)
        while self._writer is not None and self._acknowledged < token:
            if not self._writer.push() and self._writer.gone:
                break
            if not self._writer.wait(end - time.monotonic()):
                break
            self.hear()
            if self._failures() > failures:
                break
        return self._acknowledged >= token

    def sync(self, done: Callable[[dict[str, Any]], None]) -> None:
        """Call ``done`` with the audit's state once all that was reported is written, or that takes too long."""
        if self.settings.path and self._have_writer():
            self._token += 1
            self._syncs.append((self._token, time.monotonic() + _SYNC_SECONDS, done))
            self._flush(self._token)
        else:
            done(self.state())

    def due_seconds(self) -> float | None:
        """Return when :meth:`catch_up` is due."""
        dues = [due for due in (self._start_at, self._flush_at, *(end for _, end, _ in self._syncs)) if due]
        now = time.monotonic()
        if self._writer is not None:
            dues.append(now + _PUSH_SECONDS if self._writer.waits else self._last_report + _REST_SECONDS)
        return max(0.0, min(dues) - now) if dues else None

    def catch_up(self, *, idle: bool) -> None:
        """Make a writer, hand over what is due, let the writer go where nothing runs (``idle``)."""
        now = time.monotonic()
        if self._start_at is not None and now >= self._start_at:
            self._have_writer()
        if self._flush_at is not None and now >= self._flush_at:
            self._flush()
        elif self._writer is not None and self._writer.waits:
            self._writer.push()
        elif self._writer is not None and now >= self._last_report + _REST_SECONDS:
            self._rest(idle=idle)
        for sync in [sync for sync in self._syncs if now >= sync[1] or sync[0] <= self._acknowledged]:
            self._syncs.remove(sync)
            sync[2](self.state())
        self._ended = [writer for writer in self._ended if not writer.reap()]

    def descriptors(self) -> Iterable[int]:
        """Return the writer's socket, and those of writers that have still to say how it ended."""
        writers = [*self._ended, *([self._writer] if self._writer is not None else [])]
        return [writer.sock.fileno() for writer in writers if not writer.gone]

    def serve(self, ready: dict[int, int]) -> None:
        """Take what writers say."""
        for writer in self._ended:
            if not writer.gone and writer.sock.fileno() in ready:
                self._listen(writer)
        if self._writer is not None and self._writer.sock.fileno() in ready:
            self.hear()

    def _listen(self, writer: AuditProcess) -> None:
        for said in writer.receive():
            if "ack" in said:
                self._acknowledged = max(self._acknowledged, int(said["ack"]))
            else:
                self._alerts_failed[writer.pid] = int(said.get("alerts_failed") or 0)
                self._take(said)

    def hear(self) -> None:
        """Take what the writer has said; one that has ended is replaced at the next report."""
        writer = self._writer
        if writer is None:
            return
        self._listen(writer)
        if writer.gone:
            self._writer = None
            self._ended.append(writer)
            self._unasked_ends += 1
            self._hand_on(writer)
            self.failing("The audit's writer process ended.", "Restart the kernel.")
            self.soon()

    def _hand_on(self, writer: AuditProcess) -> None:
        """Give what a writer had not taken when it ended to the next one; a note says that it may have held more."""
        left = writer.left()
        if self._unasked_ends >= _WRITERS:
            self._dropped += len(left) + len(self._pending)
            self._pending = []
            return
        # As much as may wait for one that lives may be handed on: it has a bound of its own.
        self._pending = [*left, *self._pending]
        detail = {"handed_on": len(left), "held": "what it had taken and not written is missing"}
        self.report("note", note("lost", "writer ended", detail, None))

    def close(self) -> None:
        """Hand over the rest; the writer writes it whether we are there or not."""
        if (
            self.settings.path
            and self.awake
            and (self._pending or self._refusals.due)
            and self._have_writer()
        ):
            self._flush(final=True)
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close(meant=True)
        for ended in self._ended:
            ended.close()
        self._ended = []

    def _rest(self, *, idle: bool) -> None:
        # A writer that can't write holds rows that it tries again.
        if (
            self._writer is None
            or not idle
            or not self.works
            or self._pending
            or self._refusals.due
            or self._syncs
        ):
            self._last_report = time.monotonic()
            return
        self._writer.rest()
        self._ended.append(self._writer)
        self._writer = None

    def _failures(self) -> int:
        return int(self._state.get("failures") or 0)

    def _have_writer(self) -> bool:
        """Have a writer process, if one can be had."""
        self._start_at = None
        if self._writer is None and self.settings.path and self._unasked_ends < _WRITERS:
            try:
                self._writer = AuditProcess(self.settings)
            except OSError as error:
                self._unasked_ends += 1
                self.failing(f"No process can be made: {error}.", "End some processes.")
                return False
            self._pending.insert(0, ("run", self._run))  # it has to know whose rows it writes
            self._last_report = self._flush_at = time.monotonic()
        return self._writer is not None

    def _flush(self, token: int = 0, *, final: bool = False) -> None:
        """Hand over all that waits."""
        self._flush_at = None
        writer = self._writer
        if writer is None:
            return
        if writer.full and not final and not token:
            writer.push()
            self._flush_at = time.monotonic() + FLUSH_SECONDS
            return
        reports = [*self._pending, *self._refusals.reports(everything=final or token > 0)]
        self._pending = []
        if self._refusals.due:
            self._flush_at = time.monotonic() + self._refusals.due_seconds(FLUSH_SECONDS)
        writer.give(reports, token)
        if writer.gone:
            self.hear()

    def _take(self, said: dict[str, Any]) -> None:
        """Keep the writer's state, and tell it where it is another one."""
        self._state = {**self._state, **said}
        state = self.state()
        told = tuple(state.get(name) for name in ("state", "reason", "lost", "alerts_failed"))
        if told != self._told:
            first, self._told = not self._told, told
            if not first or state["state"] != "on" or state.get("lost"):
                self._changed(state)
