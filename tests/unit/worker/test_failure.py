"""What a report says of an error, by what the error is made of."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
from pathlib import Path

import pytest

from sentinel_kernel.worker.failure import report_of
from sentinel_kernel.worker.named_path import number_in_words, path_in_words

TRACE = (
    '\n"""\nTraceback (most recent call last):\n  File "{}", line 3, in check\n    {}\n'
    'PermissionError: [Errno 1] no\n"""'
)


class _RemoteTraceback(Exception):
    def __init__(self, tb: str) -> None:
        self.tb = tb


@pytest.mark.parametrize(
    ("file", "statement", "by"),
    [
        ("/work/river.py", "raise PermissionError(1, 'no')", "raise"),
        ("/work/river.py", "raise", "raise"),
        ("/work/river.py", "raised = socket.socket()", "remote"),
        ("/work/river.py", "raise OSError(ctypes.get_errno(), 'no')", "remote"),
        ("/usr/lib/python3.11/subprocess.py", "raise child_exception_type(number, text)", "remote"),
    ],
)
def test_what_a_program_raises_in_another_process_is_its_own(file: str, statement: str, by: str) -> None:
    error = PermissionError(1, "no")
    error.__cause__ = _RemoteTraceback(TRACE.format(file, statement))
    report = report_of(error)
    assert report is not None
    assert report["chain"][0]["by"] == by


def _database(path: str) -> None:
    where, name = Path(path), os.path.basename(path)
    folder = os.path.dirname(path)
    match name:
        case "text.db":
            sqlite3.connect(path)
        case "path.db":
            sqlite3.connect(where)
        case "joined.db":
            sqlite3.connect(os.path.join(folder, "joined.db"))
        case "formatted.db":
            sqlite3.connect(f"{folder}/formatted.db")
        case "divided.db":
            sqlite3.connect(Path(folder) / "divided.db")
        case "keyword.db":
            sqlite3.connect(database=path)
        case "given.db":
            given = (path,)
            sqlite3.connect(*given)
        case "only_read.db":
            sqlite3.connect("file:/no/such/folder/only_read.db?mode=ro", uri=True)


@pytest.mark.parametrize(
    "name", ["text", "path", "joined", "formatted", "divided", "keyword", "given", "only_read"]
)
def test_a_database_that_was_not_opened_is_named_by_the_call(name: str) -> None:
    path = f"/no/such/folder/{name}.db"
    with pytest.raises(sqlite3.OperationalError) as raised:
        _database(path)
    report = report_of(raised.value)
    assert report is not None
    entry = report["chain"][0]
    assert (entry["site"], entry["path"], entry["writes"]) == ("unopened", path, name != "only_read")


def _saves(path: str) -> None:
    parent = os.path.dirname(path)
    raise OSError(f"Cannot save file into a non-existent directory: '{parent}'")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("No gauge at '/no/such/folder'", "/no/such/folder"),
        ("No gauge at /no/such/folder", None),
        ("The gauge's level isn't known", None),
    ],
)
def test_a_path_that_the_words_quote_is_the_errors(text: str, path: str | None) -> None:
    report = report_of(OSError(text))
    assert report is not None
    assert report["chain"][0].get("path") == path


@pytest.mark.parametrize(
    ("text", "number", "path"),
    [
        ("Read-only file system (os error 30): /no/such/levels.csv", errno.EROFS, "/no/such/levels.csv"),
        ("No such file or directory (os error 2): /no/a b.csv\n\ncontext: sink", errno.ENOENT, "/no/a b.csv"),
        ("Permission denied (os error 13)", errno.EACCES, None),
        ('IO Error: Cannot open file "/no/such.db": Read-only file system', errno.EROFS, "/no/such.db"),
        ("No space left on device (os error 28)", errno.ENOSPC, None),
        ("level: too low", None, None),
    ],
)
def test_what_native_code_says_in_words_is_taken_from_them(
    text: str, number: int | None, path: str | None
) -> None:
    report = report_of(OSError(text))
    assert report is not None
    assert report["chain"][0]["errno"] is None  # no call of native code: a statement, or none at all
    error = OSError(text)
    assert (number_in_words(error), path_in_words(error, None)[0]) == (number, path)


def test_a_file_whose_folder_is_quoted_was_to_be_written() -> None:
    with pytest.raises(OSError, match="non-existent") as raised:
        _saves("/no/such/folder/rivers.csv")
    report = report_of(raised.value)
    assert report is not None
    assert report["chain"][0]["path"] == "/no/such/folder/rivers.csv"
    assert report["chain"][0]["writes"] is True


@pytest.mark.parametrize(("kind", "site"), [(socket.SOCK_STREAM, ""), (socket.SOCK_DGRAM, "datagram")])
def test_an_address_without_a_way_is_named_by_the_call(kind: int, site: str) -> None:
    # It is no address of this machine: the call fails, and what is reported goes by its errno, which is exchanged.
    with socket.socket(socket.AF_INET, kind) as made, pytest.raises(OSError, match="assign") as raised:
        made.bind(("192.0.2.1", 80))
    raised.value.errno = errno.ENETUNREACH
    report = report_of(raised.value)
    assert report is not None
    entry = report["chain"][0]
    assert (entry["by"], entry["host"], entry["site"]) == ("call", "192.0.2.1:80", site)


class _NotReached(OSError):
    """As a library of clients raises it: without an errno."""

    host: object = None


@pytest.mark.parametrize(
    ("local", "attribute", "host"),
    [
        ("h.example.org", None, "h.example.org"),
        (None, "h.example.org", "h.example.org"),
        (("h", 80), "h.example.org", "h.example.org"),
        (None, None, None),
    ],
)
def test_the_host_of_an_error_without_an_errno_is_where_it_was_raised_or_in_it(
    local: object, attribute: object, host: str | None
) -> None:
    def connect(host: object) -> None:  # noqa: ARG001 - it is read from the frame
        error = _NotReached("not reached")
        error.host = attribute
        raise error

    with pytest.raises(_NotReached) as raised:
        connect(local)
    report = report_of(raised.value)
    assert report is not None
    assert report["chain"][0]["host"] == host
    raised.value.errno = errno.EPIPE
    report = report_of(raised.value)
    assert report is not None
    assert report["chain"][0]["host"] is None
