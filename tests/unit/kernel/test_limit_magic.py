"""What `%sentinel_limit` understands, and which words of a cell make the host look for a limit."""

from __future__ import annotations

import json

import pytest

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.help_page import help_page
from sentinel_kernel.kernel.limit_magic import (
    LimitChange,
    LimitTyped,
    changed_page,
    limits_page,
    read_line,
    unchanged,
)
from sentinel_kernel.kernel.limit_signs import signs
from sentinel_kernel.kernel.profile_change import why_fresh
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.mime import LIMITS_TYPE
from sentinel_kernel.policy.occurrence import limit_violation
from sentinel_kernel.policy.own_limits import beyond, parse_limits, raise_ceiling, with_own
from sentinel_kernel.policy.plan import Sizes
from sentinel_kernel.policy.word_values import MAGIC
from sentinel_kernel.record import replace

SIZES = Sizes(
    memory_bytes=1 << 30,
    cpu_count=1,
    pids=128,
    disk_bytes=1 << 28,
    tmp_bytes=1 << 28,
    shm_bytes=1 << 27,
    open_files=4096,
    file_size_bytes=None,
)
CEILING = replace(SIZES, memory_bytes=4 << 30, cpu_count=4, pids=4096)


@pytest.mark.parametrize(
    ("typed", "field", "value"),
    [
        ("memory=4G", "memory_bytes", 4 << 30),
        ("memory=1.5GiB", "memory_bytes", 3 << 29),
        ("mem=512mb", "memory_bytes", 512 << 20),
        ("cpu=0.5", "cpu_count", 0.5),
        ("cpus=2", "cpu_count", 2.0),
        ("wall=2m", "wall_seconds", 120),
        ("timeout=60s", "wall_seconds", 60),
        ("processes=500", "pids", 500),
        ("open-files=300", "open_files", 300),
        ("pids=off", "pids", None),
        ("io_write=50M", "io_write_bytes", 50 << 20),
    ],
)
def test_names_and_units_as_people_write_them(typed: str, field: str, value: float | None) -> None:
    assert read_line([typed], chinese=False).limits == ((field, value),)


def test_the_last_of_two_counts_and_profile_takes_back() -> None:
    change = read_line(["pids=200", "pids=300", "tmp=1M", "tmp=profile"], chinese=False)
    assert (change.limits, change.drop) == ((("pids", 300),), ("tmp_bytes",))


@pytest.mark.parametrize(
    "typed", ["pids", "pids=", "=3", "pids=1e999", "cpu=inf", "cpu=-1", "memory=²G", "pids=0x10", "wall=1k"]
)
def test_what_is_not_understood_is_refused_in_both_languages(typed: str) -> None:
    for chinese in (False, True):
        with pytest.raises(LimitTyped):
            read_line([typed], chinese=chinese)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("memory=2 GB", "memory=2GB"),
        ("memory=1.5 gib pids=10", "memory=1.5gib"),
        ("wall=2 min", "wall=2min"),
        ("nproc=10", "pids"),
    ],
)
def test_what_was_meant_is_said(typed: str, told: str) -> None:
    for chinese in (False, True):
        with pytest.raises(LimitTyped, match=f"{told}[?, 。]"):
            read_line(typed.split(), chinese=chinese)
    # A limit behind a number is none of its units.
    assert read_line(["pids=200", "cpu=2"], chinese=False).limits == (("pids", 200), ("cpu_count", 2.0))


@pytest.mark.parametrize("typed", ["", "--help", "-h", "help"])
def test_who_asks_for_nothing_or_for_help_gets_the_page(typed: str) -> None:
    assert read_line(typed.split(), chinese=False) == LimitChange()


@pytest.mark.parametrize("chinese", [False, True])
def test_a_ceiling_and_all_processors_are_called_that(*, chinese: bool) -> None:
    told = {
        "before": {"memory_bytes": 1 << 30, "cpu_count": 1, "pids": 100},
        "after": {"memory_bytes": 4 << 30, "cpu_count": 99, "pids": None},
        "own": {"memory_bytes": None, "cpu_count": 99, "pids": None},
        "processors": 2,
    }
    text = " ".join(changed_page(told, "strict", chinese=chinese)["text/plain"].split())
    assert (
        "4 GiB 是此内核的上限" if chinese else "memory: no limit of your own; 4 GiB is this kernel's ceiling"
    ) in text
    assert ("只有 2 个" if chinese else "cpu: there are 2 here") in text
    assert "1 → 2" in text  # what is in force, not what was typed
    assert ("实际生效的是 2，而不是 99" if chinese else "2 in force, not 99") in text
    assert ("pids：您" if chinese else "pids: no limit") not in text
    told["after"] = {"memory_bytes": 4 << 30, "cpu_count": 2, "pids": None}
    text = changed_page(told, "strict", chinese=chinese)["text/plain"]
    assert ("只有" if chinese else "there are 2 here") not in text
    listed = {"rows": [{"name": "cpu_count", "value": 99, "own": True}], "processors": 2}
    text = " ".join(limits_page(listed, "strict", chinese=chinese)["text/plain"].split())
    assert ("2（本机的全部；设定为 99）" if chinese else "2 (all that are here; 99 set)") in text
    listed["processors"] = 100
    assert ("本机的全部" if chinese else "all that are here") not in str(
        limits_page(listed, "s", chinese=chinese)
    )


def test_own_limits_are_bounded_by_the_ceiling_unless_granted() -> None:
    own = (("memory_bytes", 8 << 30), ("pids", None), ("cpu_count", 0.5))
    made = with_own(SIZES, own, CEILING)
    assert (made.memory_bytes, made.pids, made.cpu_count, made.cpu_quota) == (4 << 30, 4096, 1, 0.5)
    assert beyond(own, CEILING) == {"memory_bytes": 4 << 30}
    raised = raise_ceiling(CEILING, own, ["memory_bytes"])
    assert with_own(SIZES, own, raised).memory_bytes == 8 << 30
    assert raise_ceiling(CEILING, own, []) == CEILING


@pytest.mark.parametrize(
    "limits",
    [
        {"nonsense": 1},
        {"pids": "many"},
        {"pids": True},
        {"pids": float("nan")},
        {"pids": 0},
        [],
        {"memory_bytes": 1},
    ],
)
def test_limits_of_a_message_are_checked(limits: object) -> None:
    with pytest.raises(ProtocolError):
        parse_limits(limits)


@pytest.mark.parametrize(
    ("obstacle", "chinese", "shown", "why"),
    [
        (
            "controller",
            False,
            "a control group with the io controller",
            "can only be held by a control group",
        ),
        ("controller", True, "需要带 io 控制器的控制组", "只能由带 io 控制器的控制组限制"),
        ("disk", False, "the files lie on no disk whose speed can be limited", "move the notebook to a disk"),
        ("disk", True, "文件所在的磁盘不支持限速", "请把笔记本移到本机的磁盘"),
    ],
)
def test_why_the_speed_of_a_disk_is_not_held_is_said(
    obstacle: str, shown: str, why: str, *, chinese: bool
) -> None:
    page = limits_page({"io_obstacle": obstacle}, "strict", chinese=chinese)
    lines = [line for line in page["text/plain"].splitlines() if line.startswith("  io_")]
    assert len(lines) == 2
    assert all(shown in line for line in lines)
    assert [one["held"] for one in page[LIMITS_TYPE]["limits"]] == [True] * 11 + [False] * 2
    answer = {"live": False, "unheld": ["io_read_bytes"], "io_obstacle": obstacle}
    text = unchanged(answer, chinese=chinese)
    assert "io_read" in text
    assert why in text
    assert "io_read=50M" in help_page(chinese=chinese)["text/plain"]


@pytest.mark.parametrize("chinese", [False, True])
def test_memory_in_use_is_named_where_less_was_asked_for(*, chinese: bool) -> None:
    told = {"live": False, "in_use": 332 << 20}
    text = unchanged(told, chinese=chinese)
    wanted = "332 MiB are in use; delete what is no longer needed (del, gc) or choose more than that"
    assert (
        "限制未改动：内存已使用 332 MiB；请删除不再需要的内容（del、gc），或设定更大的值"
        if chinese
        else wanted
    ) in text
    told = {"live": False, "obstacles": ["memory"], "in_use": 332 << 20, "memory_bytes": 200 << 20}
    why = why_fresh(told, chinese=chinese)
    assert why.index("200 MiB") < why.index("332 MiB")
    assert ("过滤器" if chinese else "filter") not in why


@pytest.mark.parametrize("chinese", [False, True])
def test_what_is_held_of_a_disks_speed_and_of_a_busy_machine_is_said(*, chinese: bool) -> None:
    rows = [
        {"name": "io_read_bytes", "value": 50 << 20, "ceiling": None, "own": True},
        {"name": "memory_bytes", "value": 8 << 30, "used": 1 << 30, "ceiling": 8 << 30},
    ]
    page = limits_page(
        {"rows": rows, "io_obstacle": "", "machine_bytes": 5 << 30}, "strict", chinese=chinese
    )["text/plain"]
    assert "50 MiB" in page
    assert ("本机现在最多可提供 5 GiB" if chinese else "1 GiB in use; the machine can give 5 GiB now") in page
    assert ("重启内核后恢复为配置的值" if chinese else "a restart of the kernel goes back") in " ".join(
        page.split()
    )
    told = changed_page({"before": {}, "after": {"io_read_bytes": 1}}, "strict", chinese=chinese)
    assert ("重启内核后恢复为配置的值" if chinese else "a restart of the kernel goes back") in " ".join(
        told["text/plain"].split()
    )


def told(ename: str, evalue: str, trace: str = "") -> list[dict[str, object]]:
    content = {"ename": ename, "evalue": evalue, "traceback": [trace]}
    return signs("error", json.dumps(content).encode())


def test_errors_say_where_to_look() -> None:
    full = told("OSError", "[Errno 28] No space left on device: '/tmp/f1'")
    assert full == [{"name": "space", "certain": True, "path": "/tmp/f1"}]
    assert told("RuntimeError", "can't start new thread")[0]["certain"] is True
    assert (
        told("BlockingIOError", "[Errno 11] Resource temporarily unavailable", "os.fork()")[0]["certain"]
        is True
    )
    # A socket with nothing to read says the same.
    assert (
        told("BlockingIOError", "[Errno 11] Resource temporarily unavailable", "sock.recv(1)")[0]["certain"]
        is False
    )
    assert told("ValueError", "nothing of the kind") == []


def test_printed_words_are_never_certain_and_long_ones_are_not_read() -> None:
    printed = json.dumps({"name": "stderr", "text": "cp: No space left on device"}).encode()
    assert signs("stream", printed) == [{"name": "space", "certain": False, "path": ""}]
    assert signs("stream", printed + b" " * (1 << 20)) == []
    assert signs("error", b"\xff No space left on device") == []


@pytest.mark.parametrize("name", sorted(MAGIC))
@pytest.mark.parametrize("stage", ["soft", "refused", "interrupt", "kill"])
def test_every_limit_has_words_in_both_languages_for_every_stage(name: str, stage: str) -> None:
    limit = {
        "name": name,
        "stage": stage,
        "used": 3 << 20,
        "allowed": 4 << 20,
        "unit": "bytes",
        "profile": "strict",
        "backend": "fallback",
        "detail": "",
        "grace_seconds": 5,
    }
    for died in (False, True):
        told = complete(limit_violation(limit, id="x", time_ms=0, died=died))
        assert told.message is not None
        assert told.hint is not None
        assert "strict" in told.message.en
        assert "strict" in told.message.zh
        for text in (told.message.en, told.message.zh, told.hint.en, told.hint.zh):
            assert text
            assert "{" not in text
        assert any("\u4e00" <= letter <= "\u9fff" for letter in told.hint.zh)
