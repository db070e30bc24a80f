"""The hash chain: every row's hash covers its content, its number and the hash of the row before it.

One chain runs over all tables and all kernels: rows are added under SQLite's write lock, and the chain's head is a row
of the database. Whoever may write the file can also compute a whole new chain; what holds against that is a head that
is kept elsewhere (alerts carry it; `sentinel-kernel audit verify --anchor`).
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math

from sentinel_kernel.audit.schema import ADDED, PARTS
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping
    from typing import Any

    from sentinel_kernel.audit.schema import Columns

START = bytes(32)
"""What stands for the hash before the first row."""

PRUNED = "pruned"
"""The kind of the row in session_events that says up to where rows were deleted by retention."""

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_LARGEST = (1 << 63) - 1


def _insert(part: str) -> str:
    table, columns, seq_column, hash_column = PARTS[part]
    names = [*(name for name, _ in columns), seq_column, hash_column]
    return f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join('?' * len(names))})"  # noqa: S608 - ours


def _completion() -> str:
    table, columns, seq_column, hash_column = PARTS["executions.end"]
    names = [*(name for name, _ in columns), seq_column, hash_column]
    changes = ", ".join(f"{name} = ?" for name in names)
    return f"UPDATE {table} SET {changes} WHERE id = ? AND {seq_column} IS NULL"  # noqa: S608 - names of ours


_INSERTS = {part: _insert(part) for part in PARTS if part != "executions.end"}
_COMPLETE = _completion()


class Fault(Record):
    """One place where the chain does not hold."""

    seq: int
    what: str


class Verification(Record):
    """What was found; ``seq`` and ``hash`` are the chain's head, ``pruned`` the number up to which rows were pruned."""

    rows: int
    pruned: int
    seq: int
    hash: str
    faults: tuple[Fault, ...]


class Chain:
    """Adds rows; to be made anew in each transaction, under the write lock, and stored before its end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read the head. Raises SentinelError where it is none: the file was edited."""
        self._connection = connection
        row = connection.execute("SELECT seq, hash FROM chain WHERE id = 1").fetchone()
        if row is None or not isinstance(row[0], int) or not isinstance(row[1], bytes):
            raise SentinelError(
                "The head of the audit's chain is damaged.",
                "Move the database away; the next row makes a new one.",
            )
        self.seq: int = row[0]
        self.hash: bytes = row[1]

    def insert(self, part: str, values: Mapping[str, Any]) -> int:
        """Add a row and return its id, which is the number that it has in the chain (runs bring their own id)."""
        fitted = _fitted(PARTS[part][1], values)
        if part != "runs":
            fitted[0] = self.seq + 1
        self._link(part, fitted)
        self._connection.execute(_INSERTS[part], (*fitted, self.seq, self.hash))
        return self.seq

    def complete(self, values: Mapping[str, Any]) -> bool:
        """Add the end to the execution ``values["id"]``; False where that row is not there, or has ended."""
        fitted = _fitted(PARTS["executions.end"][1], values)
        before = self.seq, self.hash
        self._link("executions.end", fitted)
        row = (*fitted, self.seq, self.hash, values["id"])
        if self._connection.execute(_COMPLETE, row).rowcount == 1:
            return True
        self.seq, self.hash = before
        return False

    def again(self, part: str, identifier: object) -> None:
        """Give a part of a row that is there a new place at the chain's end: its old place is pruned."""
        table, columns, seq_column, hash_column = PARTS[part]
        there = {row[1] for row in self._connection.execute(f"PRAGMA table_info({table})")}
        # A step that is carried out before the newest one does not have its columns yet.
        names = ",".join(name if name in there else "NULL" for name, _ in columns)
        row = self._connection.execute(
            f"SELECT {names} FROM {table} WHERE id = ?",  # noqa: S608 - names of ours
            (identifier,),
        ).fetchone()
        self._link(part, list(row))
        self._connection.execute(
            f"UPDATE {table} SET {seq_column} = ?, {hash_column} = ? WHERE id = ?",  # noqa: S608 - as above
            (self.seq, self.hash, identifier),
        )

    def store(self) -> None:
        """Write the head."""
        self._connection.execute("UPDATE chain SET seq = ?, hash = ? WHERE id = 1", (self.seq, self.hash))

    def _link(self, part: str, values: list[Any]) -> None:
        self.seq += 1
        self.hash = linked(self.hash, part, self.seq, values)


def linked(before: bytes, part: str, seq: int, values: list[Any]) -> bytes:
    """Return the hash of one row behind the hash ``before``."""
    added = ADDED.get(part, 0)
    while added and values[-1] is None:
        added, values = added - 1, values[:-1]
    return hashlib.sha256(before + _ENCODE([part, seq, *values]).encode("ascii")).digest()


def adopt(connection: sqlite3.Connection) -> None:
    """Begin the chain; rows that were there before it are taken in as they are."""
    highest = max(
        connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0]  # noqa: S608 - as above
        for table in ("executions", "syscall_events", "resource_samples")
    )
    # Ids are numbers of the chain: those of new rows must lie above the old ones.
    connection.execute("INSERT INTO chain (id, seq, hash) VALUES (1, ?, ?)", (highest, START))
    chain = Chain(connection)
    for part in ("executions.begin", "executions.end", "syscall_events", "resource_samples"):
        ended = " WHERE end_ts IS NOT NULL" if part == "executions.end" else ""
        query = f"SELECT id FROM {PARTS[part][0]}{ended} ORDER BY id"  # noqa: S608 - as above
        for (identifier,) in connection.execute(query).fetchall():
            chain.again(part, identifier)
    if highest:
        detail = json.dumps(
            {"up_to": highest, "hash": START.hex(), "rows": 0, "why": "older file taken over"}
        )
        chain.insert("session_events", {"ts": 0, "kind": PRUNED, "detail": detail})
    chain.store()


def entries(connection: sqlite3.Connection) -> Iterator[tuple[int, str, bytes | None, list[Any]]]:
    """Yield number, part, hash and hashed values of every row in the chain's order."""
    return heapq.merge(*(_entries(connection, part) for part in PARTS), key=lambda entry: entry[0])


def _entries(connection: sqlite3.Connection, part: str) -> Iterator[tuple[int, str, bytes | None, list[Any]]]:
    table, columns, seq_column, hash_column = PARTS[part]
    names = ",".join(name for name, _ in columns)
    ended = " WHERE end_seq IS NOT NULL OR end_ts IS NOT NULL" if part == "executions.end" else ""
    query = (
        f"SELECT {seq_column}, {hash_column}, {names} FROM {table}{ended} "  # noqa: S608 - names of ours
        f"ORDER BY {seq_column}"
    )
    for row in connection.execute(query):
        stored = row[1] if isinstance(row[1], bytes) else None
        yield (row[0] if isinstance(row[0], int) else 0), part, stored, list(row[2:])


def verify(connection: sqlite3.Connection, most_faults: int = 20) -> Verification:
    """Walk the whole chain in one view of the database.

    Raises:
        sqlite3.Error: the database can't be read.

    """
    connection.execute("BEGIN")
    try:
        return _verify(connection, most_faults)
    finally:
        connection.execute("COMMIT")


def _verify(connection: sqlite3.Connection, most_faults: int) -> Verification:
    faults: list[Fault] = []
    pruned, before = _anchor(connection, faults)
    expected: int = pruned
    known: bytes | None = before
    rows = 0
    for seq, part, stored, values in entries(connection):
        rows += 1
        where = f"{part} {values[0]}"
        if seq <= pruned or seq <= expected:
            faults.append(Fault(seq, f"{where} has a place in the chain that is another row's, or pruned"))
        else:
            if seq > expected + 1:
                many = f"{expected + 1} to {seq - 1}" if seq > expected + 2 else str(seq - 1)
                faults.append(Fault(expected + 1, f"rows are missing: number {many}"))
                known = None
            if known is not None and not _holds(stored, known, part, seq, values):
                faults.append(Fault(seq, f"{where} was changed or moved"))
            expected, known = seq, stored
        if len(faults) >= most_faults:
            break
    head = connection.execute("SELECT seq, hash FROM chain WHERE id = 1").fetchone()
    if head is None:
        faults.append(Fault(expected, "the chain's head is missing"))
        head = (expected, known or START)
    elif not isinstance(head[0], int) or not isinstance(head[1], bytes):
        faults.append(Fault(expected, "the chain's head was changed"))
        head = (expected, known or START)
    elif len(faults) < most_faults and (head[0] != expected or (known is not None and head[1] != known)):
        faults.append(Fault(expected, f"rows are missing at the end: the head is number {head[0]}"))
    return Verification(rows, pruned, head[0], head[1].hex(), tuple(faults))


def _holds(stored: bytes | None, before: bytes, part: str, seq: int, values: list[Any]) -> bool:
    try:
        return linked(before, part, seq, values) == stored
    except (TypeError, ValueError):
        return False  # a value of a kind that is never written


def _anchor(connection: sqlite3.Connection, faults: list[Fault]) -> tuple[int, bytes]:
    """Return number and hash of the last row that was pruned, as the newest such note says."""
    row = connection.execute(
        "SELECT seq, detail FROM session_events WHERE kind = ? ORDER BY seq DESC LIMIT 1", (PRUNED,)
    ).fetchone()
    if row is None:
        return 0, START
    try:
        detail = json.loads(row[1])
        return int(detail["up_to"]), bytes.fromhex(detail["hash"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        faults.append(Fault(row[0], "the note on what was pruned can't be read"))
        return 0, START


def hash_at(connection: sqlite3.Connection, seq: int) -> bytes | None:
    """Return the hash of the row with one number, None where there is none."""
    for table, _, seq_column, hash_column in PARTS.values():
        row = connection.execute(
            f"SELECT {hash_column} FROM {table} WHERE {seq_column} = ?",  # noqa: S608 - names of ours
            (seq,),
        ).fetchone()
        if row is not None and isinstance(row[0], bytes):
            return row[0]
    return None


def _fitted(columns: Columns, values: Mapping[str, Any]) -> list[Any]:
    """Return the values as SQLite will give them back: what is hashed is what is read."""
    return [_fit(kind, values.get(name)) for name, kind in columns]


def _fit(kind: str, value: object) -> object:
    if value is None:
        return None
    if kind == "TEXT":
        text = value if isinstance(value, str) else _ENCODE(value)
        # A lone surrogate has no UTF-8: SQLite would not take it.
        return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
    if not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(value) if kind == "REAL" else max(-_LARGEST, min(_LARGEST, int(value)))
