"""Rows for an audit database that is not written by a kernel, and looking into one that is."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.audit.rows import Rows
from sentinel_kernel.audit.schema import open_for_writing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def now_ms() -> int:
    """Return the time as rows hold it."""
    return int(time.time() * 1000)


def cell(
    number: int, ts: int | None = None, code: str = "x = 1", events: int = 2, samples: int = 3
) -> list[Any]:
    """Return the reports of one whole execution."""
    ts = now_ms() if ts is None else ts
    reports: list[Any] = [
        (
            "begin",
            {"exec": number, "start_ts": ts, "command": code, "profile": "strict", "limits": {"pids": 128}},
        )
    ]
    for index in range(events):
        event = {"exec": number, "ts": ts, "last_ts": ts, "count": 5, "violation_id": f"{number}-{index}"}
        reports.append(
            ("event", {**event, "syscall_name": "socket", "action": "NOTIFY", "result": "refused"})
        )
    reports += [("sample", {"exec": number, "ts": ts, "mem_bytes": 1 << 20, "cpu_pct": 12.5})] * samples
    reports.append(
        ("end", {"exec": number, "end_ts": ts, "status": "completed", "result": "ok", "refusals": 10})
    )
    return reports


def run(identifier: str = "run-1", ts: int | None = None) -> tuple[str, dict[str, Any]]:
    """Return the report that stands for a kernel."""
    return ("run", {"id": identifier, "started_ts": now_ms() if ts is None else ts, "uid": 0, "kernel": "k"})


def fill(path: Path, cells: int, ts: int | None = None) -> None:
    """Write so many executions, each with its rows."""
    connection = open_for_writing(str(path))
    rows = Rows(connection)
    rows.write([run(ts=ts)])
    for number in range(1, cells + 1):
        rows.write(cell(number, ts))
    connection.close()


@contextlib.contextmanager
def looked_into(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database as anybody with the sqlite3 module can."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()
