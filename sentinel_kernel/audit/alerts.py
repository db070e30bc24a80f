"""Tells syslog or a webhook of KILL and ASK rows, in a thread of the writer's: a slow receiver holds up nothing."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WAITING = 100
_SECONDS = 10.0
_TEXT_CHARACTERS = 300
_SYSLOG_CHARACTERS = 1800

SYSLOG = "/dev/log"
_PRIORITY = 4 << 3 | 4
"""Facility auth, severity warning (RFC 3164, 4.1.1)."""

_TOLD = (
    "ts",
    "action",
    "result",
    "syscall_name",
    "profile",
    "rule",
    "semantic_msg",
    "cell_id",
    "line",
    "actor",
    "machine",
    "run_id",
    "exec_id",
    "seq",
    "hash",
)


class Alerts:
    """At most a hundred wait; what does not fit, or can't be delivered, is counted."""

    def __init__(self, target: str) -> None:
        """Start the thread; ``target`` is "syslog" or an http(s) address."""
        self._target = target
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(_WAITING)
        self.sent = 0
        self.failed = 0
        self.reason = ""
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
        self._thread.start()

    def tell(self, row: dict[str, Any]) -> None:
        """Queue one alert."""
        try:
            self._queue.put_nowait({name: row.get(name) for name in _TOLD})
        except queue.Full:
            self.failed += 1
            self.reason = "too many alerts wait"

    def close(self, seconds: float) -> None:
        """Wait a little for what is queued."""
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _run(self) -> None:
        while (alert := self._queue.get()) is not None:
            try:
                if self._target == "syslog":
                    _to_syslog(alert)
                else:
                    _to_webhook(self._target, alert)
                self.sent += 1
            except Exception as error:  # noqa: BLE001 - whatever the receiver does, the next alert is tried, and this counted
                self.failed += 1
                self.reason = str(error)[:_TEXT_CHARACTERS]


def _to_syslog(alert: dict[str, Any]) -> None:
    # The C library's syslog(3) says nothing where nobody listens. The form is the one that it sends (RFC 3164).
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_SECONDS)
        sock.connect(SYSLOG)
        # One line of ASCII: nothing that came from a cell can forge another line.
        told = json.dumps(alert, ensure_ascii=True)[:_SYSLOG_CHARACTERS]
        sock.send(f"<{_PRIORITY}>sentinel-kernel[{os.getpid()}]: {told}".encode("ascii"))


def _to_webhook(address: str, alert: dict[str, Any]) -> None:
    import urllib.request  # noqa: PLC0415 - only where it is asked for

    request = urllib.request.Request(  # noqa: S310 - its scheme was checked with the settings
        address,
        json.dumps(alert).encode("ascii"),
        {"Content-Type": "application/json", "User-Agent": "sentinel-kernel"},
    )
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - as above
        answer.read(1024)
