"""Keeps the database within its age and size; the rest of the chain stays verifiable behind what was deleted."""

from __future__ import annotations

import json
import time

from sentinel_kernel.audit.chain import PRUNED, START, Chain, hash_at
from sentinel_kernel.audit.schema import PARTS
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_DAY_MS = 86_400_000
_MOST_DAYS = 36_500.0
"""More is the same, and a time that SQLite has no number for."""
_LOOK_MS = 6 * 3_600_000
_FULL = 0.8
"""A database that is too large is brought down to this share of its size: not again at every row."""
_RUNNING_MS = 7 * _DAY_MS
"""An execution without an end that is older than this runs no more: its writer was killed."""
_ATTEMPTS = 6
_PAGES_A_TIME = 256


class Pruned(Record):
    """What one pruning did."""

    rows: int
    up_to: int


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of what the database holds, without free pages and without the log beside it."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def keep_within(connection: sqlite3.Connection, days: float, maximum_bytes: int) -> None:
    """Prune if the database is too large, or was not looked at for hours. Raises sqlite3.Error."""
    now = int(time.time() * 1000)
    looked: int = connection.execute("SELECT pruned_ts FROM chain").fetchone()[0]
    if used_bytes(connection) <= maximum_bytes and 0 <= now - looked < _LOOK_MS:
        return
    connection.execute("UPDATE chain SET pruned_ts = ?", (now,))
    prune(connection, days, maximum_bytes)


def prune(connection: sqlite3.Connection, days: float, maximum_bytes: int) -> Pruned:
    """Delete what is older than ``days``, then the oldest until what is left fits in ``maximum_bytes``.

    Raises:
        sqlite3.Error: the database can't be changed; every step is whole or not done.

    """
    rows, up_to = 0, 0
    cutoff = int(time.time() * 1000 - min(days, _MOST_DAYS) * _DAY_MS)
    bounds = [_first_since(connection, cutoff)]
    for _ in range(_ATTEMPTS):
        bound = bounds.pop() if bounds else _by_size(connection, maximum_bytes)
        if bound <= 0:
            if used_bytes(connection) <= maximum_bytes:
                break
            continue
        done = _prune_to(connection, bound, why="age" if cutoff and rows == 0 and not up_to else "size")
        rows, up_to = rows + done.rows, max(up_to, done.up_to)
        _give_back(connection)
    return Pruned(rows, up_to)


def _first_since(connection: sqlite3.Connection, cutoff: int) -> int:
    """Return the number of the last row before the first one that is young enough; 0 where all are."""
    youngest: list[int] = []
    oldest_old = False
    for part, column in (
        ("executions.begin", "start_ts"),
        ("executions.end", "end_ts"),
        ("syscall_events", "last_ts"),
        ("resource_samples", "ts"),
        ("session_events", "ts"),
        ("connections", "ts"),
    ):
        table, _, seq, _ = PARTS[part]
        young = connection.execute(
            f"SELECT min({seq}) FROM {table} WHERE {column} >= ? AND {seq} IS NOT NULL",  # noqa: S608
            (cutoff,),
        ).fetchone()[0]
        old = connection.execute(
            f"SELECT 1 FROM {table} WHERE {column} < ? LIMIT 1",  # noqa: S608 - names of ours
            (cutoff,),
        ).fetchone()
        oldest_old = oldest_old or old is not None
        if young is not None:
            youngest.append(young)
    if not oldest_old:
        return 0
    head: int = connection.execute("SELECT seq FROM chain").fetchone()[0]
    return min(youngest) - 1 if youngest else head


def _by_size(connection: sqlite3.Connection, maximum_bytes: int) -> int:
    used = used_bytes(connection)
    if used <= maximum_bytes:
        return 0
    lowest = [
        row[0]
        for table, _, seq, _ in PARTS.values()
        if (row := connection.execute(f"SELECT min({seq}) FROM {table}").fetchone())[0]  # noqa: S608
    ]
    head: int = connection.execute("SELECT seq FROM chain").fetchone()[0]
    if not lowest:
        return 0
    first: int = min(lowest)
    return first + int((head - first) * (1 - _FULL * maximum_bytes / used))


def _prune_to(connection: sqlite3.Connection, bound: int, why: str) -> Pruned:
    """Delete the rows up to the number ``bound``; what must stay of them gets a new place at the chain's end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        chain = Chain(connection)
        # A number between two rows is none that a hash is known of: the last row before it is.
        highest = [
            row[0]
            for table, _, seq, _ in PARTS.values()
            if (
                row := connection.execute(
                    f"SELECT max({seq}) FROM {table} WHERE {seq} <= ?",  # noqa: S608 - names of ours
                    (bound,),
                ).fetchone()
            )[0]
        ]
        up_to = max(highest, default=0)
        before = (hash_at(connection, up_to) or START) if up_to else START
        rows = _delete(connection, chain, up_to) if up_to else 0
        if up_to:
            detail = {"up_to": up_to, "hash": before.hex(), "rows": rows, "why": why}
            note = {"ts": int(time.time() * 1000), "kind": PRUNED, "name": why, "detail": json.dumps(detail)}
            chain.insert("session_events", note)
            chain.store()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has ended it already, and that error is the one to tell
            connection.execute("ROLLBACK")
        raise
    return Pruned(rows, up_to)


def _delete(connection: sqlite3.Connection, chain: Chain, up_to: int) -> int:
    rows = 0
    for table in ("syscall_events", "resource_samples", "session_events", "connections"):
        rows += connection.execute(f"DELETE FROM {table} WHERE seq <= ?", (up_to,)).rowcount  # noqa: S608
    running = int(time.time() * 1000) - _RUNNING_MS
    rows += connection.execute(
        "DELETE FROM executions WHERE begin_seq <= ? AND (end_seq <= ? OR (end_seq IS NULL AND start_ts < ?))",
        (up_to, up_to, running),
    ).rowcount
    for part in ("executions.begin", "executions.end"):
        column = PARTS[part][2]
        for (identifier,) in connection.execute(
            f"SELECT id FROM executions WHERE {column} <= ? ORDER BY {column}",  # noqa: S608 - names of ours
            (up_to,),
        ).fetchall():
            chain.again(part, identifier)
    rows += connection.execute(
        "DELETE FROM runs WHERE seq <= ? AND id NOT IN (SELECT run_id FROM executions WHERE run_id IS NOT NULL)",
        (up_to,),
    ).rowcount
    for (identifier,) in connection.execute(
        "SELECT id FROM runs WHERE seq <= ? ORDER BY seq", (up_to,)
    ).fetchall():
        chain.again("runs", identifier)
    return rows


def _give_back(connection: sqlite3.Connection) -> None:
    """Give free pages back to the file system, a few at a time: other kernels write meanwhile."""
    while (free := connection.execute("PRAGMA freelist_count").fetchone()[0]) > 0:
        connection.execute(f"PRAGMA incremental_vacuum({_PAGES_A_TIME})").fetchall()
        if connection.execute("PRAGMA freelist_count").fetchone()[0] >= free:
            break
