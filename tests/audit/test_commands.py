"""`sentinel-kernel audit`: what it lists, shows and exports, with code in the rows that wants to break it."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest
from audit_rows import cell, fill, looked_into, now_ms, run
from lacking import need_module

from sentinel_kernel.audit import reading
from sentinel_kernel.audit.export import write_csv
from sentinel_kernel.audit.rows import Rows
from sentinel_kernel.audit.schema import TABLES, open_for_writing
from sentinel_kernel.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NASTY = (
    "=cmd|'/C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\x1b]0;owned\x07\x1b[2J",
    "a\0b",
    "\ud800",
    'quote " and, comma\nand line\r\nend',
    "\u202eright to left\u2028",
    "x" * 100_000,
)


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """Return a database full of cells that are not nice."""
    path = tmp_path / "audit.db"
    connection = open_for_writing(str(path))
    rows = Rows(connection)
    rows.write([run()])
    for number, code in enumerate(NASTY, 1):
        event = {"exec": number, "ts": now_ms(), "count": 1, "violation_id": f"v{number}", "action": "NOTIFY"}
        words = {"semantic_msg": code, "hint": code, "process": code, "syscall_name": "socket"}
        reports = cell(number, code=code, events=0)
        rows.write([*reports[:-1], ("event", {**event, **words}), reports[-1]])
    connection.close()
    return path


def audit(path: Path, *arguments: str) -> int:
    return main(["audit", "--database", str(path), *arguments])


def test_no_code_of_a_cell_moves_the_terminals_cursor(
    nasty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(nasty, "list", "--limit", "100") == 0
    with looked_into(nasty) as connection:
        ids = [row[0] for row in connection.execute("SELECT id FROM executions")]
    for identifier in ids:
        assert audit(nasty, "show", str(identifier)) == 0
    shown = capsys.readouterr().out
    assert "=cmd" in shown
    assert all(character.isprintable() for line in shown.split("\n") for character in line)
    assert max(map(len, shown.split("\n"))) < 5000
    assert "\\x1b]0;owned\\x07" in shown


def test_csv_is_text_to_spreadsheets_and_reads_back(nasty: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    assert audit(nasty, "export", "--format", "csv", "--output", str(output)) == 0
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    with output.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    commands = [row["command"] for row in rows]
    assert commands[:5] == [*(f"'{code}" for code in NASTY[:4]), "'\t'=1"]
    assert commands[5:8] == ["\\x1b]0;owned\\x07\\x1b[2J", "a\\x00b", "\\ud800"]
    assert commands[8:] == [NASTY[8].replace("\r", "\\x0d"), "\\u202eright to left\\u2028", NASTY[10]]
    assert not any(
        value.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for value in row.values()
    )
    assert [row["status"] for row in rows] == ["completed"] * len(NASTY)
    assert b"\0" not in output.read_bytes()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_cell_of_csv_is_no_formula_whatever_is_taken_for_the_separator(separator: str) -> None:
    starts = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
    between = ("", *(f"x{mark}{quotes}" for mark in ",;\t|\n" for quotes in ("", '"', '""')))
    texts = [f"{before}{start}cmd|' /C calc'!A0" for before in between for start in starts]
    names = [f"c{index}" for index in range(len(texts))]
    plain, out = (io.StringIO(newline="") for _ in range(2))
    csv.writer(plain).writerow(texts)
    assert (
        write_csv(names, iter([tuple(texts), tuple(reversed(texts)), (texts[0], -1, None, *texts[3:])]), out)
        == 3
    )

    def formulas(file: io.StringIO) -> list[str]:
        rows = csv.reader(io.StringIO(file.getvalue(), newline=""), delimiter=separator)
        return [cell for row in rows for cell in row if cell.startswith(starts) and cell != "-1"]

    assert formulas(plain)
    assert formulas(out) == []


def test_json_lines_hold_every_table_as_it_is(nasty: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert audit(nasty, "export", "--table", "all", "--output", str(output)) == 0
    content = output.read_bytes()
    assert content.isascii()
    rows = [json.loads(line) for line in content.splitlines()]
    with looked_into(nasty) as connection:
        for table in TABLES:
            count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            assert sum(row["table"] == table for row in rows) == count
    commands = [row["command"] for row in rows if row["table"] == "executions"]
    assert commands == [code.replace("\ud800", "\\ud800") for code in NASTY]


def test_parquet_reads_back_with_types(nasty: Path, tmp_path: Path) -> None:
    parquet = need_module("pyarrow.parquet")
    output = tmp_path / "out.parquet"
    assert audit(nasty, "export", "--format", "parquet", "--output", str(output)) == 0
    table = parquet.read_table(output)
    assert table.column("command").to_pylist()[:7] == list(NASTY[:7])
    assert str(table.schema.field("start_ts").type) == "int64"
    assert str(table.schema.field("cpu_seconds").type) == "double"


def test_parquet_without_pyarrow_names_what_to_install(
    nasty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    output = tmp_path / "out.parquet"
    assert audit(nasty, "export", "--format", "parquet", "--output", str(output)) == 1
    assert "pip install 'sentinel-jupyter-kernel[audit]'" in capsys.readouterr().err
    assert not output.exists()


def test_times_choose_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.db"
    connection = open_for_writing(str(path))
    rows = Rows(connection)
    old = now_ms() - 3 * 86_400_000
    rows.write([run(ts=old), *cell(1, old, "old = 1"), *cell(2, code="new = 1")])
    connection.close()
    for arguments, seen in (
        (["--since", "1d"], ["new = 1"]),
        (["--until", "1d"], ["old = 1"]),
        (["--since", "1w"], ["new = 1", "old = 1"]),
        (["--until", "2001-01-01"], []),
    ):
        assert audit(path, "list", *arguments) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        assert [line.split("  ")[-1] for line in lines] == seen
    assert audit(path, "list", "--since", "soon") == 1
    assert "90m, 8h, 7d" in capsys.readouterr().err


def test_verify_says_where_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.db"
    fill(path, 3)
    assert audit(path, "verify") == 0
    head = capsys.readouterr().out.split("head ")[1].split()[0]
    fill(path, 1)
    assert audit(path, "verify", "--anchor", head) == 0
    assert audit(path, "verify", "--anchor", f"{head.split(':')[0]}:{'00' * 32}") == 1
    assert audit(path, "verify", "--anchor", f"99999:{'00' * 32}") == 1
    assert audit(path, "verify", "--anchor", "nonsense") == 1
    capsys.readouterr()
    with looked_into(path) as connection:
        connection.execute("UPDATE executions SET command = '' WHERE id = 2")
    assert audit(path, "verify") == 1
    assert "FAULT number 2: executions.begin 2 was changed" in capsys.readouterr().out


def test_prune_keeps_what_it_is_told_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.db"
    fill(path, 5, now_ms() - 86_400_000)
    assert audit(path, "prune", "--days", "2") == 0
    assert "Nothing had to be deleted" in capsys.readouterr().out
    assert audit(path, "prune", "--days", "0.5") == 0
    assert "31 rows deleted" in capsys.readouterr().out
    assert audit(path, "verify") == 0


def test_a_missing_or_broken_database_is_an_error_with_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(os.urandom(8192))
    for path, words in ((tmp_path / "none.db", "There is no audit database"), (broken, "can't be read")):
        for arguments in (["list"], ["show", "1"], ["export"], ["verify"]):
            assert audit(path, *arguments) == 1
            assert words in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
    fill(tmp_path / "audit.db", 1)
    assert audit(tmp_path / "audit.db", "show", "777") == 1
    assert "audit list" in capsys.readouterr().err
    assert audit(tmp_path / "audit.db", "export", "--format", "csv", "--table", "all") == 1
    assert audit(tmp_path / "audit.db", "export", "--output", "/proc/none/x") == 1


def test_pages_that_a_client_fetches_for_itself_stand_beside_no_ones_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.db"
    connection = open_for_writing(str(path))
    rows = Rows(connection)
    rows.write([run()])
    told = [
        ("x = 1", 0),
        ("%sentinel_limit", 1),
        ("%sentinel_files --json", 1),
        ("%sentinel_files --json", 0),  # typed by whoever wrote the cells
        ("%sentinel_limit\nprint()", 1),
        ("%sentinel_commit x.py", 1),
    ]
    for number, (code, silent) in enumerate(told, 1):
        begin, *rest = cell(number, code=code, events=0)
        rows.write([("begin", {**begin[1], "silent": silent}), *rest])
    assert reading.totals(connection, "run-1")["executions"] == 4
    connection.close()
    assert audit(path, "list") == 0
    shown = [line.split("  ")[-1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert shown == ["%sentinel_commit x.py", "%sentinel_limit", "%sentinel_files --json", "x = 1"]
    assert audit(path, "list", "--all") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(told)
