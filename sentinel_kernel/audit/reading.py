"""Looking things up in the database: executions, what was refused in them, what they used."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

Row = dict[str, "Any"]

_EXECUTIONS = (
    "SELECT executions.*, runs.kernel, runs.workspace FROM executions LEFT JOIN runs ON runs.id = run_id"
)
_WORK = "NOT (coalesce(silent, 0) AND coalesce(command, '') IN ('%sentinel_limit', '%sentinel_files --json'))"
"""Pages that a client (the MCP server) fetches for itself, beside the history, run nobody's code and change nothing."""

# A flood is several rows, the first with all that is known at once, later ones with counts, the line, the words: max()
# passes over what is NULL.
_REFUSALS = """
    SELECT min(id) AS id, exec_id, min(ts) AS ts, max(coalesce(last_ts, ts)) AS last_ts,
        sum(coalesce(count, 1)) AS count,
        max(syscall_name) AS syscall_name, max(action) AS action, max(result) AS result, max(errno) AS errno,
        max(signal_name) AS signal_name, max(profile) AS profile, max(rule) AS rule, max(resource) AS resource,
        max(arguments) AS arguments, max(process) AS process, max(pid) AS pid, max(line) AS line,
        max(semantic_msg) AS semantic_msg, max(hint) AS hint, max(remedy) AS remedy,
        max(semantic_msg_zh) AS semantic_msg_zh, max(hint_zh) AS hint_zh,
        max(cause) AS cause, max(function) AS function, max(path) AS path
    FROM syscall_events
"""


def executions(
    connection: sqlite3.Connection,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    run_id: str | None = None,
    refused: bool = False,
    pages: bool = False,
    limit: int = 50,
) -> list[Row]:
    """Return the newest executions, newest first; ``pages``: with those that clients fetch for themselves."""
    conditions, values = [], []
    for condition, value in (
        ("start_ts >= ?", since_ms),
        ("start_ts < ?", until_ms),
        ("run_id = ?", run_id),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if refused:
        conditions.append("refusals > 0")
    if not pages:
        conditions.append(_WORK)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return _rows(connection, f"{_EXECUTIONS}{where} ORDER BY executions.id DESC LIMIT ?", [*values, limit])


def execution(connection: sqlite3.Connection, identifier: int) -> Row | None:
    """Return one execution with its run's columns; None where there is none."""
    query = "SELECT runs.*, executions.* FROM executions LEFT JOIN runs ON runs.id = run_id WHERE executions.id = ?"
    rows = _rows(connection, query, [identifier])
    return rows[0] if rows else None


def refusals(
    connection: sqlite3.Connection,
    *,
    exec_id: int | None = None,
    run_id: str | None = None,
    limit: int = 100,
) -> list[Row]:
    """Return what was refused or asked in an execution or a run, one row a kind, newest first."""
    where, value = ("exec_id = ?", exec_id) if exec_id is not None else ("run_id = ?", run_id)
    query = f"{_REFUSALS} WHERE {where} GROUP BY coalesce(violation_id, id), exec_id ORDER BY id DESC LIMIT ?"
    return _rows(connection, query, [value, limit])


def row_of(
    connection: sqlite3.Connection, *, run_id: str, violation_id: str, msg_id: str
) -> tuple[int | None, int | None]:
    """Return the first row about a violation, and the execution that it belongs to; None for what is not there."""
    first = connection.execute(
        "SELECT min(id), exec_id FROM syscall_events WHERE run_id = ? AND violation_id = ?",
        (run_id, violation_id),
    ).fetchone()
    if first is not None and first[0] is not None:
        return first[0], first[1]
    found = connection.execute(
        "SELECT max(id) FROM executions WHERE run_id = ? AND msg_id = ?", (run_id, msg_id)
    ).fetchone()
    return None, found[0] if found else None


def notes(
    connection: sqlite3.Connection, *, exec_id: int | None = None, run_id: str | None = None, limit: int = 50
) -> list[Row]:
    """Return what else happened (limits, changes of profile, deaths), newest first; ``detail`` is decoded."""
    where, value = ("exec_id = ?", exec_id) if exec_id is not None else ("run_id = ?", run_id)
    rows = _rows(
        connection,
        f"SELECT * FROM session_events WHERE {where} ORDER BY id DESC LIMIT ?",  # noqa: S608 - a condition of ours
        [value, limit],
    )
    for row in rows:
        try:
            row["detail"] = json.loads(row["detail"] or "null")
        except ValueError:
            continue  # shown as it is
    return rows


def samples(
    connection: sqlite3.Connection, *, exec_id: int | None = None, run_id: str | None = None, most: int = 600
) -> list[tuple[int, int, float]]:
    """Return time, memory and percent of a processor of the newest samples, oldest first."""
    where, value = ("exec_id = ?", exec_id) if exec_id is not None else ("run_id = ?", run_id)
    query = f"""
        SELECT ts, coalesce(mem_bytes, 0), coalesce(cpu_pct, 0.0) FROM resource_samples
        WHERE {where} ORDER BY id DESC LIMIT ?
    """  # noqa: S608 - a condition of ours
    return connection.execute(query, (value, most)).fetchall()[::-1]


def totals(connection: sqlite3.Connection, run_id: str) -> Row:
    """Return what a run came to: executions, failed and killed ones, refusals, kinds of refused calls.

    Pages that clients fetch for themselves are no executions here, as in executions().
    What no call was refused for (a hidden path, an absent package) is listed with the refusals, and not counted.
    """
    row = _rows(
        connection,
        f"""
        SELECT count(*) AS executions, coalesce(sum(status = 'error'), 0) AS failed,
            coalesce(sum(status = 'killed'), 0) AS killed, max(mem_peak_bytes) AS mem_peak_bytes,
            sum(cpu_seconds) AS cpu_seconds
        FROM executions WHERE run_id = ? AND {_WORK}
        """,  # noqa: S608 - a condition of ours
        [run_id],
    )[0]
    refused = """
        SELECT coalesce(sum(coalesce(count, 1)), 0), count(DISTINCT violation_id)
        FROM syscall_events WHERE run_id = ? AND syscall_name IS NOT NULL
    """
    row["refusals"], row["kinds"] = connection.execute(refused, (run_id,)).fetchone()
    return row


def _rows(connection: sqlite3.Connection, query: str, values: list[Any]) -> list[Row]:
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
