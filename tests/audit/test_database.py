"""The audit's database: private, chained, bounded, and brought up to date from older files."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest
from audit_rows import cell, fill, looked_into, now_ms, run

from sentinel_kernel.audit import chain, reading, retention
from sentinel_kernel.audit.place import default_path, read_audit_settings, settings_beside
from sentinel_kernel.audit.rows import Rows
from sentinel_kernel.audit.schema import (
    APPLICATION_ID,
    VERSION,
    open_for_reading,
    open_for_writing,
)
from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

DAY_MS = 86_400_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def faults(path: Path) -> list[str]:
    connection = open_for_reading(str(path))
    try:
        return [f"{fault.seq}: {fault.what}" for fault in chain.verify(connection).faults]
    finally:
        connection.close()


def test_the_file_is_its_owners_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        connection = open_for_writing(str(path))
        Rows(connection).write([run(), *cell(1)])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert modes == {"audit.db": 0o600, "audit.db-wal": 0o600, "audit.db-shm": 0o600}


def test_a_link_in_the_files_place_is_not_followed(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "other"
    target.write_bytes(b"")
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        open_for_writing(str(path))


def test_the_seeds_tables_and_columns_are_there(path: Path) -> None:
    fill(path, 1)
    wanted = {
        "executions": "id profile pid command start_ts end_ts status",
        "syscall_events": "id exec_id ts pid syscall_nr syscall_name action errno signal_name path semantic_msg",
        "resource_samples": "id exec_id ts mem_bytes cpu_usec cpu_pct",
    }
    with looked_into(path) as connection:
        for table, columns in wanted.items():
            there = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            assert set(columns.split()) <= set(there)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_untouched_rows_are_found_to_be_so(path: Path) -> None:
    fill(path, 20)
    assert faults(path) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("UPDATE syscall_events SET syscall_name = 'openat' WHERE id = 3", "3: syscall_events 3 was changed"),
        ("UPDATE executions SET command = 'y = 2' WHERE id = 2", "2: executions.begin 2 was changed"),
        ("UPDATE executions SET status = 'completed!' WHERE id = 2", "8: executions.end 2 was changed"),
        ("UPDATE resource_samples SET mem_bytes = NULL WHERE id = 5", "5: resource_samples 5 was changed"),
        ("UPDATE runs SET os_user = 'somebody'", "1: runs run-1 was changed"),
        ("DELETE FROM syscall_events WHERE id = 4", "4: rows are missing: number 4"),
        ("DELETE FROM executions WHERE id = 2", "2: rows are missing: number 2"),
        ("DELETE FROM syscall_events", "3: rows are missing: number 3 to 4"),
        ("DELETE FROM runs", "1: rows are missing: number 1"),
        ("UPDATE chain SET seq = seq - 1", "the head is number"),
    ],
)
def test_a_row_that_was_edited_or_deleted_is_named(path: Path, change: str, expected: str) -> None:
    fill(path, 4)
    with looked_into(path) as connection:
        assert connection.execute(change).rowcount > 0
    found = faults(path)
    assert any(expected in fault for fault in found), found
    assert len(found) <= 5


def test_rows_that_changed_places_are_named(path: Path) -> None:
    fill(path, 4)
    with looked_into(path) as connection:
        rows = dict(connection.execute("SELECT id, hash FROM syscall_events WHERE id IN (3, 4)").fetchall())
        connection.execute("UPDATE syscall_events SET seq = 7 - seq WHERE id IN (3, 4)")
        assert len(rows) == 2
    assert any("was changed or moved" in fault for fault in faults(path))


def test_rows_cut_off_at_the_end_are_named_unless_the_head_was_cut_too_then_an_anchor_tells(
    path: Path,
) -> None:
    fill(path, 4)
    connection = open_for_reading(str(path))
    head = chain.verify(connection)
    connection.close()
    with looked_into(path) as connection:
        last = connection.execute("SELECT max(id) FROM executions").fetchone()[0]
        for table, column in (("executions", "id"), ("syscall_events", "id"), ("resource_samples", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {column} >= ?", (last,))
    assert any("rows are missing at the end" in fault for fault in faults(path))
    with looked_into(path) as connection:
        seq, digest = connection.execute(
            "SELECT end_seq, end_hash FROM executions ORDER BY end_seq DESC"
        ).fetchone()
        connection.execute("UPDATE chain SET seq = ?, hash = ?", (seq, digest))
    assert faults(path) == []  # whoever rewrites the head too leaves no trace inside
    connection = open_for_reading(str(path))
    assert chain.hash_at(connection, head.seq) is None  # outside there is one
    connection.close()


def total(connection: sqlite3.Connection) -> int:
    return sum(
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("executions", "syscall_events", "resource_samples")
    )


def test_what_is_too_old_goes_and_the_rest_stays_verifiable(path: Path) -> None:
    old, new = now_ms() - 10 * DAY_MS, now_ms()
    connection = open_for_writing(str(path))
    rows = Rows(connection)
    rows.write([run("old", old), *(report for number in range(1, 30) for report in cell(number, old))])
    rows.write([run("new", new), ("begin", {"exec": 40, "start_ts": new - 1000}), *cell(41, new)])
    assert retention.prune(connection, days=5, maximum_bytes=1 << 30).rows == 29 * 6 + 1
    assert connection.execute("SELECT id FROM runs").fetchall() == [("new",)]
    assert total(connection) == 1 + 6
    # A cell that runs on may end behind it, and prunings may follow.
    rows.write([("end", {"exec": 40, "end_ts": new, "status": "completed"}), *cell(42, new)])
    assert retention.prune(connection, days=5, maximum_bytes=1 << 30).rows == 0
    found = chain.verify(connection)
    connection.close()
    assert found.faults == ()
    assert found.pruned > 0
    with looked_into(path) as other:
        other.execute("DELETE FROM session_events WHERE kind = 'pruned'")
    assert faults(path) != []


def test_what_is_too_much_goes_oldest_first(path: Path) -> None:
    fill(path, 400)
    connection = open_for_writing(str(path))
    before = retention.used_bytes(connection)
    retention.prune(connection, days=90, maximum_bytes=before // 3)
    assert retention.used_bytes(connection) <= before // 3
    kept = [row["id"] for row in reading.executions(connection, limit=1000)]
    assert kept
    assert max(kept) == connection.execute("SELECT max(id) FROM executions").fetchone()[0]
    assert chain.verify(connection).faults == ()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    assert path.stat().st_size <= before // 2  # given back to the file system


def test_an_older_file_is_taken_over_with_its_rows(path: Path) -> None:
    open_for_writing(str(path), steps=1).close()
    with looked_into(path) as connection:
        connection.execute("INSERT INTO executions VALUES (7, 'strict', 1, 'print()', 5, 6, 'completed')")
        connection.execute("INSERT INTO executions VALUES (9, 'strict', 1, 'sleep', 7, NULL, NULL)")
        connection.execute(
            "INSERT INTO syscall_events VALUES (30, 7, 5, 1, 41, 'socket', 'NOTIFY', 1, 'EPERM', NULL, 'no')"
        )
        connection.execute("INSERT INTO resource_samples VALUES (2, 7, 5, 1000, 10, 50.5)")
    with pytest.raises(SentinelError, match="older version"):
        open_for_reading(str(path))
    connection = open_for_writing(str(path))
    Rows(connection).write([run(), *cell(1)])
    assert connection.execute("PRAGMA user_version").fetchone()[0] == VERSION
    assert [row["command"] for row in reading.executions(connection)] == ["x = 1", "sleep", "print()"]
    assert reading.refusals(connection, exec_id=7)[0]["count"] == 1
    assert connection.execute("SELECT min(id) > 30 FROM executions WHERE command = 'x = 1'").fetchone() == (
        1,
    )
    connection.close()
    assert faults(path) == []
    with looked_into(path) as connection:
        connection.execute("UPDATE executions SET command = 'harmless' WHERE id = 7")
    assert any("executions.begin 7" in fault for fault in faults(path))


def test_columns_that_came_later_leave_the_hashes_of_older_rows_as_they_are(path: Path) -> None:
    fill(path, 3)
    with looked_into(path) as connection:  # as it was before the third step
        for column in ("function", "cause"):
            connection.execute(f"ALTER TABLE syscall_events DROP COLUMN {column}")
        connection.execute("DROP TABLE connections")
        connection.execute("PRAGMA user_version = 2")
    connection = open_for_writing(str(path))
    event = {"exec": 9, "ts": now_ms(), "count": 1, "violation_id": "h", "cause": "path_hidden", "path": "/x"}
    Rows(connection).write([run(), *cell(9), ("event", event)])
    newest = reading.refusals(connection, run_id="run-1")[0]
    assert (newest["cause"], newest["path"], newest["syscall_name"]) == ("path_hidden", "/x", None)
    assert reading.totals(connection, "run-1")["refusals"] == 4 * 10
    connection.close()
    assert faults(path) == []
    for change in ("cause = NULL WHERE cause = 'path_hidden'", "function = 'f' WHERE exec_id = 2"):
        with looked_into(path) as connection:
            before = dict(connection.execute("SELECT id, cause || '' FROM syscall_events").fetchall())
            connection.execute(f"UPDATE syscall_events SET {change}")
        assert faults(path), change
        with looked_into(path) as connection:
            connection.executemany(
                "UPDATE syscall_events SET cause = ?, function = NULL WHERE id = ?",
                [(cause, number) for number, cause in before.items()],
            )
        assert faults(path) == []


def test_a_connection_is_a_row_of_its_own_and_part_of_the_chain(path: Path) -> None:
    fill(path, 1)
    connection = open_for_writing(str(path))
    made = {
        "exec": 9,
        "ts": now_ms(),
        "host": "example.org",
        "port": 443,
        "verdict": "allowed",
        "bytes_out": 7,
    }
    Rows(connection).write([run(), *cell(9), ("connection", made)])
    found = connection.execute("SELECT host, port, verdict, bytes_out, exec_id FROM connections").fetchall()
    connection.close()
    assert [row[:4] for row in found] == [("example.org", 443, "allowed", 7)]
    assert found[0][4] is not None
    assert faults(path) == []
    with looked_into(path) as edited:
        edited.execute("UPDATE connections SET bytes_out = 0")
    assert faults(path)


def test_a_newer_file_and_a_foreign_one_are_left_alone(path: Path, tmp_path: Path) -> None:
    fill(path, 1)
    with looked_into(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    content = path.read_bytes()
    for opened in (open_for_writing, open_for_reading):
        with pytest.raises(SentinelError, match="newer Sentinel Kernel") as refused:
            opened(str(path))
        assert "SENTINEL_AUDIT" in refused.value.remedy
    assert path.read_bytes() == content
    other = tmp_path / "other.db"
    with looked_into(other) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        assert connection.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,)
    with pytest.raises(SentinelError, match="something else"):
        open_for_writing(str(other))


def test_settings_are_read_or_named_as_a_problem(tmp_path: Path) -> None:
    home = {"HOME": "/home/ada"}
    assert default_path(home) == "/home/ada/.local/state/sentinel-kernel/audit.db"
    assert read_audit_settings({**home, "XDG_STATE_HOME": "/s"}).path == "/s/sentinel-kernel/audit.db"
    assert read_audit_settings({"SENTINEL_AUDIT": "OFF"}).path == ""
    assert (
        read_audit_settings({"SENTINEL_AUDIT": "/a/b.db", "SENTINEL_AUDIT_BYTES": "64MiB"}).maximum_bytes
        == 64 << 20
    )
    settings = read_audit_settings({**home, "SENTINEL_AUDIT": "audit.db"})
    assert (settings.path, bool(settings.problem), settings.doubts) == ("", True, ())
    for name, value in (
        ("SENTINEL_AUDIT_DAYS", "soon"),
        ("SENTINEL_AUDIT_DAYS", "-1"),
        ("SENTINEL_AUDIT_BYTES", "lots"),
        ("SENTINEL_AUDIT_ALERT", "mail"),
    ):
        settings = read_audit_settings({**home, name: value})
        assert (settings.path, settings.problem, len(settings.doubts)) == (default_path(home), "", 1), name
    beside = settings_beside({"SENTINEL_AUDIT": str(tmp_path / "audit.db")}, str(tmp_path / "work"))
    assert "cells could read it" in beside.problem
    assert settings_beside({"SENTINEL_AUDIT": str(tmp_path / "a" / "audit.db")}, str(tmp_path / "work")).path


def test_hostile_values_are_stored_as_they_can_be_and_verified(path: Path) -> None:
    connection = open_for_writing(str(path))
    nasty = "a\0b\x1b]0;t\x07\ud800 é 😀" + "=" * 100_000
    rows = Rows(connection)
    rows.write([run(), ("begin", {"exec": 1, "start_ts": now_ms(), "command": nasty, "pid": 1 << 70})])
    rows.write([("sample", {"exec": 1, "ts": now_ms(), "cpu_pct": float("nan"), "mem_bytes": True})])
    rows.write([("note", {"exec": 1, "ts": now_ms(), "kind": "limit", "detail": {"a": [1, None, nasty]}})])
    row = reading.execution(connection, 2)
    assert row is not None
    assert row["command"] == nasty.replace("\ud800", "\\ud800")
    assert reading.notes(connection, exec_id=2)[0]["detail"]["a"][2] == nasty
    assert chain.verify(connection).faults == ()
    assert json.loads(connection.execute("SELECT detail FROM session_events").fetchone()[0])
    connection.close()
