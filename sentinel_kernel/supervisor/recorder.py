"""Reports to the audit what runs, what is refused and what is used; only KILL and ASK rows are waited for."""

from __future__ import annotations

import os
import sys
import time

from sentinel_kernel.audit.place import AuditSettings, make_place, settings_beside
from sentinel_kernel.record import as_dict
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.audit_process import AuditProcess
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.recorded import Refusals, died, ended, session_events, started

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current

DURABLE_SECONDS = 0.05
"""How long a held call may wait until its row is on the disk."""

FLUSH_SECONDS = 0.25
_START_SECONDS = 0.1
"""How long after its first cell began a kernel gets its writer: the start is not slowed by it."""
_PUSH_SECONDS = 0.1
_SYNC_SECONDS = 2.0
_PENDING = 2000
_WRITERS = 3
"""So many writers may end unexpectedly; then there is no audit any more, which is told."""


class Recorder(Keeper):
    """``send`` tells the host of the audit's state; ``sample`` returns the newest sample of what is used."""

    def __init__(
        self, send: Callable[[str, dict[str, Any]], None], sample: Callable[[], dict[str, Any]]
    ) -> None:
        """Record nothing before :meth:`configure`."""
        self._send = send
        self._sample = sample
        self._last_sample: dict[str, Any] = {}
        self._settings = AuditSettings("")
        self._run: dict[str, Any] = {}
        self._writer: AuditProcess | None = None
        self._writers = 0
        self._start_at: float | None = None
        self._flush_at: float | None = None
        self._pending: list[tuple[str, dict[str, Any]]] = []
        self._dropped = 0
        self._late = 0
        self._token = 0
        self._acknowledged = 0
        self._syncs: list[tuple[int, float, Callable[[dict[str, Any]], None]]] = []
        self._state: dict[str, Any] = {}
        self._told: tuple[Any, ...] = ()
        self._sandbox: dict[str, Any] = {}
        self._number = 0
        self._open: dict[str, int] = {}
        self._refusals = Refusals()

    # --- what the supervisor tells

    def configure(self, message: dict[str, Any]) -> None:
        """Take the audit's settings and the kernel's facts from a start request."""
        asked = message.get("audit")
        asked = asked if isinstance(asked, dict) else {}
        environment = {**os.environ, **{str(name): str(value) for name, value in asked.items()}}
        settings = settings_beside(environment, str(message.get("workspace") or "/"))
        run = started(message, environment, sys.version.split()[0])
        if settings != self._settings and self._writer is not None:
            self.close()
        self._settings = settings
        if settings.path:
            try:
                make_place(settings)
            except OSError as error:
                self._take({"state": "failing", "reason": str(error), "remedy": "Set SENTINEL_AUDIT."})
        elif settings.problem:
            remedy = "Set SENTINEL_AUDIT to a file in a folder of its own (an absolute path), or to off."
            self._take({"state": "failing", "reason": settings.problem, "remedy": remedy})
        if run["id"] != self._run.get("id"):
            self._run = run
        self._report("run", self._run)

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Note what is in force from here on."""
        self._sandbox = {
            "profile": current.preparation.profile.name,
            "generation": generation,
            "rung": str(getattr(current, "rung", "full")),
            "backend": str(getattr(getattr(current, "backend", None), "name", "fallback")),
            "limits": as_dict(current.preparation.plan.sizes),
            "pid": current.worker_pid,
        }
        self._note("sandbox", self._sandbox["profile"], self._sandbox)

    def sandbox_gone(self, cause: dict[str, Any]) -> None:
        """End what still runs: the worker is gone."""
        status, result = died(cause)
        for msg_id in list(self._open):
            self._end(msg_id, status, result)
        if cause:
            self._note("died", result, cause)

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Note a cell that begins."""
        if not self._settings.path:
            return
        self._number += 1
        msg_id = str(message.get("msg_id") or "")
        self._open[msg_id] = self._number
        self._refusals.begin(self._number, msg_id, message, self._sandbox)
        code = message.get("code")
        self._report(
            "begin",
            {
                "exec": self._number,
                **self._sandbox,
                "command": code if isinstance(code, str) else None,
                "start_ts": int(time.time() * 1000),
                "msg_id": msg_id,
                "cell_id": message.get("cell_id"),
                "lines": message.get("lines"),
                "source_sha256": message.get("code_sha256"),
                "silent": int(message.get("silent") is True),
            },
        )
        if self._writer is None and self._start_at is None:
            self._start_at = time.monotonic() + _START_SECONDS

    def end_cell(self, message: dict[str, Any]) -> None:
        """Note a cell's end, with the last counts of what was refused in it."""
        msg_id = str(message.get("msg_id") or "")
        if msg_id in self._open:
            self._take_sample()
            self._end(msg_id, *ended(message))

    def violation(self, violation: Violation) -> None:
        """Note a refusal, or its new count; a KILL is on the disk when this returns, or is counted as late."""
        if not self._settings.path:
            return
        self._refusals.add(violation, self._newest())
        self._flush_soon()
        if violation.outcome == "killed" and not self._durable():
            self._late += 1
            self._note("late", "KILL", {"violation": violation.id, "late": self._late})

    def answering(self, violation: Violation, answer: str) -> bool:
        """Note an ASK's answer; False where it did not get onto the disk in time."""
        if not self._settings.path:
            return not self._settings.problem
        if self._refusals.answer(violation, answer, self._newest()):
            self._flush_soon()
            return self._state.get("state") != "failing"  # one of many like one that is on the disk
        return self._durable()

    def words(self, message: dict[str, Any]) -> None:
        """Add the words that the person was shown to a refusal."""
        if self._refusals.words(message):
            self._flush_soon()

    def told(self, name: str, fields: dict[str, Any]) -> None:
        """Note what the host is told: limits that were reached."""
        if name == protocol.EVENT_LIMIT and isinstance(fields.get("limit"), dict):
            limit = fields["limit"]
            self._note("limit", f"{limit.get('name')} {limit.get('stage')}", limit)

    def changed(self, kind: str, name: str, told: dict[str, Any], current: Current | None) -> None:
        """Note a change of the profile (``kind`` profile) or of limits; ``told`` is what the host is answered."""
        if current is not None:
            self._sandbox["profile"] = current.preparation.profile.name
            self._sandbox["limits"] = as_dict(current.preparation.plan.sizes)
        self._note(kind, name, told)

    def sync(self, done: Callable[[dict[str, Any]], None]) -> None:
        """Call ``done`` with the audit's state once all that was reported is written, or that takes too long."""
        if self._settings.path and self._have_writer():
            self._token += 1
            self._syncs.append((self._token, time.monotonic() + _SYNC_SECONDS, done))
            self._flush(token=self._token)
        else:
            done(self.state())

    def state(self) -> dict[str, Any]:
        """Return the audit's state as the host is told it."""
        state = "off" if not self._settings.path and not self._settings.problem else "on"
        return {
            "state": state,
            "reason": "",
            "remedy": "",
            **self._state,
            "path": self._settings.path,
            "run": self._run.get("id", ""),
            "late": self._late,
            "dropped": self._dropped,
        }

    # --- the loop

    def due_seconds(self) -> float | None:
        """Return when something is to be handed over."""
        dues = [due for due in (self._start_at, self._flush_at, *(end for _, end, _ in self._syncs)) if due]
        if self._writer is not None and self._writer.waits:
            dues.append(time.monotonic() + _PUSH_SECONDS)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def catch_up(self) -> dict[str, Any] | None:
        """Start the writer, hand over what waits, note the newest sample."""
        now = time.monotonic()
        self._take_sample()
        if self._start_at is not None and now >= self._start_at:
            self._have_writer()
        if self._flush_at is not None and now >= self._flush_at:
            self._flush()
        elif self._writer is not None and self._writer.waits:
            self._writer.push()
        for sync in [sync for sync in self._syncs if now >= sync[1] or sync[0] <= self._acknowledged]:
            self._syncs.remove(sync)
            sync[2](self.state())
        return None

    def descriptors(self) -> Iterable[int]:
        """Return the writer's socket."""
        return () if self._writer is None else (self._writer.sock.fileno(),)

    def serve(self, ready: dict[int, int]) -> None:
        """Take what the writer says."""
        if self._writer is not None and self._writer.sock.fileno() in ready:
            self._hear()

    def close(self) -> None:
        """Hand over the rest; the writer writes it whether we are there or not."""
        if not self._settings.path or not (self._pending or self._refusals.due or self._writer is not None):
            return
        if self._number and self._have_writer():
            self._flush(final=True)
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    # --- small parts

    def _newest(self) -> int | None:
        return next(reversed(self._open.values())) if self._open else None

    def _end(self, msg_id: str, status: str, result: str) -> None:
        number = self._open.pop(msg_id)
        for report in self._refusals.reports(final=number):
            self._report(*report)
        end = {"end_ts": int(time.time() * 1000), "status": status, "result": result}
        sample = self._last_sample
        used = {"mem_peak_bytes": sample.get("memory_peak_bytes"), "cpu_seconds": sample.get("cpu_seconds")}
        refusals = self._refusals.total(number)
        self._report("end", {"exec": number, "msg": msg_id, **end, **used, "refusals": refusals})

    def _take_sample(self) -> None:
        sample = self._sample()
        if sample is self._last_sample or not sample:
            return
        self._last_sample = sample
        if not self._number:
            return  # nothing ran yet: an idle kernel writes nothing
        self._report(
            "sample",
            {
                "exec": self._newest() if sample.get("running") else None,
                "ts": sample.get("ms"),
                "mem_bytes": sample.get("memory_bytes"),
                "cpu_usec": int(float(sample.get("cpu_seconds") or 0) * 1e6),
                "cpu_pct": sample.get("cpu_percent"),
                "mem_peak_bytes": sample.get("memory_peak_bytes"),
                "pids": sample.get("pids"),
                "disk_bytes": sample.get("disk_bytes"),
            },
        )

    def _note(self, kind: str, name: str, detail: dict[str, Any]) -> None:
        self._report(*session_events(kind, name, detail, self._newest()))

    def _report(self, kind: str, values: dict[str, Any]) -> None:
        if not self._settings.path:
            return
        if len(self._pending) >= _PENDING:
            kept = [report for report in self._pending if report[0] != "sample"]
            self._dropped += len(self._pending) - len(kept)
            self._pending = kept
            if len(kept) >= _PENDING:
                self._dropped += 1
                return
        self._pending.append((kind, values))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if self._flush_at is None and self._writer is not None:
            self._flush_at = time.monotonic() + FLUSH_SECONDS

    def _have_writer(self) -> bool:
        """Have a writer process, if one can be had."""
        self._start_at = None
        if self._writer is None and self._settings.path and self._writers < _WRITERS:
            self._writers += 1
            try:
                self._writer = AuditProcess(self._settings)
            except OSError as error:
                self._take({"state": "failing", "reason": f"fork: {error}", "remedy": "End some processes."})
                return False
            self._flush_soon()
        return self._writer is not None

    def _flush(self, token: int = 0, *, final: bool = False) -> bool:
        """Hand over all that waits; False where the writer does not take it now."""
        self._flush_at = None
        writer = self._writer
        if writer is None:
            return False
        if writer.full and not final and not token:
            writer.push()
            self._flush_at = time.monotonic() + FLUSH_SECONDS
            return False
        reports = [*self._pending, *self._refusals.reports(everything=final or token > 0)]
        self._pending = []
        if self._refusals.due:
            self._flush_at = time.monotonic() + self._refusals.due_seconds(FLUSH_SECONDS)
        taken = writer.give(reports, token)
        if writer.gone:
            self._hear()
        return taken

    def _durable(self) -> bool:
        """Have all that was reported on the disk; False where that does not happen in time."""
        end = time.monotonic() + DURABLE_SECONDS
        if not self._have_writer():
            return False
        self._token += 1
        token = self._token
        self._flush(token)
        while self._writer is not None and self._acknowledged < token and time.monotonic() < end:
            self._writer.push()
            if self._writer.wait(end - time.monotonic()):
                before = self._failures()
                self._hear()
                if self._failures() != before:
                    return False
        return self._acknowledged >= token

    def _failures(self) -> int:
        return int(self._state.get("failures") or 0)

    def _hear(self) -> None:
        """Take what the writer has said; one that has ended is reaped, and replaced at the next report."""
        writer = self._writer
        if writer is None:
            return
        for said in writer.receive():
            if "ack" in said:
                self._acknowledged = max(self._acknowledged, int(said["ack"]))
            else:
                self._take(said)
        if writer.gone:
            writer.close()
            self._writer = None
            self._pending.insert(0, ("run", self._run))  # the next one has to know whose rows it writes
            self._take(
                {"state": "failing", "reason": "The audit's writer ended.", "remedy": "Restart the kernel."}
            )
            self._start_at = time.monotonic() + _START_SECONDS if self._writers < _WRITERS else None

    def _take(self, said: dict[str, Any]) -> None:
        """Keep the writer's state, and tell the host where it is another one."""
        self._state = {**self._state, **said}
        state = self.state()
        told = tuple(state.get(name) for name in ("state", "reason", "lost", "late", "alerts_failed"))
        if told != self._told:
            first, self._told = not self._told, told
            if not (first and state["state"] == "on" and not state.get("lost")):
                self._send(protocol.EVENT_AUDIT, {"audit": state})
