"""The writer process: takes reports from one supervisor, writes them in batches, says what it could not write.

Packets of the supervisor are JSON arrays ``[token, reports]``; a token above 0 asks for the reports to be on the disk
(synchronous=FULL) and is answered ``{"ack": token}``. The end of the socket is the end of the supervisor: what it had
handed over is still written.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time

from sentinel_kernel.audit.retention import keep_within
from sentinel_kernel.audit.rows import Rows
from sentinel_kernel.audit.schema import open_for_writing
from sentinel_kernel.errors import SentinelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import sqlite3
    from typing import Any

    from sentinel_kernel.audit.alerts import Alerts
    from sentinel_kernel.audit.place import AuditSettings
    from sentinel_kernel.audit.rows import Report

PACKET_BYTES = 160 * 1024
"""The longest packet; it fits the default send buffer of a socket."""

REST = "rest"
"""The report that says that the end that follows is meant: nothing runs."""

_KEPT = 5000
"""How many reports wait in memory while the database can't be written; samples beyond half of it are dropped."""
_RETRY_SECONDS = 1.0
_LAST_ATTEMPTS = 3
_LOOK_ROWS = 2000
_ALERT_SECONDS = 10.0


class Writer:
    """Serves one socket until its end."""

    def __init__(self, sock: socket.socket, settings: AuditSettings) -> None:
        """Take over ``sock``; nothing is opened before the first report."""
        self._sock = sock
        self._settings = settings
        self._rows: Rows | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._waiting: list[Report] = []
        self._tokens: list[int] = []
        self._lost: dict[str, int] = {}
        self._state: dict[str, Any] = {}
        self._alerts: Alerts | None = None
        self._told: dict[str, Any] = {}
        self._told_alerts = (0, 0)
        self._since_look = _LOOK_ROWS
        self._resting = False
        self._failures = 0

    def run(self) -> None:
        """Write until the supervisor is gone and all that it handed over is written, or can't be."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        ended = False
        while not ended:
            poll.poll(_RETRY_SECONDS * 1000 if self._waiting or self._alerts is not None else None)
            ended = self._receive()
            if self._waiting:
                self._write()
            self._tell_alerts()
        if self._rows is not None and not self._resting:
            self._waiting += self._rows.close_open("killed", "SupervisorDied")
        for attempt in range(_LAST_ATTEMPTS):
            if not self._waiting or self._write():
                break
            time.sleep(0.1 * (attempt + 1))
        if self._waiting:
            self._lose("row", len(self._waiting))
        if self._alerts is not None:
            self._alerts.close(_ALERT_SECONDS)
            self._tell_alerts()
        if self._connection is not None:
            self._connection.close()

    def _receive(self) -> bool:
        """Take every packet that is there; True at the end."""
        while True:
            try:
                packet = self._sock.recv(PACKET_BYTES)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                return True
            if not packet:
                return True
            token, reports = json.loads(packet)
            self._waiting += [(kind, values) for kind, values in reports if kind != REST]
            self._resting = any(kind == REST for kind, _ in reports)
            if token:
                self._tokens.append(token)
                self._write()
            if len(self._waiting) > _KEPT // 2:
                self._write()
                self._drop()

    def _drop(self) -> None:
        """Keep what waits within bounds: samples go first, then the oldest; how many is written once that can be."""
        if len(self._waiting) <= _KEPT // 2:
            return
        kept = [report for report in self._waiting if report[0] != "sample"]
        self._lose("sample", len(self._waiting) - len(kept))
        while len(kept) > _KEPT:
            kind, _ = kept.pop(0)
            self._lose(kind, 1)
        self._waiting = kept

    def _lose(self, kind: str, number: int) -> None:
        if number:
            self._lost[kind] = self._lost.get(kind, 0) + number
            self._tell_state()

    def _write(self) -> bool:
        """Write what waits; False where the database does not take it, which is told."""
        import sqlite3  # noqa: PLC0415 - it is loaded when the first row comes

        reports = self._waiting
        if self._lost:
            gap = {"ts": int(time.time() * 1000), "kind": "lost", "name": "rows", "detail": dict(self._lost)}
            reports = [*reports, ("note", gap)]
        tokens, self._tokens = self._tokens, []
        try:
            rows = self._opened()
            if tokens:
                rows.connection.execute("PRAGMA synchronous = FULL")
            written = rows.write(reports)
        except (sqlite3.Error, OSError, SentinelError) as error:
            self._broken(error)
            return False
        finally:
            if tokens and self._connection is not None:
                with contextlib.suppress(sqlite3.Error):  # the next failure is told of itself
                    self._connection.execute("PRAGMA synchronous = NORMAL")
        self._waiting, self._lost = [], {}
        for token in tokens:
            self._send({"ack": token})
        self._since_look += written.rows
        self._tell_state(on=True)
        self._alert(written.alerts)
        self._keep_within()
        return True

    def _connected(self) -> sqlite3.Connection:
        """Return the database; another one where the file was moved away: nobody would find the rows in it."""
        if self._connection is not None and self._file != _identity(self._settings.path):
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = open_for_writing(self._settings.path)
            self._file = _identity(self._settings.path)
        return self._connection

    def _opened(self) -> Rows:
        connection = self._connected()
        if self._rows is None:
            self._rows = Rows(connection)
        self._rows.use(connection)
        return self._rows

    def _broken(self, error: Exception) -> None:
        """Take note that the database does not take rows; what waits is tried again."""
        self._failures += 1
        remedy = getattr(error, "remedy", "") or _remedy(error, self._settings.path)
        message = getattr(error, "message", "") or str(error)
        self._state = {"state": "failing", "reason": message, "remedy": remedy}
        self._tell_state()
        self._drop()

    def _keep_within(self) -> None:
        """Prune now and then: what is too old, or too much."""
        if self._connection is None or self._since_look < _LOOK_ROWS:
            return
        import sqlite3  # noqa: PLC0415 - loaded already

        self._since_look = 0
        try:
            keep_within(self._connection, self._settings.days, self._settings.maximum_bytes)
        except (sqlite3.Error, SentinelError, OverflowError, TypeError, ValueError) as error:
            self._broken(
                error
            )  # the writer must outlive a setting, or an edited row, that can't be worked with

    def _alert(self, rows: list[dict[str, Any]]) -> None:
        if not rows or not self._settings.alert:
            return
        if self._alerts is None:
            from sentinel_kernel.audit.alerts import Alerts  # noqa: PLC0415 - only where it is asked for

            self._alerts = Alerts(self._settings.alert)
        for row in rows:
            self._alerts.tell(row)

    def _tell_alerts(self) -> None:
        if self._alerts is not None and (self._alerts.sent, self._alerts.failed) != self._told_alerts:
            self._told_alerts = (self._alerts.sent, self._alerts.failed)
            self._tell_state()

    def _tell_state(self, *, on: bool = False) -> None:
        if on:
            self._state = {"state": "on", "reason": "", "remedy": ""}
        alerts = self._alerts
        told = {
            **self._state,
            "failures": self._failures,
            "lost": sum(self._lost.values()),
            "alerts_sent": alerts.sent if alerts is not None else 0,
            "alerts_failed": alerts.failed if alerts is not None else 0,
            "alerts_reason": alerts.reason if alerts is not None else "",
        }
        if told != self._told:
            self._told = told
            self._send(told)

    def _send(self, message: dict[str, Any]) -> None:
        # The supervisor may be gone, or not reading: its words are news, not promises. Nothing waits for it.
        with contextlib.suppress(OSError):
            self._sock.send(json.dumps(message).encode("ascii"))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remedy(error: Exception, path: str) -> str:
    text = str(error).lower()
    if "full" in text or "no space" in text:
        return f"Free some space on the disk that holds {path}."
    if "readonly" in text or "permission" in text or "unable to open" in text or "read-only" in text:
        return f"Make {os.path.dirname(path)} a folder that you may write to, or set SENTINEL_AUDIT."
    if "not a database" in text or "malformed" in text:
        return f"Move {path} away; the next row makes a new one."
    return "Set SENTINEL_AUDIT to another file, or to off."
