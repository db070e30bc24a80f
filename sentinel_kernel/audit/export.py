"""Writing tables out as CSV, JSON lines or Parquet, so that no cell's text can harm who opens the file."""

from __future__ import annotations

import csv
import json
import os
import re
import stat

from sentinel_kernel.audit.schema import TABLES
from sentinel_kernel.errors import SentinelError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from typing import Any, TextIO

FORMATS = ("csv", "jsonl", "parquet")

_TIMES = {"runs": "started_ts", "executions": "start_ts"}
_FORMULA = re.compile('(^|[;,|\t\n]"*)(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])')
"""Where a formula begins (ASCII or of full width): with the text, or behind what a reader may take for a separator.

Quotes in between are such a reader's own.
"""
_A_TIME = 5000

_UNSHOWN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tab and new line, and what parts or reorders text: a terminal obeys them."""


def rows(
    connection: sqlite3.Connection, table: str, since_ms: int | None, until_ms: int | None
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the columns of a table and its rows of a time, oldest first; hashes as hexadecimal text."""
    if table not in TABLES:
        raise SentinelError(f"There is no table {table!r}.", f"Tables are {', '.join(TABLES)}.")
    column = _TIMES.get(table, "ts")
    query = f"SELECT * FROM {table} WHERE {column} >= ? AND {column} < ? ORDER BY rowid"  # noqa: S608 - names of ours
    bounds = (since_ms if since_ms is not None else -(1 << 62), until_ms if until_ms is not None else 1 << 62)
    cursor = connection.execute(query, bounds)
    names = [description[0] for description in cursor.description]
    return names, (
        tuple(value.hex() if isinstance(value, bytes) else value for value in row) for row in cursor
    )


def write_csv(names: list[str], table: Iterator[tuple[Any, ...]], file: TextIO) -> int:
    """Write a table with its header; return how many rows.

    A spreadsheet takes text that begins with one of ``= + - @`` for a formula: an apostrophe keeps it text, also within
    a cell, behind what separates cells in other places (``;``, tab). Control characters are spelled out: exports are
    shown in terminals, too. Who needs texts as they are takes JSON lines.
    """
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    count = 0
    for count, row in enumerate(table, 1):  # noqa: B007 - it is what is returned
        writer.writerow([_harmless(value) for value in row])
    return count


def write_jsonl(name: str, names: list[str], table: Iterator[tuple[Any, ...]], file: TextIO) -> int:
    """Write one JSON object a line, pure ASCII; return how many."""
    count = 0
    for count, row in enumerate(table, 1):  # noqa: B007 - as above
        file.write(
            json.dumps({"table": name, **dict(zip(names, row, strict=True))}, ensure_ascii=True) + "\n"
        )
    return count


def write_parquet(
    connection: sqlite3.Connection, name: str, names: list[str], table: Iterator[tuple[Any, ...]], path: str
) -> int:
    """Write a table as a Parquet file; return how many rows.

    Raises:
        SentinelError: pyarrow is not installed.
        OSError: the file can't be made.

    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - as above
    except ImportError as error:
        raise SentinelError(
            "Parquet files are written by pyarrow, which is not installed here.",
            "Install it: pip install 'sentinel-jupyter-kernel[audit]'",
        ) from error
    kinds = {"INTEGER": pa.int64(), "REAL": pa.float64()}
    declared = {
        column[1]: kinds.get(column[2], pa.string())
        for column in connection.execute(f"PRAGMA table_info({name})")
    }
    open_output(path).close()
    schema = pa.schema([(column, declared[column]) for column in names])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := _some(table):
            count += len(batch)
            columns = [
                pa.array(values, schema.field(index).type)
                for index, values in enumerate(zip(*batch, strict=True))
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    return count


def open_output(path: str) -> TextIO:
    """Open a new or emptied file of the user's alone: what cells did is nobody else's business. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)  # one that was there keeps its mode otherwise
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    # newline="": the csv module ends lines itself.
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")


def _some(table: Iterator[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    batch = []
    for row in table:
        batch.append(row)
        if len(batch) >= _A_TIME:
            break
    return batch


def _harmless(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = _FORMULA.sub(r"\1'", _UNSHOWN.sub(_spelled, value))
    return f"'{text}" if text.startswith(("\t", "\n")) else text


def _spelled(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
