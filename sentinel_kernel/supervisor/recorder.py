"""Reports to the audit what runs, what is refused and what is used."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from sentinel_kernel.audit.place import REMEDY, make_place, settings_beside
from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.violation import Violation
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.audit_delivery import ANSWERED_SECONDS, DURABLE_SECONDS, AuditDelivery
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.recorded import (
    ALLOWED,
    Refusals,
    died,
    ended,
    in_force,
    note,
    started,
    used,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.network.connections import Connection

_SAME_SHARE = 16
_BUSY_PERCENT = 10.0


class Recorder(Keeper):
    """``send`` tells the host of the audit's state; ``sample`` returns the newest sample of what is used."""

    def __init__(
        self, send: Callable[[str, dict[str, Any]], None], sample: Callable[[], dict[str, Any]]
    ) -> None:
        """Record nothing before :meth:`configure`."""
        self._sample = sample
        self._last_sample: dict[str, Any] = {}
        self._last_idle_bytes = 0
        self._sandbox: dict[str, Any] = {}
        self._number = 0
        self._open: dict[str, int] = {}
        self._earlier: dict[int, dict[str, Any]] = {}
        """Execution -> the newest sample as it began: an earlier cell's."""
        self._refusals = Refusals()
        self._delivery = AuditDelivery(
            lambda state: send(protocol.EVENT_AUDIT, {"audit": state}), self._refusals
        )

    # --- what the supervisor tells

    def configure(self, message: dict[str, Any]) -> None:
        """Take the audit's settings and the kernel's facts from a start request."""
        asked = message.get("audit")
        asked = asked if isinstance(asked, dict) else {}
        environment = {**os.environ, **{str(name): str(value) for name, value in asked.items()}}
        settings = settings_beside(environment, str(message.get("workspace") or "/"))
        self._delivery.configure(settings, started(message, environment, sys.version.split()[0]))
        if settings.problem:
            self._delivery.failing(settings.problem, settings.remedy)
        elif settings.path:
            try:
                make_place(settings)
            except OSError as error:
                self._delivery.failing(f"{error.filename}: {error.strerror}.", REMEDY)

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Note what is in force from here on."""
        self._sandbox = {
            "profile": current.preparation.profile.name,
            "generation": generation,
            "rung": str(getattr(current, "rung", "full")),
            "backend": str(getattr(getattr(current, "backend", None), "name", "fallback")),
            "limits": in_force(current.preparation.plan.sizes),
            "pid": current.worker_pid,
        }
        self._note("sandbox", self._sandbox["profile"], dict(self._sandbox))

    def sandbox_gone(self, cause: dict[str, Any]) -> None:
        """End what still runs: the worker is gone."""
        status, result = died(cause)
        for msg_id in list(self._open):
            self._end(msg_id, status, result)
        if cause:
            self._note("died", result, cause)

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Note a cell that begins."""
        if not self._delivery.settings.path:
            return
        self._number += 1
        self._delivery.awake = True
        msg_id = str(message.get("msg_id") or "")
        if msg_id in self._open:
            self._end(msg_id, *ended({"status": "aborted"}))
        self._open[msg_id] = self._number
        self._earlier[self._number] = self._sample()
        self._refusals.begin(self._number, msg_id, message, self._sandbox)
        code = message.get("code")
        self._delivery.report(
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
                "silent": int(message.get("silent") is True or message.get("store_history") is False),
            },
        )

    def end_cell(self, message: dict[str, Any]) -> None:
        """Note a cell's end, with the last counts of what was refused in it."""
        msg_id = str(message.get("msg_id") or "")
        if msg_id in self._open:
            self._last_sample = self._sample()  # the cell's last; what is in it is in the end's row
            self._end(msg_id, *ended(message))

    def violation(self, violation: Violation) -> None:
        """Note a refusal, or its new count; a KILL is on the disk when this returns, or is counted as late."""
        if not self._delivery.settings.path:
            return
        self._refusals.add(violation, self._newest())
        self._delivery.soon()
        if violation.outcome == "killed" and not self._delivery.durable():
            self._late("KILL", violation)

    def explained(self, message: dict[str, Any], found: dict[str, Any]) -> None:
        """Note what an error was found to be of: what no call was held for, or what a refused one meant."""
        document = found.get("violation")
        if not self._delivery.settings.path or not isinstance(document, dict):
            return
        number = self._open.get(str(message.get("msg_id") or ""), self._newest())
        with contextlib.suppress(ProtocolError):  # then the host does not show it either
            self._refusals.add(Violation.from_json(document), number)
            self._delivery.soon()

    def connection(self, made: Connection) -> None:
        """Note a connection that is over, or was refused."""
        if not self._delivery.settings.path:
            return
        self._delivery.report(
            "connection",
            {
                "exec": self._newest(),
                "ts": made.started_ms,
                "end_ts": made.ended_ms,
                "host": made.host,
                "address": made.address,
                "port": made.port,
                "verdict": made.verdict,
                "rule": made.rule,
                "errno": made.error,
                "bytes_out": made.bytes_out,
                "bytes_in": made.bytes_in,
                "count": made.count,
            },
        )
        self._delivery.soon()

    def asking(self, violation: Violation) -> None:  # noqa: ARG002 - whatever it is about
        """Have a writer at hand when the answer comes."""
        self._delivery.soon()

    def answering(self, violation: Violation, answer: str) -> bool:
        """Note an ASK's answer; False where it did not get onto the disk in time.

        A call that is refused is refused all the same: then its row is counted as late.
        """
        if not self._delivery.settings.path:
            return not self._delivery.settings.problem
        if self._refusals.answer(violation, answer, self._newest()):
            self._delivery.soon()
            return self._delivery.works  # one more of a kind that is on the disk
        noted = self._delivery.durable(ANSWERED_SECONDS if answer in ALLOWED else DURABLE_SECONDS)
        if not noted and answer not in ALLOWED:
            self._late("ASK", violation)
        return noted

    def words(self, message: dict[str, Any]) -> None:
        """Add the words that the person was shown to a refusal."""
        if self._refusals.words(message):
            self._delivery.soon()

    def told(self, name: str, fields: dict[str, Any]) -> None:
        """Note what the host is told: limits that were reached."""
        if name == protocol.EVENT_LIMIT and isinstance(fields.get("limit"), dict):
            limit = fields["limit"]
            self._note("limit", f"{limit.get('name')} {limit.get('stage')}", limit)

    def changed(self, kind: str, name: str, told: dict[str, Any], current: Current | None) -> None:
        """Note a change of the profile (``kind`` profile) or of limits; ``told`` is what the host is answered."""
        if current is not None:
            self._sandbox["profile"] = current.preparation.profile.name
            self._sandbox["limits"] = in_force(current.preparation.plan.sizes)
        self._note(kind, name, told)

    def note(self, kind: str, name: str, detail: dict[str, Any]) -> None:
        """Note what was changed at the person's word: a folder that is shown."""
        self._note(kind, name, detail)

    def sync(self, done: Callable[[dict[str, Any]], None]) -> None:
        """Call ``done`` with the audit's state once all that was reported is written, or that takes too long."""
        self._delivery.sync(done)

    # --- the loop

    def due_seconds(self) -> float | None:
        """Return when something is to be handed over."""
        return self._delivery.due_seconds()

    def catch_up(self) -> dict[str, Any] | None:
        """Note the newest sample, hand over what is due."""
        self._take_sample()
        self._delivery.catch_up(idle=not self._open)
        return None

    def descriptors(self) -> Iterable[int]:
        """Return the writer's socket."""
        return self._delivery.descriptors()

    def serve(self, ready: dict[int, int]) -> None:
        """Take what the writer says."""
        self._delivery.serve(ready)

    def close(self) -> None:
        """Hand over the rest; the writer writes it whether we are there or not."""
        self._delivery.close()

    # --- small parts

    def _late(self, action: str, violation: Violation) -> None:
        self._delivery.late += 1
        self._note("late", action, {"violation": violation.id, "late": self._delivery.late})

    def _newest(self) -> int | None:
        return next(reversed(self._open.values())) if self._open else None

    def _end(self, msg_id: str, status: str, result: str) -> None:
        number = self._open.pop(msg_id)
        for report in self._refusals.reports(final=number):
            self._delivery.report(*report)
        sample = self._sample()
        if sample is self._earlier.pop(number, None):
            sample = {}  # it was too short for one of its own, or no worker ever had it
        self._delivery.report(
            "end",
            {
                "exec": number,
                "msg": msg_id,
                "end_ts": int(time.time() * 1000),
                "status": status,
                "result": result,
                "refusals": self._refusals.total(number),
                "mem_peak_bytes": sample.get("memory_peak_bytes"),
                "cpu_seconds": sample.get("cpu_seconds"),
            },
        )

    def _take_sample(self) -> None:
        """Note the newest sample, unless it is known, or says that nothing happens."""
        sample = self._sample()
        if sample is self._last_sample or not sample:
            return
        self._last_sample = sample
        if sample.get("running") or not self._is_idle(sample):
            number = self._newest() if sample.get("running") else None
            self._delivery.report("sample", {"exec": number, **used(sample)})

    def _is_idle(self, sample: dict[str, Any]) -> bool:
        """Tell whether a sample between cells is worth nothing: an idle kernel writes nothing."""
        memory = int(sample.get("memory_bytes") or 0)
        same = abs(memory - self._last_idle_bytes) * _SAME_SHARE < self._last_idle_bytes
        if not self._number or (same and float(sample.get("cpu_percent") or 0) < _BUSY_PERCENT):
            return True
        self._last_idle_bytes = memory
        return False

    def _note(self, kind: str, name: str, detail: dict[str, Any]) -> None:
        self._delivery.report("note", note(kind, name, detail, self._newest()))
