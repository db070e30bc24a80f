"""`sentinel-kernel audit`: list, show, export, verify and prune what kernels of this user recorded."""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sentinel_kernel.audit import chain, export, reading, retention
from sentinel_kernel.audit.place import default_path, read_audit_settings
from sentinel_kernel.audit.schema import TABLES, open_for_reading, open_for_writing
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.sizes_in_words import counted
from sentinel_kernel.policy.unseen import with_escapes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_CODE_CHARACTERS = 60
_TEXT_CHARACTERS = 4000
_AGO = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands below `audit`."""
    parser.add_argument("--database", metavar="PATH", help="the database (default: SENTINEL_AUDIT, or yours)")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("list", help="list executions, newest first")
    _add_times(command)
    command.add_argument("--refused", action="store_true", help="only those in which something was refused")
    command.add_argument(
        "--all",
        action="store_true",
        help="also pages that clients fetch for themselves, such as %%sentinel_limit",
    )
    command.add_argument("--limit", type=int, default=30, metavar="N", help="at most N (default: 30)")
    command.set_defaults(run=_list)

    command = commands.add_parser("show", help="show one execution: code, refusals, limits, what it used")
    command.add_argument("id", type=int, metavar="ID")
    command.set_defaults(run=_show)

    command = commands.add_parser("export", help="write a table to a file, or to the terminal")
    command.add_argument("--format", choices=export.FORMATS, default="jsonl")
    command.add_argument("--table", choices=[*TABLES, "all"], default="executions", help="all: jsonl only")
    _add_times(command)
    command.add_argument("--output", metavar="FILE")
    command.set_defaults(run=_export)

    command = commands.add_parser("verify", help="check that no row was changed, removed or moved")
    command.add_argument(
        "--anchor",
        metavar="SEQ:HASH",
        help="a head that was kept elsewhere, as alerts carry it: finds what was cut off",
    )
    command.set_defaults(run=_verify)

    command = commands.add_parser("prune", help="delete what is older, or more, than is to be kept")
    command.add_argument(
        "--days", type=float, metavar="N", help="keep N days (default: SENTINEL_AUDIT_DAYS, or 90)"
    )
    command.add_argument(
        "--bytes", type=int, metavar="N", help="keep N bytes (default: SENTINEL_AUDIT_BYTES)"
    )
    command.set_defaults(run=_prune)


def _add_times(command: argparse.ArgumentParser) -> None:
    for name in ("since", "until"):
        command.add_argument(
            f"--{name}", metavar="TIME", help="2026-01-31, 2026-01-31T08:00, or an age: 90m 8h 7d"
        )


@contextlib.contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[sqlite3.Connection]:
    """Open the database for reading; an error of SQLite's is one of ours."""
    path = _path(arguments)
    connection = open_for_reading(path)
    try:
        yield connection
    except (sqlite3.Error, TypeError, ValueError, ArithmeticError) as error:
        raise SentinelError(f"{path} can't be read: {error}.") from error
    finally:
        connection.close()


def _path(arguments: argparse.Namespace) -> str:
    settings = read_audit_settings(os.environ)
    if settings.problem:
        print(f"{settings.problem} Kernels record nothing. {settings.remedy}", file=sys.stderr)
    for doubt in settings.doubts:
        print(doubt, file=sys.stderr)
    if arguments.database:
        return os.path.abspath(str(arguments.database))
    return settings.path or default_path(os.environ)


def _list(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as connection:
        found = reading.executions(
            connection,
            since_ms=_time(arguments.since),
            until_ms=_time(arguments.until),
            refused=arguments.refused,
            pages=arguments.all,
            limit=arguments.limit,
        )
    print(f"{'id':>8}  {'begun':19}  {'seconds':>8}  {'status':9}  {'profile':12}  {'refused':>7}  code")
    for row in found:
        ended = row["end_ts"]
        seconds = _seconds(row["start_ts"], ended)
        code = _shown(str(row["command"] or "").strip().split("\n")[0], _CODE_CHARACTERS)
        status = row["status"] or "running"
        line = (
            f"{row['id']:>8}  {_clock(row['start_ts'])}  {seconds:>8}  {_shown(status, 9):9}  "
            f"{_shown(row['profile'], 12):12}  {_shown(row['refusals'] or 0, 7):>7}  {code}"
        )
        print(line.rstrip())
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as connection:
        row = reading.execution(connection, arguments.id)
        if row is None:
            raise SentinelError(
                f"There is no execution {arguments.id}.", "sentinel-kernel audit list shows their ids."
            )
        refusals = reading.refusals(connection, exec_id=arguments.id)
        notes = reading.notes(connection, exec_id=arguments.id)
        samples = reading.samples(connection, exec_id=arguments.id)
    for name, value in row.items():
        if value is None or name in ("command", "seq", "hash") or name.endswith(("_seq", "_hash")):
            continue
        text = _clock(value) if name.endswith("_ts") else _shown(value)
        print(f"{name:18} {text}")
    print("code")
    for line in str(row["command"] or "").split("\n"):
        print(f"    {_shown(line)}")
    for refusal in refusals:
        what, given = refusal["syscall_name"] or refusal["cause"], refusal["arguments"] or ""
        times = "once" if refusal["count"] == 1 else f"{_shown(refusal['count'])} times"
        print(f"refused {times}: {_shown(what)}({_shown(given)})")
        for name in (
            *("semantic_msg", "hint", "remedy", "cause", "rule", "profile", "line", "function", "result"),
            "process",
        ):
            if refusal[name] is not None:
                print(f"    {name:14} {_shown(refusal[name])}")
    for note in reversed(notes):
        print(
            f"{_clock(note['ts'])} {_shown(note['kind'])} {_shown(note['name'])} {_shown(note['detail'], 300)}"
        )
    samples = [sample for sample in samples if all(isinstance(value, int | float) for value in sample)]
    if samples:
        most = max(sample[1] for sample in samples)
        print(
            f"samples {len(samples)}, memory at most {most} bytes, CPU at most {max(s[2] for s in samples):.0f} %"
        )
    return 0


def _export(arguments: argparse.Namespace) -> int:
    try:
        return _write_out(arguments)
    except BrokenPipeError:
        raise  # of the terminal's side
    except OSError as error:
        where = arguments.output or "The output"
        raise SentinelError(f"{where} can't be written: {error.strerror}.") from error


def _write_out(arguments: argparse.Namespace) -> int:
    since, until = _time(arguments.since), _time(arguments.until)
    tables = TABLES if arguments.table == "all" else (arguments.table,)
    if arguments.format != "jsonl" and len(tables) > 1:
        raise SentinelError("A CSV or Parquet file holds one table.", f"Name one: --table {tables[1]}")
    if arguments.format == "parquet" and not arguments.output:
        raise SentinelError("A Parquet file can't be printed.", "Name a file with --output FILE.")
    count = 0
    with _opened(arguments) as connection, contextlib.ExitStack() as opened:
        file = sys.stdout
        if arguments.output and arguments.format != "parquet":
            file = opened.enter_context(export.open_output(arguments.output))
        for table in tables:
            names, rows = export.rows(connection, table, since, until)
            if arguments.format == "csv":
                count += export.write_csv(names, rows, file)
            elif arguments.format == "jsonl":
                count += export.write_jsonl(table, names, rows, file)
            else:
                count += export.write_parquet(connection, table, names, rows, arguments.output)
    if arguments.output:
        print(f"{counted(count, 'row')} written to {arguments.output}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    with _opened(arguments) as connection:
        found = chain.verify(connection)
        faults = [f"number {fault.seq}: {_shown(fault.what)}" for fault in found.faults]
        if arguments.anchor:
            faults += _check_anchor(connection, arguments.anchor, found)
    print(f"{counted(found.rows, 'row')}, pruned up to number {found.pruned}, head {found.seq}:{found.hash}")
    for fault in faults:
        print(f"FAULT {fault}")
    if not faults:
        print(
            "Every row is as it was written."
            + ("" if arguments.anchor else " (A head kept elsewhere says more.)")
        )
    return 1 if faults else 0


def _check_anchor(connection: sqlite3.Connection, anchor: str, found: chain.Verification) -> list[str]:
    number, _, digest = anchor.partition(":")
    if not number.isdecimal() or not digest:
        raise SentinelError(f"{anchor!r} is no head of a chain.", "Give it as alerts do: SEQ:HASH.")
    seq = int(number)
    if seq <= found.pruned:
        return []  # of a time that retention has deleted
    known = chain.hash_at(connection, seq)
    if known is None:
        return [f"number {seq}: the row that was known elsewhere is gone"]
    if not known.hex().startswith(digest.lower()):
        return [f"number {seq}: another row than was known elsewhere; the chain was written anew"]
    return []


def _prune(arguments: argparse.Namespace) -> int:
    settings = read_audit_settings(os.environ)
    path = _path(arguments)
    why = settings.problem or " ".join(settings.doubts)
    if why and (arguments.days is None or arguments.bytes is None):
        raise SentinelError(
            why, f"{settings.remedy} Give both --days and --bytes, or mend the variable.".strip()
        )
    days = settings.days if arguments.days is None else arguments.days
    most = settings.maximum_bytes if arguments.bytes is None else arguments.bytes
    if not 0 <= days < math.inf or most < 0:
        raise SentinelError("Days and bytes must be numbers that are not below 0.", "0 keeps nothing.")
    if not os.path.exists(path):
        raise SentinelError(f"There is no audit database at {path}.")
    try:
        connection = open_for_writing(path)
        try:
            done = retention.prune(connection, days, most)
        finally:
            connection.close()
    except (sqlite3.Error, OSError, TypeError, ValueError, ArithmeticError) as error:
        raise SentinelError(f"{path} can't be changed: {error}.") from error
    print(
        f"{counted(done.rows, 'row')} deleted, up to number {done.up_to}"
        if done.up_to
        else "Nothing had to be deleted."
    )
    return 0


def _time(text: str | None) -> int | None:
    """Return a moment in epoch milliseconds. Raises SentinelError."""
    if text is None:
        return None
    try:
        if text[-1:] in _AGO and text[:-1].replace(".", "", 1).isdecimal():
            moment = datetime.now().astimezone() - timedelta(**{_AGO[text[-1]]: float(text[:-1])})
        else:
            moment = datetime.fromisoformat(text)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise SentinelError(
            f"{text!r} is no time.", "Write 2026-01-31, 2026-01-31T08:00, or an age such as 90m, 8h, 7d."
        ) from error


def _clock(milliseconds: Any) -> str:  # noqa: ANN401 - whatever a row holds
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))
    except (TypeError, ValueError, OverflowError, OSError):
        return _shown(milliseconds, 19)


def _seconds(start: Any, end: Any) -> str:  # noqa: ANN401 - as above
    try:
        return f"{(end - start) / 1000:.2f}" if end is not None else ""
    except (TypeError, OverflowError):
        return "?"


def _shown(value: Any, maximum: int = _TEXT_CHARACTERS) -> str:  # noqa: ANN401 - whatever a row holds
    """Return text for a terminal: cut, and every character that could move the cursor as its escape."""
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= maximum else text[: maximum - 1] + "…"
    encoding = sys.stdout.encoding or "ascii"
    return with_escapes(cut).encode(encoding, "backslashreplace").decode(encoding)
