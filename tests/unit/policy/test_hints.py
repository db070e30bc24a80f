"""Completing a violation: words, and only remedies that truly work and may be taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.abi.architecture import AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, X86_64
from sentinel_kernel.kernel.deaths import machine_was_short
from sentinel_kernel.policy.compare import is_within, least_first, lets_through
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.occurrence import death_violation, limit_violation, make_occurrence
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import Violation, make_violation
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from sentinel_kernel.policy.profile import Profile

OUTSIDE = b"\x02\x00\x01\xbb\x5d\xb8\xd8\x22" + bytes(8)
LOOPBACK = b"\x02\x00\x01\xbb\x7f\x00\x00\x01" + bytes(8)
NAME_SERVER = b"\x02\x00\x00\x35\x7f\x00\x00\x01" + bytes(8)
SHIPPED = [load_profile(name) for name in list_profiles()]


def violation_of(
    profile: str | Profile, name: str, *arguments: int, copied: Any = None, arch: int = AUDIT_ARCH_X86_64
) -> Violation:
    policy = compile_policy(load_profile(profile) if isinstance(profile, str) else profile, "x86_64")
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    asked = Request(X86_64.syscalls[name], arch, padded, 1, 1, "python", True, copied or {})  # type: ignore[arg-type]
    return make_violation(asked, judge(asked, policy), policy, "id", 0)


def test_a_refused_socket_is_told_what_a_profile_with_sockets_reaches_and_is_no_remedy() -> None:
    done = complete(violation_of("strict", "socket", 2, 1))
    assert done.remedies == ()  # most programs want to go outside, and would lose their variables for nothing
    assert done.message is not None
    assert done.hint is not None
    assert "AF_INET" in done.message.en
    assert "AF_INET" in done.message.zh
    for text in (done.hint.en, done.hint.zh):
        assert "%sentinel_profile datascience" in text
    assert "Hosts outside are reached where the profile lists them" in done.hint.en
    assert "外部" in done.hint.zh


@pytest.mark.parametrize("profile", ["datascience", "web", "sentinelbox/datascience"])
@pytest.mark.parametrize("address", [OUTSIDE, NAME_SERVER])
def test_no_profile_is_offered_for_what_lies_outside(profile: str, address: bytes) -> None:
    done = complete(violation_of(profile, "connect", 3, 1, 16, copied={1: address}))
    assert done.remedies == ()
    assert done.hint is not None
    assert "%sentinel_profile" not in done.hint.en + done.hint.zh


def test_a_connection_inside_is_offered_a_profile_that_has_the_socket_for_it() -> None:
    done = complete(violation_of("sentinelbox/datascience", "connect", 3, 1, 16, copied={1: LOOPBACK}))
    assert [(one.kind, one.text) for one in done.remedies] == [("magic", "%sentinel_profile datascience")]


@pytest.mark.parametrize(
    "call", [("mount",), ("unshare", 0x10000000), ("clone", 0x10000011), ("socket", 40, 1, 0)]
)
def test_what_no_profile_allows_is_said(call: tuple[Any, ...]) -> None:
    done = complete(violation_of("strict", *call), ceiling=None)
    assert done.remedies == ()
    assert done.hint is not None
    assert "No profile" in done.hint.en
    assert "都不允许" in done.hint.zh


def test_a_profile_beyond_the_ceiling_is_not_offered() -> None:
    refused = violation_of("strict", "process_vm_readv")
    assert complete(refused, ceiling="datascience").remedies == ()
    assert complete(refused, ceiling=None).remedies != ()
    assert complete(violation_of("strict", "socket", 2, 1), ceiling="strict").remedies == ()
    assert complete(violation_of("strict", "socket", 2, 1), ceiling="no-such").remedies == ()


def test_what_only_lies_beyond_the_ceiling_is_said_to_be_impossible_under_it() -> None:
    done = complete(violation_of("strict", "process_vm_readv"), ceiling="strict")
    assert done.remedies == ()
    assert done.hint is not None
    assert "Allowing it is not possible under this kernel's ceiling (strict)" in done.hint.en
    assert "上限" in done.hint.zh
    leeway = Leeway(tuple(SHIPPED), "strict", lab=True)
    done = complete(violation_of("strict", "process_vm_readv"), leeway=leeway)
    assert done.hint is not None
    assert "Allowing it is not possible under this lab's ceiling" in done.hint.en


@pytest.mark.parametrize("stage", ["soft", "refused", "interrupt", "kill"])
@pytest.mark.parametrize("most", [None, 1 << 40, 1 << 20])
def test_a_limit_is_raised_no_further_than_the_ceiling(stage: str, most: int | None) -> None:
    size = 1 << 20
    told = {
        "name": "file_size",
        "stage": stage,
        "used": 0,
        "allowed": size,
        "unit": "bytes",
        "profile": "strict",
    }
    sizes, bounds = {"file_size_bytes": size}, {} if most is None else {"file_size_bytes": most}
    leeway = Leeway(tuple(SHIPPED), "strict", sizes=sizes, most=bounds, lab=True)
    done = complete(limit_violation(told, id="x", time_ms=0), leeway=leeway)
    assert done.hint is not None
    typed = [one.text for one in done.remedies if one.text.startswith("%sentinel_limit file_size=")]
    assert bool(typed) is (most != size)
    assert ("not possible under this lab's ceiling" in done.hint.en) is (most == size)


def test_what_a_cell_says_of_itself_changes_nothing() -> None:
    told = {"name": "pids", "stage": "refused", "used": 3, "allowed": 8, "unit": "count"}
    done = complete(limit_violation(told, id="x", time_ms=0))
    assert complete(limit_violation({**told, "said": True}, id="x", time_ms=0)) == done
    assert done.confidence == "certain"
    # That a line is not certain says nothing of the limit, but of the whole record.
    place = {"line": 1, "function": "f", "library": None, "confidence": "likely"}
    assert complete(limit_violation({**told, "place_of": place}, id="x", time_ms=0)).confidence == "likely"


def test_the_profile_that_gives_least_is_offered() -> None:
    rule = {"name": "process_vm_readv", "action": "ALLOW"}
    small = parse_profile("small", json.dumps({"extends": "strict", "syscall_rules": [rule]}))
    done = complete(violation_of("strict", "process_vm_readv"), profiles=[*SHIPPED, small], ceiling=None)
    assert [one.text for one in done.remedies] == ["%sentinel_profile small"]


def test_a_profile_is_not_offered_where_it_refuses_these_very_arguments() -> None:
    rule = {"name": "socket", "action": "ALLOW", "arguments": [{"index": 0, "value": 10}]}
    six = parse_profile("six", json.dumps({"extends": "strict", "syscall_rules": [rule]}))
    done = complete(violation_of("strict", "socket", 2, 1), profiles=[six], ceiling=None)
    assert done.remedies == ()


def test_every_remedy_is_true() -> None:
    """Whatever is refused: what the remedy names lets that call through."""
    for source in SHIPPED:
        policy = compile_policy(source, "x86_64")
        for rules in policy.rules.values():
            for rule in rules:
                arguments = [0] * 6
                for test in rule.tests:
                    arguments[test.index] = test.value
                asked = Request(rule.number, AUDIT_ARCH_X86_64, tuple(arguments), 1, 1, "", True)  # type: ignore[arg-type]
                verdict = judge(asked, policy)
                if not verdict.report:
                    continue
                done = complete(make_violation(asked, verdict, policy, "id", 0))
                for remedy in done.remedies:
                    named = remedy.text.removeprefix("%sentinel_profile ")
                    other = compile_policy(load_profile(named), "x86_64")
                    assert lets_through(other, rule.number, arguments), (source.name, rule.syscall, named)


def test_foreign_code_gets_words_and_no_remedy() -> None:
    done = complete(violation_of("strict", "getpid", arch=AUDIT_ARCH_I386))
    assert done.remedies == ()
    assert done.message is not None
    assert "32-bit" in (done.hint.en if done.hint else "")


@pytest.mark.parametrize(
    ("inner", "outer", "within"),
    [
        ("strict", "datascience", True), ("datascience", "strict", False), ("datascience", "web", True),
        ("web", "datascience", False), ("sentinelbox/strict", "datascience", False), ("strict", "strict", True),
    ],
)  # fmt: skip
def test_ceilings_compare_what_profiles_give(inner: str, outer: str, *, within: bool) -> None:
    assert is_within(load_profile(inner), load_profile(outer), "x86_64") is within


def test_folders_count_for_the_ceiling() -> None:
    strict = load_profile("strict")
    more = parse_profile("more", '{"extends": "strict", "filesystem": {"mounts": [{"path": "/data"}]}}')
    hides = parse_profile("hides", '{"extends": "strict", "filesystem": {"hidden": ["secret"]}}')
    assert not is_within(more, strict, "x86_64")
    assert is_within(strict, more, "x86_64")
    assert is_within(hides, strict, "x86_64")
    assert not is_within(strict, hides, "x86_64")


def test_profiles_are_ordered_by_what_they_give() -> None:
    names = [profile.name for profile in least_first(SHIPPED, "x86_64")]
    assert names[:3] == ["strict", "datascience", "web"]


@pytest.mark.parametrize(
    ("profile", "ceiling", "english", "chinese"),
    [
        (
            "datascience",
            "datascience",
            "A server inside the sandbox is reached as 127.0.0.1.",
            "可通过 127.0.0.1 访问。",
        ),
        ("strict", "datascience", "under another profile: `%sentinel_profile datascience`", "在另一配置下"),
        ("strict", "strict", "", ""),
    ],
)
def test_a_server_inside_is_only_spoken_of_where_it_can_be_reached(
    profile: str, ceiling: str, english: str, chinese: str
) -> None:
    made = make_occurrence(
        "name_lookup", id="id", profile=profile, rule="r", time_ms=0, subject=("host", "example.org")
    )
    done = complete(made, ceiling=ceiling)
    assert done.hint is not None
    assert english in done.hint.en
    assert chinese in done.hint.zh
    assert ("127.0.0.1" in done.hint.en) == bool(english)
    assert ("127.0.0.1" in done.hint.zh) == bool(english)


@pytest.mark.parametrize(
    ("profile", "more", "command"),
    [
        ("datascience", {}, "%sentinel_allow example.org"),
        ("datascience", {"asks": False}, ""),
        ("datascience", {"lab": True}, ""),
        ("datascience", {"locked": True}, ""),
        ("strict", {}, ""),
    ],
)
def test_a_host_that_can_be_allowed_is_the_first_thing_that_is_said(
    profile: str, more: dict[str, bool], command: str
) -> None:
    leeway = Leeway(tuple(SHIPPED), "datascience", **{"asks": True, **more})
    looked_up = make_occurrence(
        "name_lookup", id="id", profile=profile, rule="r", time_ms=0, subject=("host", "example.org")
    )
    address = replace(
        make_occurrence("network_unreachable", id="id", profile=profile, rule="r", time_ms=0, errno=101),
        values={"address": "[2001:db8::1]:443"},
    )
    for violation, expected in (
        (looked_up, command),
        (address, command and "%sentinel_allow [2001:db8::1]:443"),
    ):
        done = complete(violation, leeway=leeway)
        assert [remedy.text for remedy in done.remedies] == ([expected] if expected else [])
        assert done.hint is not None
        assert done.hint.en.startswith(f"Put `{expected}`" if expected else "Without a way out, download")
        assert expected in done.hint.zh


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "169.254.169.254", "a b", "*.example.org", "localhost", "x.localhost.", "a.org:1", "x\n%y"],
)
def test_no_command_is_made_of_what_is_no_host(text: str) -> None:
    made = make_occurrence(
        "name_lookup", id="id", profile="datascience", rule="r", time_ms=0, subject=("host", text)
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", asks=True)
    assert complete(made, leeway=leeway).remedies == ()


def test_a_failed_look_up_is_told_in_the_same_words_before_and_after_its_host_is_known() -> None:
    known = make_occurrence(
        "name_lookup", id="id", profile="datascience", rule="r", time_ms=0, subject=("host", "example.org")
    )
    call = replace(known, cause="call", syscall="connect", resource="name-lookup", subject=None)
    before, after = (complete(one, ceiling="datascience").message for one in (call, known))
    assert before == after


def test_what_the_person_has_refused_is_not_said_to_be_refused_by_the_profile() -> None:
    made = make_occurrence("name_lookup", id="id", profile="asker", rule="r", time_ms=0)
    call = replace(made, cause="call", syscall="socket", resource="network", values={"family": "AF_INET"})
    asked = complete(replace(call, values={**call.values, "answer": "no"}))
    plain = complete(call).message
    assert plain is not None
    assert "has no network" in plain.en
    assert asked.message is not None
    assert asked.hint is not None
    assert "lets the call socket through only if the person agrees" in asked.message.en
    assert "the answer was no" in asked.message.en
    assert "no network" not in asked.message.en
    assert "没有网络" not in asked.message.zh
    assert asked.hint.en.startswith("Run the cell again and answer y")


@pytest.mark.parametrize("cause", ["name_lookup", "network_unreachable"])
def test_where_the_profile_has_no_sockets_the_cell_is_given_both_commands(cause: str) -> None:
    made = make_occurrence(
        cause, id="id", profile="strict", rule="r", time_ms=0, subject=("host", "example.org")
    )
    made = replace(made, values={"address": "203.0.113.5:80"})
    leeway = Leeway(tuple(SHIPPED), "datascience", asks=True)
    first = complete(made, code="get()", leeway=leeway).remedies[0]
    host = "example.org" if cause == "name_lookup" else "203.0.113.5:80"
    assert first.kind == "code"
    assert first.code == f"%sentinel_profile datascience\n%sentinel_allow {host}\nget()"
    for bound in (replace(leeway, asks=False), replace(leeway, ceiling="strict"), replace(leeway, lab=True)):
        told = complete(made, code="get()", leeway=bound)
        assert told.remedies == ()
        assert told.hint is not None
        assert ("nobody can be asked here" in told.hint.en) is not bound.asks


@pytest.mark.parametrize(
    "own",
    [
        {"syscall_rules": [{"name": "socket", "action": "ASK"}]},  # gives less, and takes a second answer
        {},  # gives the same
    ],
)
def test_a_profile_of_ones_own_does_not_go_before_a_shipped_one_that_works_better_or_alike(
    own: dict[str, object],
) -> None:
    made = make_occurrence(
        "name_lookup", id="id", profile="strict", rule="r", time_ms=0, subject=("host", "example.org")
    )
    asker = parse_profile("asker", json.dumps({"extends": "datascience", **own}))
    leeway = Leeway((asker, *SHIPPED), "datascience", asks=True)
    first = complete(made, code="get()", leeway=leeway).remedies[0]
    assert (first.code or "").startswith("%sentinel_profile datascience\n%sentinel_allow example.org\n")


def test_datagrams_are_offered_no_host_and_are_said_to_reach_none() -> None:
    made = make_occurrence("network_unreachable", id="id", profile="datascience", rule="r", time_ms=0)
    made = replace(made, values={"address": "203.0.113.5:80", "socket": "datagram"})
    done = complete(made, code="send()", leeway=Leeway(tuple(SHIPPED), "datascience", asks=True))
    assert done.remedies == ()
    assert done.hint is not None
    assert "UDP" in done.hint.en
    assert "UDP" in done.hint.zh


@pytest.mark.parametrize(
    ("path", "code", "folder"),
    [
        ("/data/sets/x.csv", "open('../../data/sets/x.csv')", "/data/sets"),
        ("/data/sets/x.csv", "open('/data/sets/x.csv')", "/data/sets"),
        ("/data/x.csv", "open('/data/x.csv')", ""),  # a whole tree
        ("/data/sets/x.csv", "open(name)", ""),  # the sandbox's word alone
        ("/elsewhere/sets/x.csv", "open('../../data/sets/x.csv')", ""),
        ("/home/ana/x.csv", "open('/home/ana/x.csv')", ""),  # a whole home
        ("/srv/nc/data", "import os\nos.chdir('/srv/nc/data')", "/srv/nc/data"),
        ("/data/a b/x.csv", "open('/data/a b/x.csv')", ""),  # would need quotes
    ],
)
def test_the_folder_to_show_is_named_where_the_cell_names_it(path: str, code: str, folder: str) -> None:
    made = make_occurrence(
        "path_hidden", id="id", profile="strict", rule="r", time_ms=0, errno=2, subject=("path", path)
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True)
    done = complete(made, code=code, leeway=leeway)
    assert done.hint is not None
    typed = "`%sentinel_mount /data/survey`"  # an example, which can be typed as it stands
    for hint, as_in in ((done.hint.en, f"as in {typed}"), (done.hint.zh, f"例如 {typed}")):
        assert f"`%sentinel_mount {folder}`" in hint if folder else as_in in hint


@pytest.mark.parametrize("cause", ["path_hidden", "path_read_only"])
@pytest.mark.parametrize("known", [True, False])
def test_no_folder_is_to_be_asked_for_where_nobody_can_be_asked(cause: str, *, known: bool) -> None:
    path = "/data/sets/x.csv" if cause == "path_hidden" else "/mnt/sets/x.csv"
    made = make_occurrence(cause, id="id", profile="strict", rule="r", time_ms=0, subject=("path", path))
    shown = () if cause == "path_hidden" else (("/data/sets", "/mnt/sets"),)
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True, shown=shown)
    code = f"open('{path}')" if known else None
    asked, alone = (
        complete(made, code=code, leeway=replace(leeway, asks=asks)).to_json() for asks in (True, False)
    )
    for language in ("en", "zh"):
        assert "%sentinel_mount" in asked["hint"][language]
        assert "%sentinel_mount" not in alone["hint"][language]
    assert [one for one in alone["remedies"] if "%sentinel_mount" in json.dumps(one)] == []
    if cause == "path_hidden":
        assert "nobody can be asked here" in alone["hint"]["en"]


D_CSV = "import pandas as pd\npd.read_csv('/srv/nc/data/d.csv')"


@pytest.mark.parametrize(
    ("mounts", "magic", "inside"),
    [
        ((), "%sentinel_mount /srv/nc/data", "/mnt/data/d.csv"),
        ((("/elsewhere/data", "/mnt/data"),), "%sentinel_mount /srv/nc/data", "/mnt/data-2/d.csv"),
        ((("/srv/nc/data", "/mnt/data"),), "", "/mnt/data/d.csv"),
        ((("/srv/nc", "/mnt/nc"),), "", "/mnt/nc/data/d.csv"),
    ],
)
def test_a_hidden_file_is_read_where_its_folder_is_shown(
    mounts: tuple[tuple[str, str], ...], magic: str, inside: str
) -> None:
    subject = ("path", "/srv/nc/data/d.csv")
    made = make_occurrence(
        "path_hidden", id="id", profile="datascience", rule="r", time_ms=0, errno=2, subject=subject
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True, shown=mounts)
    done = complete(made, code=D_CSV, leeway=leeway)
    assert done.hint is not None
    for text in (done.hint.en, done.hint.zh):
        assert f"`{inside}`" in text
        assert (f"`{magic}`" in text) if magic else ("%sentinel_mount" not in text)
    top = f"{magic}\n" if magic else ""
    assert done.remedies[0].code == f"{top}import pandas as pd\npd.read_csv('{inside}')"


def test_a_cell_with_the_line_that_shows_the_folder_gets_it_once() -> None:
    subject = ("path", "/srv/nc/data/d.csv")
    made = make_occurrence(
        "path_hidden", id="id", profile="strict", rule="r", time_ms=0, errno=2, subject=subject
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True)
    done = complete(made, code=f"%sentinel_mount /srv/nc/data\n{D_CSV}", leeway=leeway)
    assert (done.remedies[0].code or "").count("%sentinel_mount") == 1


@pytest.mark.parametrize("path", ["/etc/shadow", "/data/.ssh/id_rsa"])
def test_no_folder_of_a_secret_is_offered(path: str) -> None:
    made = make_occurrence(
        "path_hidden", id="id", profile="strict", rule="r", time_ms=0, errno=2, subject=("path", path)
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True)
    done = complete(made, code=f"open('{path}')", leeway=leeway)
    assert done.hint is not None
    assert "%sentinel_mount" not in done.hint.en + done.hint.zh
    assert done.remedies == ()


@pytest.mark.parametrize(
    ("mounts", "told"),
    [
        ((("/srv/nc/data", "/mnt/data"),), "`%sentinel_mount /srv/nc/data rw`"),
        ((("/srv/nc/data", "/mnt/data"), ("/srv/nc/data", "/mnt/data-2")), "`/mnt/data-2`"),
    ],
)
def test_what_was_shown_read_only_is_said_to_be_and_where_it_can_be_written(
    mounts: tuple[tuple[str, str], ...], told: str
) -> None:
    made = make_occurrence(
        "path_read_only", id="id", profile="strict", rule="r", time_ms=0, subject=("path", "/mnt/data/z")
    )
    leeway = Leeway(tuple(SHIPPED), "datascience", workspace="/work/notes", asks=True, shown=mounts)
    done = complete(made, code="open('/mnt/data/z', 'w')", leeway=leeway)
    assert done.hint is not None
    assert done.message is not None
    for hint, message in ((done.hint.en, done.message.en), (done.hint.zh, done.message.zh)):
        assert told in hint
        assert "%sentinel_mount" in message
        assert "'strict'" not in message


@pytest.mark.parametrize(
    ("asks", "place", "told", "untold"),
    [
        (True, "", ("`%sentinel_mount /srv/results rw`", "SENTINEL_WRITABLE=/srv/results"), ()),
        (False, "", ("SENTINEL_WRITABLE=/srv/results",), ("%sentinel_mount",)),
        (True, "/mnt/results", ("`/mnt/results`",), ("SENTINEL_WRITABLE",)),
    ],
)
@pytest.mark.parametrize("path", ["/srv/results/z", "/mnt/ro/z"])
def test_what_the_profile_wants_written_is_said_to_wait_for_the_persons_word(
    *, asks: bool, place: str, told: tuple[str, ...], untold: tuple[str, ...], path: str
) -> None:
    made = make_occurrence(
        "path_read_only", id="id", profile="mine", rule="r", time_ms=0, subject=("path", path)
    )
    leeway = Leeway(
        tuple(SHIPPED),
        "datascience",
        workspace="/work/notes",
        asks=asks,
        shown=(("/srv/results", "/mnt/ro"),),
        asked=(("/srv/results", place),),
    )
    done = complete(made, code=f"open('{path}', 'w')", leeway=leeway)
    assert done.hint is not None
    assert done.message is not None
    for hint, message in ((done.hint.en, done.message.en), (done.hint.zh, done.message.zh)):
        assert all(word in hint for word in told), hint
        assert not any(word in hint for word in untold), hint
        assert "the profile 'mine' shows" not in message
        assert "配置“mine”仅以只读" not in message
        assert ("/srv/results" in message) == (not place)


@pytest.mark.parametrize("cause", [{"kind": "exit", "status": 1}, {"kind": "signal", "signal": 6}])
def test_a_death_on_a_machine_without_memory_is_not_blamed_on_the_code(cause: dict[str, object]) -> None:
    made = death_violation({**cause, "machine_short": True}, id="id", profile="strict", time_ms=0)
    done = complete(made)
    assert done.confidence == "likely"
    assert done.message is not None
    assert done.hint is not None
    assert "this machine had too little memory left, which is the likely cause" in done.message.en
    assert "剩余内存过少" in done.message.zh
    assert "exit()" not in done.hint.en + done.hint.zh
    alone = complete(death_violation(cause, id="id", profile="strict", time_ms=0))
    assert alone.message is not None
    assert "too little memory" not in alone.message.en


def test_a_machine_without_memory_is_remembered_for_two_cells() -> None:
    record = {"values": {"machine": "short"}, "limit": {"name": "memory"}, "execution_count": 4}
    assert machine_was_short([record], 4)
    assert machine_was_short([record], 5)
    assert not machine_was_short([record], 6)
    assert not machine_was_short([{**record, "values": {}}], 4)
