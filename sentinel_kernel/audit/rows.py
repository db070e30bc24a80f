"""From what a supervisor reports to rows: executions that begin and end, refusals, samples, connections, notes."""

from __future__ import annotations

import contextlib
import os
import time

from sentinel_kernel.audit.chain import Chain
from sentinel_kernel.record import MutableRecord, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

_REMEMBERED = 500
"""How many executions of this kernel are known by the number that the supervisor gave them."""

_PARTS = {"event": "syscall_events", "sample": "resource_samples", "connection": "connections"}
"""Kind of a report -> the table of its row; all others are notes."""

Report = tuple[str, dict[str, "Any"]]
"""What kind of row, and its columns; ``exec`` in it is the supervisor's own number of the execution."""


class Written(MutableRecord):
    """What one transaction wrote."""

    rows: int = 0
    alerts: list[dict[str, Any]] = fresh(default_factory=list)


class Rows:
    """Writes the reports of one supervisor; it remembers what later ones refer to."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Write into ``connection``."""
        self.connection = connection
        self._executions: dict[int, int] = {}
        self._open: set[int] = set()
        self._run: dict[str, Any] = {}
        self._seen = False
        """The kernel's own row is there, in this transaction."""

    def use(self, connection: sqlite3.Connection) -> None:
        """Write into ``connection`` from here on; what another database holds is unknown in it."""
        if connection is not self.connection:
            self.connection = connection
            self._executions.clear()
            self._open.clear()

    def write(self, reports: Iterable[Report]) -> Written:
        """Write all reports, or none.

        Raises:
            sqlite3.Error: the database can't be written now; nothing was.

        """
        connection = self.connection
        before = (dict(self._executions), set(self._open), dict(self._run))
        written = Written()
        connection.execute("BEGIN IMMEDIATE")
        try:
            chain = Chain(connection)
            self._seen = False
            for kind, values in reports:
                self._one(chain, kind, values, written)
            chain.store()
            connection.execute("COMMIT")
        except BaseException:
            self._executions, self._open, self._run = before
            if connection.in_transaction:
                with contextlib.suppress(Exception):  # the first error is the one that tells
                    connection.execute("ROLLBACK")
            raise
        return written

    def close_open(self, status: str, result: str) -> list[Report]:
        """Return the ends of the executions that have none: their supervisor is gone."""
        now = int(time.time() * 1000)
        end = {"end_ts": now, "status": status, "result": result}
        return [("end", {"exec": number, **end}) for number in sorted(self._open)]

    def _one(self, chain: Chain, kind: str, values: dict[str, Any], written: Written) -> None:
        row = dict(values)
        number, msg_id = row.pop("exec", None), row.pop("msg", None)
        if kind == "run":
            self._run = {**row, "os_user": _user_name(row.get("uid"))}
            self._seen = False
        if self._run and not self._seen:
            self._see_run(chain, written)
        if kind == "run":
            return
        row["run_id"] = self._run.get("id")
        if kind == "begin":
            row["actor"] = _actor(self._run)
            self._executions[number] = chain.insert("executions.begin", row)
            self._open.add(number)
            while len(self._executions) > _REMEMBERED:
                self._executions.pop(next(iter(self._executions)))
        elif kind == "end":
            self._open.discard(number)
            row["id"] = self._execution(number, msg_id)
            if row["id"] is None or not chain.complete(row):
                return
        else:
            row["exec_id"] = self._execution(number, msg_id)
            part = _PARTS.get(kind, "session_events")
            row["id"] = chain.insert(part, row)
            if row.get("action") in ("KILL", "ASK") and row.get("count"):
                head = {"seq": chain.seq, "hash": chain.hash.hex(), "actor": _actor(self._run)}
                written.alerts.append({**row, **head, "machine": self._run.get("machine")})
        written.rows += 1

    def _execution(self, number: int | None, msg_id: str | None) -> int | None:
        """Return the id of an execution; one of an earlier writer of the same kernel is found by its request."""
        if number is None:
            return None
        known = self._executions.get(number)
        if known is None and msg_id:
            query = "SELECT max(id) FROM executions WHERE run_id = ? AND msg_id = ?"
            known = self.connection.execute(query, (self._run.get("id"), msg_id)).fetchone()[0]
        return known

    def _see_run(self, chain: Chain, written: Written) -> None:
        """Have the kernel's own row there: retention may have taken it while nothing was run."""
        self._seen = True
        there = self.connection.execute("SELECT 1 FROM runs WHERE id = ?", (self._run["id"],)).fetchone()
        if there is None:
            chain.insert("runs", self._run)
            written.rows += 1


def _actor(run: dict[str, Any]) -> str:
    """Return who it was in one line: the user, the hub's user, the client that speaks for them."""
    parts = [str(run.get("os_user") or run.get("uid") or "?")]
    if run.get("hub_user"):
        parts.append(f"hub:{run['hub_user']}")
    if run.get("client"):
        parts.append(f"via {run['client']}")
    return " ".join(parts)


def _user_name(uid: object) -> str:
    import pwd  # noqa: PLC0415 - the writer's alone

    try:
        return pwd.getpwuid(uid if isinstance(uid, int) else os.getuid()).pw_name
    except KeyError:
        return str(uid)
