"""Answers for whoever repairs a cell: by call, cause, signal or errno; driven by words and policy."""

from __future__ import annotations

import ast
import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_kernel.policy.cause import CAUSES
from sentinel_kernel.policy.cell_source import parses
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.repair_advice import UnknownError, as_json, suggest_repair, translate_error

MIB, GIB = 1 << 20, 1 << 30
LEEWAY = Leeway(
    profiles=tuple(load_profile(name) for name in list_profiles()),
    sizes={
        "memory_bytes": GIB,
        "tmp_bytes": 256 * MIB,
        "pids": 128,
        "wall_seconds": 5,
        "disk_bytes": 256 * MIB,
    },
    most={"memory_bytes": 8 * GIB, "tmp_bytes": GIB, "pids": 4096, "wall_seconds": None, "disk_bytes": GIB},
    workspace="/home/u/nb",
    python="/env/bin/python",
)


@pytest.mark.parametrize("path", ["~/.ssh/id_rsa", "/home/u/.aws/credentials", "/etc/shadow"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENOENT])
def test_nobody_is_told_to_bring_a_secret_into_the_sandbox(path: str, number: int) -> None:
    told = translate_error(LEEWAY, errno=number, path=path)
    assert told.hint.en == "What lies there is kept from cells on purpose: do without it."
    assert "有意不对单元格开放" in told.hint.zh
    assert told.remedies == ()
    plain = translate_error(LEEWAY, errno=number, path="/home/u/rivers.csv")
    assert "opy what the cell needs" in plain.hint.en


@pytest.mark.parametrize("cause", sorted(set(CAUSES) - {"call"}))
def test_no_words_have_an_empty_place(cause: str) -> None:
    for path in (None, "/opt/x"):
        told = suggest_repair(cause, "open('/opt/x', 'w')", LEEWAY, path=path)
        for text in (told.why.en, told.why.zh):
            assert not any(gap in text for gap in (" ()", "（）", "  ", "''", "“”")), text
    for call in ("openat", "mkdir", "unlink"):
        message = translate_error(LEEWAY, syscall=call, path="/opt/x").message
        assert "(EROFS)" in message.en
        assert "（EROFS）" in message.zh


@pytest.mark.parametrize(
    ("what", "code", "changed", "magic"),
    [
        (
            "socket",
            "import socket\ns = socket.create_server(('127.0.0.1', 0))",
            None,
            "%sentinel_profile datascience",
        ),
        (
            "mknodat",
            "import os\nos.mknod('x', 0o20600, os.makedev(1, 5))",
            "import os\nos.symlink('/dev/zero', 'x')",
            None,
        ),
        ("openat", "open('/opt/x', 'w')", "open('x', 'w')", None),
        ("path_read_only", "open('/opt/x', 'w')", "open('x', 'w')", None),
        ("memory", "x = bytearray(2 << 30)", None, "%sentinel_limit memory=5G"),
        ("mmap", "x = bytearray(2 << 30)", None, "%sentinel_limit memory=5G"),
        ("wall_seconds", "import time\ntime.sleep(30)", None, "%sentinel_limit wall=120"),
        ("mount", "!mount /dev/sda1 /mnt", None, None),
        ("socket", "import requests\nrequests.get('https://example.org')", None, None),
    ],
)
def test_a_repair_is_code_or_a_magic_or_says_why_not(
    what: str, code: str, changed: str | None, magic: str | None
) -> None:
    repair = suggest_repair(what, code, LEEWAY)
    assert (repair.code, repair.magic) == (changed, magic)
    assert repair.why.en
    assert repair.why.zh
    if changed is not None:
        ast.parse(changed)
        assert repair.changed_lines
    assert bool(repair.remedies) is (changed is not None or magic is not None)


def test_the_lines_that_changed_are_told() -> None:
    code = "a = 1\nopen('/opt/x', 'w')\nb = 2\nopen('/opt/x')\n"
    assert suggest_repair("openat", code, LEEWAY).changed_lines == (2, 4)


@pytest.mark.parametrize(
    ("given_", "cause", "says"),
    [
        ({"errno": "EROFS", "path": "/etc/x"}, "path_read_only", "can't be written"),
        ({"errno": errno.ENOSPC, "path": "/tmp/x"}, "tmp", "/tmp"),
        ({"errno": "ENOSPC", "path": "/dev/shm/x"}, "shm", "shared memory"),
        ({"errno": "ENOMEM"}, "memory", "memory"),
        ({"errno": "11"}, "pids", "process"),
        ({"signal": "OOM_KILL"}, "memory", "memory"),
        ({"signal": "SIGSEGV"}, "worker_crashed", "SIGSEGV"),
        ({"signal": "SIGSYS"}, "worker_killed", ""),
        ({"syscall": "ptrace", "errno": "EPERM"}, "call", "ptrace"),
        ({"syscall": "socket", "errno": 1}, "call", "socket"),
        ({"syscall": "execve", "path": "/opt/x"}, "program_absent", ""),
        ({"errno": "ENETUNREACH"}, "network_unreachable", ""),
    ],
)
def test_an_error_is_translated(given_: dict[str, str | int], cause: str, says: str) -> None:
    told = translate_error(LEEWAY, **given_)  # type: ignore[arg-type]
    assert told.cause == cause
    assert says.lower() in told.message.en.lower()
    assert told.message.zh
    assert told.hint.en
    assert told.hint.zh
    document = as_json(told)
    assert document["message"] == {"en": told.message.en, "zh": told.message.zh}
    assert (
        str(given_.get("path", "\0")) not in f"{told.message} {told.hint}" or given_.get("path") == "/tmp/x"
    )


@pytest.mark.parametrize(
    "given_",
    [{}, {"errno": "ENOTHING"}, {"signal": "SIGNONE"}, {"syscall": "opn"}, {"errno": 9999}, {"profile": "x"}],
)
def test_what_is_unknown_is_said(given_: dict[str, str]) -> None:
    with pytest.raises(UnknownError):
        translate_error(LEEWAY, **{"errno": None, **given_})  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(
    what=st.sampled_from([*CAUSES, "socket", "openat", "clone", "ptrace", "bpf"]),
    code=st.text(max_size=80),
    path=st.none() | st.text(max_size=30),
    profile=st.sampled_from(["strict", "datascience", "web", "sentinelbox/strict"]),
)
def test_any_cause_and_any_text_have_an_answer(what: str, code: str, path: str | None, profile: str) -> None:
    try:
        repair = suggest_repair(what, code, LEEWAY, profile=profile, path=path)
    except UnknownError:
        assert what == "call"
        return
    assert repair.code is None or parses(repair.code)
    as_json(repair)


def test_a_path_that_nobody_looked_up_is_told_as_probable() -> None:
    told = translate_error(LEEWAY, errno=errno.ENOENT, path="/data/levels.csv")
    assert told.cause == "path_hidden"
    assert told.message.en.startswith("Probably: ")
    assert told.message.zh.startswith("很可能：")
