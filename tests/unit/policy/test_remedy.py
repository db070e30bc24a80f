"""Remedies: only what changes the outcome, within the ceiling, least privilege first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sample_violations import occurred, refused

from sentinel_kernel.abi.architecture import AUDIT_ARCH_X86_64
from sentinel_kernel.policy.compare import compiled, lets_through
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.preflight import check
from sentinel_kernel.policy.preflight_expected import with_remedies
from sentinel_kernel.policy.preflight_finding import Facts
from sentinel_kernel.policy.profile import Profile, list_profiles, load_profile
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.policy.remedy import beyond_ceiling, remedies_for
from sentinel_kernel.policy.request import Request
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.policy.verdict import judge
from sentinel_kernel.policy.violation import Frame, Limit, Violation, make_violation
from sentinel_kernel.record import replace

MIB, GIB = 1 << 20, 1 << 30
SHIPPED = tuple(load_profile(name) for name in list_profiles())
SIZES: dict[str, float | None] = {
    "memory_bytes": GIB, "cpu_count": 1, "pids": 128, "disk_bytes": 256 * MIB, "tmp_bytes": 256 * MIB,
    "shm_bytes": 128 * MIB, "open_files": 4096, "file_size_bytes": None, "output_bytes": None, "wall_seconds": None,
    "cpu_seconds": None,
}  # fmt: skip
MOST: dict[str, float | None] = {
    **SIZES, "memory_bytes": 10 * GIB, "cpu_count": None, "pids": 4096, "disk_bytes": 4 * GIB, "tmp_bytes": 2 * GIB,
    "shm_bytes": 2 * GIB, "open_files": 65536,
}  # fmt: skip
LEEWAY = Leeway(profiles=SHIPPED, sizes=SIZES, most=MOST, workspace="/home/u/nb", python="/env/bin/python")
LOOPBACK = 'import socket\ns = socket.create_server(("127.0.0.1", 0))'


def by_pip(violation: Violation, command: str = "/env/bin/python -m pip install x") -> Violation:
    assert violation.process is not None
    return replace(violation, process=replace(violation.process, command=command))


def limited(name: str, allowed: float, unit: str = "bytes", **fields: Any) -> Violation:
    return occurred(name, limit=Limit(name, "refused", None, allowed, unit, own=False, backend="x"), **fields)


def texts(violation: Violation, code: str | None = None, leeway: Leeway = LEEWAY) -> list[str]:
    return [remedy.text for remedy in remedies_for(violation, code=code, leeway=leeway)]


# --- profiles


def test_a_server_inside_the_sandbox_gets_the_profile_with_loopback() -> None:
    found = remedies_for(refused("socket", 2, 1), code=LOOPBACK, leeway=LEEWAY)
    assert [remedy.text for remedy in found] == ["%sentinel_profile datascience"]
    assert found[0].why is not None
    assert "127.0.0.1" in found[0].why.en
    assert "127.0.0.1" in found[0].why.zh


@pytest.mark.parametrize(
    "code",
    [
        None, "",
        'import urllib.request\nurllib.request.urlopen("https://example.org/data.csv")',
        'import socket\nsocket.create_connection(("example.org", 80))',
        "import socket\ns = socket.socket()\ns.connect((host, 80))",
        'import socket\ns = socket.socket()\ns.connect(("93.184.216.34", 80))',
        "!pip install seaborn", "!curl -O https://example.org", "%pip install x",
        "from sklearn.datasets import fetch_openml\nfetch_openml('mnist_784')",
    ],
)  # fmt: skip
def test_no_profile_is_offered_for_a_socket_that_may_lead_outside(code: str | None) -> None:
    assert texts(refused("socket", 2, 1), code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import http.server\nhttp.server.HTTPServer(('', 0), None)",
        "import asyncio\nawait asyncio.start_server(f, 'localhost', 0)",
        "import socket\ns = socket.socket()\nprint(s.family)",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:8000/x')",
        "from multiprocessing.connection import Listener\nListener(('localhost', 0))",
    ],
)
def test_what_speaks_with_itself_gets_the_profile(code: str) -> None:
    assert texts(refused("socket", 2, 1), code) == ["%sentinel_profile datascience"]


@pytest.mark.parametrize(
    "code",
    [
        'import socket\nsocket.create_connection(("127.0.0.1", 8897))',
        'import requests\nrequests.get("http://localhost:8897/api")',
    ],
)
def test_loopback_is_said_to_be_the_sandboxes_own(code: str) -> None:
    done = complete(refused("socket", 2, 1), leeway=LEEWAY, code=code)
    assert [remedy.text for remedy in done.remedies] == ["%sentinel_profile datascience"]
    said = [done.hint, *(remedy.why for remedy in done.remedies)]
    assert all("nothing of this machine outside it" in text.en for text in said if text is not None)
    assert all("本机在沙箱外的服务" in text.zh for text in said if text is not None)
    assert len([text for text in said if text is not None]) == 2
    assert done.hint is not None
    assert "allows it" not in done.hint.en
    unsure = complete(refused("socket", 2, 1), leeway=LEEWAY, code=None)
    assert unsure.hint is not None
    assert "not for one of this machine outside it" in unsure.hint.en


@pytest.mark.parametrize("fetch", ["curl http://x.y", "wget -q http://x.y", "git clone https://x.y/z"])
@pytest.mark.parametrize(
    "above", ["", "%sentinel_preflight --dangerous off\n", "%sentinel_status\n# why\n\n"]
)
def test_a_magic_of_the_hosts_above_a_shells_cell_changes_no_word(above: str, fetch: str) -> None:
    code = f"{above}%%bash\n{fetch}"
    assert texts(refused("socket", 2, 1), code) == []
    done = complete(refused("socket", 2, 1), leeway=LEEWAY, code=code)
    assert done.hint == complete(refused("socket", 2, 1), leeway=LEEWAY, code=f"%%bash\n{fetch}").hint
    assert done.hint is not None
    assert "%sentinel_profile" not in done.hint.en


@pytest.mark.parametrize("file", ["urllib3/connection.py", "http/client.py"])
def test_a_library_that_calls_others_gets_no_profile(file: str) -> None:
    called = replace(refused("socket", 2, 1), library=Frame(file, 1, "connect"))
    assert texts(called, "work(3)") == []
    assert texts(called, "work(port, host='localhost')") == ["%sentinel_profile datascience"]
    assert texts(refused("socket", 2, 1), "work(3)") == ["%sentinel_profile datascience"]


@pytest.mark.parametrize("kind", [3, 10, 3 | 0o2000000])
def test_a_raw_socket_is_no_profiles_to_give(kind: int) -> None:
    assert texts(refused("socket", 2, kind), LOOPBACK) == []


def test_a_lock_and_a_ceiling_are_kept() -> None:
    socket = refused("socket", 2, 1)
    locked = replace(LEEWAY, locked=True)
    strict = replace(LEEWAY, ceiling="strict")
    assert texts(socket, LOOPBACK, locked) == []
    assert texts(socket, LOOPBACK, strict) == []
    assert beyond_ceiling(socket, code=LOOPBACK, leeway=strict)
    assert beyond_ceiling(socket, code=LOOPBACK, leeway=locked)
    assert not beyond_ceiling(socket, code=LOOPBACK, leeway=LEEWAY)
    assert texts(socket, LOOPBACK, replace(strict, started="datascience")) == [
        "%sentinel_profile datascience"
    ]


def test_what_no_profile_gives_is_not_beyond_the_ceiling() -> None:
    assert not beyond_ceiling(refused("chroot"), code="x", leeway=LEEWAY)


KILLED_WITH_HANDLER = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0, 0, 0, 0) == -1:
    print("no tracing here")
"""


def test_a_profile_that_refuses_where_this_one_kills_helps_a_cell_that_handles_it() -> None:
    killed = refused("ptrace", killed=True)
    assert texts(killed, KILLED_WITH_HANDLER) == ["%sentinel_profile datascience"]
    assert texts(killed, KILLED_WITH_HANDLER.replace('print("no tracing here")', "raise OSError")) == []
    assert texts(refused("mount", killed=True), KILLED_WITH_HANDLER) == []  # killed for everywhere


def test_what_ends_the_sandbox_says_so_and_no_profile_is_said_to_allow_what_it_refuses() -> None:
    done = complete(refused("ptrace", killed=True), leeway=LEEWAY, code=KILLED_WITH_HANDLER)
    assert done.message is not None
    assert done.hint is not None
    assert "The sandbox was ended for it." in done.message.en
    assert "The profile datascience refuses it too, with an error that ends nothing" in done.hint.en
    assert "allows it" not in done.hint.en
    assert "允许此操作" not in done.hint.zh
    facts = Facts(policy=compiled(LEEWAY.profile("strict"), "x86_64"))  # type: ignore[arg-type]
    [finding] = check("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)", facts)
    before = with_remedies(
        finding, facts.policy, "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)", LEEWAY
    )
    assert [remedy.text for remedy in before.remedies] == ["%sentinel_profile datascience"]
    assert before.hint == done.hint  # the notice before the cell and the box in it say the same


def test_a_profile_that_shows_the_folder_is_offered() -> None:
    document = json.dumps({"extends": "strict", "filesystem": {"mounts": [{"path": "/data"}]}})
    more = parse_profile("more", document)
    leeway = replace(LEEWAY, profiles=(*SHIPPED, more), ceiling="more")
    hidden = occurred("path_hidden", ("path", "/data/x.csv"))
    assert texts(hidden, 'open("/data/x.csv")', leeway)[0] == "%sentinel_profile more --carry"
    assert texts(occurred("path_hidden", ("path", "/database/x.csv")), "", leeway) == []


@pytest.mark.parametrize(
    ("mounts", "asks", "rung", "why"),
    [
        ({"/data/x": "ro"}, True, "full", None),
        ({"/data/x": "overlay"}, False, "full", "what they write is held"),
        ({"/data/x": "overlay"}, False, "landlock", None),
        ({"/data/x": "rw"}, False, "full", None),  # it can be read until a person agrees
        ({"/data/x": "rw"}, True, "full", "you are asked"),
        ({"/data": "overlay", "/data/x": "ro"}, True, "full", None),
        ({"/data/x": "overlay", "/data": "ro"}, True, "full", "what they write is held"),
    ],
)
def test_for_a_write_only_a_profile_is_offered_under_which_it_succeeds(
    mounts: dict[str, str], asks: bool, rung: str, why: str | None
) -> None:
    places = {"mounts": [{"path": path, "mode": mode} for path, mode in mounts.items()]}
    own = parse_profile("own", json.dumps({"extends": "strict", "filesystem": places}))
    leeway = replace(LEEWAY, profiles=(*SHIPPED, own), ceiling="own", asks=asks, rung=rung)
    hidden = occurred("path_hidden", ("path", "/data/x/y.csv"))
    written = replace(hidden, values={**hidden.values, "does": "write"})
    code = "open(place, 'w')"
    found = remedies_for(written, code=code, leeway=leeway)
    assert [one.text for one in found] == ([] if why is None else ["%sentinel_profile own --carry"])
    if why is not None:
        assert found[0].why is not None
        assert why in found[0].why.en
        assert found[0].why.en.endswith("variables that can be pickled come along.")
        assert found[0].why.zh.endswith("可序列化的变量会一并带入。")
    # It can be read under any of them.
    assert texts(hidden, code.replace("'w'", "'r'"), leeway) == ["%sentinel_profile own --carry"]


def test_where_nobody_can_be_asked_the_profile_that_shows_the_folder_is_no_contradiction() -> None:
    leeway = replace(LEEWAY, profiles=(*SHIPPED, _with_a_folder("strict")), ceiling="own")
    hidden = occurred("path_hidden", ("path", "/data/x/y.csv"))
    done = complete(hidden, leeway=leeway, code=None)
    assert done.hint is not None
    assert "`%sentinel_profile own --carry`" in done.hint.en
    assert "Another profile shows it; or copy" in done.hint.en
    assert "另一个配置会显示它" in done.hint.zh
    for words in ("only once a person", "nobody can be asked", "%sentinel_mount"):
        assert words not in done.hint.en
    # Without such a profile a person's word is what it takes.
    alone = complete(hidden, leeway=LEEWAY, code=None)
    assert alone.hint is not None
    assert "nobody can be asked here" in alone.hint.en


@pytest.mark.parametrize("does", ["", "write"])
@pytest.mark.parametrize("asks", [False, True])
def test_no_profile_is_offered_for_a_secret(does: str, *, asks: bool) -> None:
    places = {"mounts": [{"path": "/data/x", "mode": "overlay"}]}
    own = parse_profile("own", json.dumps({"extends": "strict", "filesystem": places}))
    leeway = replace(LEEWAY, profiles=(*SHIPPED, own), ceiling="own", asks=asks)
    hidden = occurred("path_hidden", ("path", "/data/x/.env"), values={"does": does} if does else {})
    done = complete(hidden, leeway=leeway, code=None)
    assert done.remedies == ()
    assert done.hint is not None
    assert "%sentinel_profile" not in done.hint.en
    assert "%sentinel_profile" not in done.hint.zh
    assert does or done.hint.en.endswith("do without it.")


@pytest.mark.parametrize("fenced", [False, True])
def test_a_profile_with_hosts_is_in_place_in_a_sandbox_that_was_made_for_a_way_out(*, fenced: bool) -> None:
    network = {"allow": True, "hosts": ["example.org:443"]}
    listed = parse_profile("listed", json.dumps({"extends": "datascience", "network": network}))
    profiles = (load_profile("strict"), listed, _with_a_folder("datascience"))
    leeway = replace(LEEWAY, profiles=profiles, ceiling=None, fenced=fenced)
    magics = texts(refused("socket", 2, 1), LOOPBACK, leeway)
    assert magics[-1] == ("%sentinel_profile listed" if fenced else "%sentinel_profile own --carry")


# --- limits


@pytest.mark.parametrize(
    ("violation", "code", "line"),
    [
        (limited("memory", GIB), "import numpy as np\na = np.ones((20000, 10000))", "%sentinel_limit memory=4G"),
        (limited("memory", GIB), "x = bytearray(3 * 1024**3)", "%sentinel_limit memory=7G"),
        (limited("memory", GIB), "x = bytearray(9 << 30)", "%sentinel_limit memory=9600M"),
        (limited("memory", GIB), "x = [bytearray(1 << 20) for _ in range(4000)]", "%sentinel_limit memory=9G"),
        (limited("memory", GIB), None, "%sentinel_limit memory=4G"),
        (limited("pids", 128, "count"), "ts = [Thread(target=f) for _ in range(300)]",
         "%sentinel_limit pids=1024 memory=5G"),
        (limited("open_files", 4096, "count"), "fs = [open(n) for _ in range(9000)]",
         "%sentinel_limit open_files=32768"),
        (limited("wall_seconds", 2, "seconds"), "import time\ntime.sleep(20)", "%sentinel_limit wall=120"),
        (limited("wall_seconds", 2, "seconds"), "while busy(): pass", "%sentinel_limit wall=30"),
        (limited("cpu_seconds", 1, "seconds"), None, "%sentinel_limit cpu_seconds=30"),
        (limited("file_size", 1 << 20), "f.write(b'x' * (3 << 20))", "%sentinel_limit file_size=6M"),
        (limited("output", 1 << 20), "print('x' * 3000000)", "%sentinel_limit output=6M"),
        (limited("shm", 128 * MIB), "SharedMemory(create=True, size=200 << 20)", "%sentinel_limit shm=512M"),
        (limited("disk", 256 * MIB), "run(['dd', 'of=x', 'bs=1M', 'count=300'])", "%sentinel_limit disk=1G"),
        (limited("file_size", MIB), "def w(count):\n    for _ in range(count): f.write(b'r' * 1000000)\nw(40)",
         "%sentinel_limit file_size=59M"),
        (limited("file_size", MIB), "f.write(data)", "%sentinel_limit file_size=16M"),
        (limited("tmp", 16384, "count", values={"full_of": "names"}), "for n in range(20_000): open(n, 'w')",
         "%sentinel_limit tmp=1G"),
        (limited("tmp", 256 * MIB), "!dd if=/dev/zero of=/tmp/x bs=1M count=900",
         "%sentinel_limit tmp=2G memory=2G"),
        (occurred("child_killed", limit=Limit("memory", "kill", None, GIB, "bytes", own=False, backend="x")),
         "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'x = bytearray(2 * 1024**3)'])",
         "%sentinel_limit memory=5G"),
    ],
)  # fmt: skip
def test_a_limit_is_raised_to_what_the_cell_needs(violation: Violation, code: str | None, line: str) -> None:
    assert texts(violation, code)[0] == line


@pytest.mark.parametrize("name", sorted(MOST))
def test_no_limit_goes_beyond_the_ceiling(name: str) -> None:
    from sentinel_kernel.kernel.limit_magic import read_line
    from sentinel_kernel.policy.limit_remedy import TYPED

    cause, unit = next(((key, unit) for key, (_, field, unit) in TYPED.items() if field == name), ("", ""))
    if not cause:
        return
    for most in (1 << 20, 12345678, 3 * GIB + 5, None):
        for code in ("x = bytearray(1 << 40)\ntime.sleep(10**9)", "x = 1"):
            leeway = replace(LEEWAY, most={**MOST, "memory_bytes": 64 * GIB, name: most})
            for text in texts(limited(cause, (1 << 19), unit), code, leeway):
                if not text.startswith("%sentinel_limit"):
                    continue
                values = dict(read_line(text.split()[1:], chinese=False).limits)
                assert (values[name] or 0) > 1 << 19
                assert most is None or (values[name] or 0) <= max(most, 0)


def test_a_limit_at_its_ceiling_can_not_be_raised_and_that_is_said() -> None:
    at_most = limited("memory", 10 * GIB)
    assert texts(at_most, "x = 1") == []
    assert beyond_ceiling(at_most, code="x = 1", leeway=LEEWAY)
    assert (
        texts(limited("memory", GIB), "x = bytearray(20 << 30)") == []
    )  # more than the ceiling in one piece


@pytest.mark.parametrize("others", [(), SHIPPED])
def test_a_profile_that_takes_a_fresh_sandbox_goes_behind_and_with_the_word_that_asks_nobody(
    others: tuple[Profile, ...],
) -> None:
    strict = load_profile("strict")
    rules = [{"name": "socket", "action": "ALLOW"}]
    mounts = {"mounts": [{"path": "/data/x", "mode": "ro"}]}
    own = parse_profile(
        "own", json.dumps({"extends": "strict", "syscall_rules": rules, "filesystem": mounts})
    )
    leeway = Leeway((*others, strict, own), None)
    done = complete(refused("socket", 2, 1), leeway=leeway, code=LOOPBACK)
    magics = [remedy.text for remedy in done.remedies if remedy.kind == "magic"]
    assert done.hint is not None
    if others:
        assert magics == ["%sentinel_profile datascience"]
    else:
        assert magics == ["%sentinel_profile own --carry"]
        # Why it helps is said as ever: what answers there, and what does not.
        [why] = [remedy.why for remedy in done.remedies if remedy.why is not None]
        for said in (done.hint, why):
            assert "nothing of this machine outside it" in said.en
            assert "fresh sandbox; variables that can be pickled come along" in said.en
            assert "ariables stay" not in said.en
            assert "沙箱外的服务" in said.zh
            assert "新的沙箱；可序列化的变量会一并带入" in said.zh
            assert "变量会保留" not in said.zh
        unsure = complete(refused("socket", 2, 1), leeway=leeway, code=None).hint
        assert unsure is not None
        assert "`%sentinel_profile own --carry` at the top" in unsure.en
        assert "variables stay" not in unsure.en


@pytest.mark.parametrize(
    ("others", "line", "becomes"),
    [
        (
            (),
            "%sentinel_profile own --carry",
            "it takes a fresh sandbox; variables that can be pickled come along",
        ),
        (SHIPPED, "%sentinel_profile datascience", "variables stay"),
    ],
)
def test_a_profile_for_a_name_goes_behind_those_that_keep_the_variables_and_says_what_becomes_of_them(
    others: tuple[Profile, ...], line: str, becomes: str
) -> None:
    strict = load_profile("strict")
    # It gives sockets and less than datascience, which goes ahead of it all the same.
    rules = [{"name": "socket", "action": "ALLOW"}, {"name": "getcpu", "action": "NOTIFY"}]
    document = {
        "extends": "strict",
        "syscall_rules": rules,
        "filesystem": {"mounts": [{"path": "/data/x", "mode": "ro"}]},
        "network": {"allow": True},
    }
    own = parse_profile("own", json.dumps(document))
    missed = occurred("name_lookup", ("host", "example.org"))
    asked = complete(missed, leeway=Leeway((*others, strict, own), None, asks=True), code="get()")
    assert [one.code for one in asked.remedies] == [f"{line}\n%sentinel_allow example.org\nget()"]
    assert asked.hint is not None
    assert f"`{line}` and below it `%sentinel_allow example.org`" in asked.hint.en
    assert f"`{line}`，下一行写 `%sentinel_allow example.org`" in asked.hint.zh
    alone = complete(missed, leeway=Leeway((*others, strict, own), None), code="get()")
    assert alone.hint is not None
    assert f"as 127.0.0.1 under another profile: `{line}` ({becomes})" in alone.hint.en


def _with_a_folder(parent: str) -> Profile:
    mounts = {"mounts": [{"path": "/data/x", "mode": "ro"}]}
    return parse_profile("own", json.dumps({"extends": parent, "filesystem": mounts}))


def test_why_a_profile_in_a_fresh_sandbox_helps_is_said_and_no_lost_variables_are_promised() -> None:
    leeway = replace(LEEWAY, profiles=(load_profile("strict"), _with_a_folder("datascience")), ceiling=None)
    done = complete(refused("ptrace", killed=True), leeway=leeway, code=KILLED_WITH_HANDLER)
    [remedy] = done.remedies
    assert remedy.text == "%sentinel_profile own --carry"
    assert done.hint is not None
    assert remedy.why is not None
    typed = "start a cell with `%sentinel_profile own --carry`"
    assert f"The profile own refuses it too, with an error that ends nothing: {typed}" in done.hint.en
    assert "同样会拒绝此操作" in done.hint.zh
    assert remedy.why.en.startswith("Under this profile the call is refused with an error and not killed for")
    assert remedy.why.en.endswith(" It takes a fresh sandbox.")
    assert remedy.why.zh.endswith("可以继续运行。这需要新的沙箱。")
    roomy = remedies_for(limited("pids", 128, "count"), code="work()", leeway=leeway)[-1]
    assert roomy.text == "%sentinel_profile own --carry"
    assert roomy.why is not None
    assert roomy.why.en.startswith("The profile's own limit is higher; it also allows more calls")
    assert "come along" in roomy.why.en
    assert "也比当前配置允许更多的调用。这需要新的沙箱；" in roomy.why.zh


def test_what_is_written_to_a_hidden_folder_is_not_told_to_be_read_from_a_copy() -> None:
    hidden = occurred("path_hidden", ("path", "/data/survey/y.csv"))
    written = complete(hidden, leeway=LEEWAY, code='open("/data/survey/y.csv", "w").write("x")')
    assert written.hint is not None
    assert "Write the file in the notebook's folder" in written.hint.en
    assert "copy what the cell needs" not in written.hint.en
    assert "将所需内容复制到" not in written.hint.zh
    assert "does" not in written.values
    read = complete(hidden, leeway=LEEWAY, code='open("/data/survey/y.csv").read()')
    assert read.hint is not None
    assert "copy what the cell needs" in read.hint.en


def test_what_is_not_possible_is_said() -> None:
    code = "import numpy as np\nnp.ones((40000, 40000))"
    done = complete(limited("memory", GIB), leeway=LEEWAY, code=code)
    assert done.hint is not None
    assert (
        "A limit that would be enough is not possible under this kernel's ceiling (datascience)"
        in done.hint.en
    )
    assert "无法设定足够的限制" in done.hint.zh


ENDLESS = [
    "while True: pass",
    "kept = []\nwhile 1:\n    kept.append(bytes(100_000))",
    "%sentinel_limit wall=4\nwhile True:\n    for _ in range(3):\n        break",
    "import itertools\nfor n in itertools.count():\n    print(n)",
]
WITH_AN_END = [
    "while True:\n    if done(): break",
    "it = iter(x)\nwhile True:\n    use(next(it))",
    "try:\n    while True: kept.append(1)\nexcept MemoryError: pass",
    "def f():\n    while True: pass",
    "while more(): pass",
    "import itertools\nfor n in itertools.repeat(1, 3): pass",
]


@pytest.mark.parametrize("name", ["wall_seconds", "cpu_seconds", "memory", "output"])
def test_no_limit_is_enough_for_a_loop_without_an_end(name: str) -> None:
    unit = "seconds" if name.endswith("seconds") else "bytes"
    for code in ENDLESS:
        done = complete(limited(name, 1 << 20, unit), leeway=LEEWAY, code=code)
        assert done.remedies == ()
        assert done.hint is not None
        assert "has no end, so that no limit is enough" in done.hint.en
        assert "没有终点" in done.hint.zh
    for code in WITH_AN_END:
        done = complete(limited(name, 1 << 20, unit), leeway=LEEWAY, code=code)
        assert done.remedies
        assert done.hint is not None
        assert "has no end" not in done.hint.en
    trying = "while True:\n    try:\n        work()\n    except ValueError:\n        pass"
    done = complete(limited(name, 1 << 20, unit, line=3), leeway=LEEWAY, code=trying)
    assert done.remedies
    assert done.hint is not None
    for told, words in (
        (done.hint.en, "if the loop in line 1 ends by itself"),
        (done.hint.zh, "第 1 行的循环"),
    ):
        assert "%sentinel_limit" in told
        assert (words in told) == (unit == "seconds")
    in_function = "def f():\n    while True: pass\nf()"
    assert remedies_for(limited(name, 1 << 20, unit, line=2), code=in_function, leeway=LEEWAY) == ()
    assert remedies_for(limited(name, 1 << 20, unit, line=3), code=in_function, leeway=LEEWAY) != ()


@pytest.mark.parametrize(
    ("own", "changed"),
    [
        ("%sentinel_limit wall=4", "%sentinel_limit wall=120"),
        ("%sentinel_limit wall=4 pids=20  # small", "%sentinel_limit wall=120 pids=20  # small"),
        ("%sentinel_limit pids=20  # small", "%sentinel_limit pids=20 wall=120  # small"),
        (
            "%sentinel_limit pids=20\n%sentinel_limit wall=4",
            "%sentinel_limit pids=20\n%sentinel_limit wall=120",
        ),
    ],
)
def test_a_cells_own_limit_is_replaced_and_not_set_twice(own: str, changed: str) -> None:
    body = "\nimport time\ntime.sleep(20)"
    [remedy] = remedies_for(limited("wall_seconds", 4, "seconds"), code=own + body, leeway=LEEWAY)
    assert (remedy.kind, remedy.code) == ("code", changed + body)


def test_where_the_machine_is_short_no_limit_helps() -> None:
    assert texts(limited("memory", GIB, values={"machine": "short"})) == []


def test_a_smaller_pool_comes_before_more_processes() -> None:
    code = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(max_workers=500)"
    found = remedies_for(limited("pids", 128, "count"), code=code, leeway=LEEWAY)
    assert [remedy.kind for remedy in found] == ["code", "magic", "magic"]
    assert found[0].code == code.replace("500", "32")
    assert found[1].text == "%sentinel_limit pids=2048 memory=7G"
    assert found[2].text == "%sentinel_profile datascience"


# --- commands


@pytest.mark.parametrize(
    ("module", "package", "known"),
    [("sklearn", "scikit-learn", True), ("cv2.dnn", "opencv-python-headless", True), ("pandas", "pandas", True),
     ("some_thing", "some-thing", False)],
)  # fmt: skip
def test_an_absent_package_is_installed_into_the_environment_of_cells(
    module: str, package: str, *, known: bool
) -> None:
    (found,) = remedies_for(occurred("package_absent", ("package", module)), code=None, leeway=LEEWAY)
    assert found.kind == "command"
    assert found.text == f"/env/bin/python -m pip install {package}"
    assert found.why is not None
    assert ("Only if you know" in found.why.en) is not known


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sklear", "sklearn"), ("nunpy", "numpy"), ("pandsa", "pandas"), ("Numpy", "numpy"),
        ("matplotlb", "matplotlib"),
        ("pil", "PIL"), ("jsno", "json"), ("colections.abc", "collections"), ("tensroflwo", "tensorflow"),
    ],
)  # fmt: skip
def test_a_slip_of_the_keys_is_no_package_to_install(typed: str, meant: str) -> None:
    done = complete(occurred("package_absent", ("package", typed)), leeway=LEEWAY)
    assert done.remedies == ()
    assert done.hint is not None
    assert done.hint.en.startswith(f"Did you mean `{meant}`?")
    assert done.hint.zh.startswith(f"您是否想写 `{meant}`？")


@pytest.mark.parametrize("module", ["tkinter", "readline"])
def test_no_package_is_named_for_what_python_itself_brings(module: str) -> None:
    done = complete(occurred("package_absent", ("package", module)), leeway=LEEWAY)
    assert done.remedies == ()
    assert done.hint is not None
    assert "Did you mean" not in done.hint.en


def test_a_name_that_is_not_known_is_to_be_looked_up_first() -> None:
    done = complete(occurred("package_absent", ("package", "my_survey_tools")), leeway=LEEWAY)
    assert [remedy.text for remedy in done.remedies] == ["/env/bin/python -m pip install my-survey-tools"]
    assert done.hint is not None
    assert "look that name up before you run it" in done.hint.en
    assert "look that name up" not in str(complete(occurred("package_absent", ("package", "pandas"))).hint)


@pytest.mark.parametrize(
    ("code", "typed"),
    [
        ("%pip install seaborn", "seaborn"),
        ("!pip install -q seaborn", "seaborn"),
        ("x = 1\n!{sys.executable} -m pip install -U 'seaborn>=0.12' pandas", "-U 'seaborn>=0.12' pandas"),
        ("%%bash\npip3 install seaborn --retries 0 && echo done", "seaborn"),
        ("%sentinel_status\n%%bash\npython -m pip install seaborn[stats]", "'seaborn[stats]'"),
        ("!pip install my-survey-tools", "my-survey-tools"),
    ],
)
def test_what_pip_was_to_install_is_installed_outside(code: str, typed: str) -> None:
    command = f"/env/bin/python -m pip install {typed}"
    for violation in (
        by_pip(refused("socket", 2, 1)),
        occurred("name_lookup", ("host", "pypi.org")),
        by_pip(replace(refused("connect", 3, 1, 16, profile="datascience"), resource=NAME_LOOKUP)),
    ):
        done = complete(violation, leeway=LEEWAY, code=code)
        assert [(remedy.kind, remedy.text) for remedy in done.remedies] == [("command", command)]
        assert done.hint is not None
        assert ("look that name up before you run it" in done.hint.en) is ("survey" in code)
        assert "for a terminal of the host" in done.hint.en
        assert done.remedies[0].why is not None
        assert ("Only if you know" in done.remedies[0].why.en) is ("survey" in code)
    facts = Facts(policy=compiled(LEEWAY.profile("datascience"), "x86_64"), installed=lambda _name: "")  # type: ignore[arg-type]
    found = [one for one in check(code, facts) if one.what == "pip install"]
    assert bool(found) is ("{" not in code)
    for finding in found:
        before = with_remedies(finding, facts.policy, code, LEEWAY)
        assert [remedy.text for remedy in before.remedies] == [command]


@pytest.mark.parametrize(
    "code",
    ["!pip install -r wanted.txt", "!pip install $NAME", "!pip install ./wheel.whl", "!pip install pandsa",
     "!pip install --index-url http://x seaborn", "!pip install 'x; rm -rf ~'", "x = 'pip install seaborn'"],
)  # fmt: skip
def test_no_command_is_made_of_a_line_that_is_not_plain(code: str) -> None:
    assert texts(occurred("name_lookup", ("host", "pypi.org")), code) == []


def test_a_line_of_pip_says_nothing_of_another_lines_network() -> None:
    code = "!pip install seaborn\n!curl http://x.y"
    assert texts(replace(by_pip(refused("socket", 2, 1)), line=2), code) == []
    assert texts(replace(by_pip(refused("socket", 2, 1)), line=1), code) != []
    for command in ("curl http://x.y", "/env/bin/python -c 'import pipeline'"):
        other = by_pip(refused("socket", 2, 1), command)
        assert texts(other, f"%%bash\n{code[1:]}") == []


@pytest.mark.parametrize("name", ["x; rm -rf ~", "--index-url=http://x", "é", "", "a b", "x\n", "x" * 100])
def test_no_command_is_made_of_what_is_no_name(name: str) -> None:
    assert texts(occurred("package_absent", ("package", name))) == []


def test_a_copy_is_proposed_of_what_stands_in_the_cell_alone() -> None:
    hidden = occurred("path_hidden", ("path", "/data/it's.csv"))
    (found,) = remedies_for(hidden, code='x = open("/data/it\'s.csv").read()', leeway=LEEWAY)
    assert found.text == "cp -n -- '/data/it'\"'\"'s.csv' /home/u/nb/"
    assert texts(hidden, "x = load()") == []
    for secret in ("/home/u/.ssh/id_rsa", "/etc/shadow", "/data/.env", "/home/u/.pgpass", "/var/run/secrets/a",
                   "/home/u/.zsh_history", "/home/u/.cache/huggingface/token"):  # fmt: skip
        assert texts(occurred("path_hidden", ("path", secret)), f"open({secret!r})") == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/home/tester", "open('/home/tester')"),
        ("/data/", "open('/data/')"),
        ("/root/.cache", "import os\nos.listdir('/root/.cache')"),
        ("/var/lib", "import pathlib\nlist(pathlib.Path('/var/lib').iterdir())"),
        ("/root/.cargo", "import os\np = '/root/.cargo'\nfor found in os.walk(p): pass"),
    ],
)
def test_no_copy_is_proposed_of_a_folder(path: str, code: str) -> None:
    hidden = replace(occurred("path_hidden", ("path", path)), line=code.count("\n") + 1)
    assert texts(hidden, code) == []


def test_a_copy_neither_takes_a_folder_nor_overwrites_a_file() -> None:
    (text,) = texts(
        occurred("path_hidden", ("path", "/work/x/Makefile")), "x = open('/work/x/Makefile').read()"
    )
    assert text == "cp -n -- /work/x/Makefile /home/u/nb/"


# --- in general


def test_every_profile_that_is_named_lets_the_call_through() -> None:
    for source in SHIPPED:
        policy = compiled(source, "x86_64")
        for rules in policy.rules.values():
            for rule in rules:
                arguments = [0] * 6
                for test in rule.tests:
                    arguments[test.index] = test.value
                asked = Request(rule.number, AUDIT_ARCH_X86_64, tuple(arguments), 1, 1, "", True)  # type: ignore[arg-type]
                verdict = judge(asked, policy)
                if not verdict.report:
                    continue
                for remedy in remedies_for(
                    make_violation(asked, verdict, policy, "id", 0), code=None, leeway=LEEWAY
                ):
                    named = remedy.text.removeprefix("%sentinel_profile ")
                    assert lets_through(compiled(load_profile(named), "x86_64"), rule.number, arguments)


@pytest.mark.parametrize("cause", ["name_lookup", "network_unreachable", "path_denied", "call_absent"])
def test_what_nothing_gives_has_no_remedy(cause: str) -> None:
    assert texts(occurred(cause, ("path", "/proc/kcore")), 'open("/proc/kcore")') == []


def test_what_went_on_needs_none() -> None:
    assert texts(replace(refused("socket", 2, 1), outcome="continued"), LOOPBACK) == []


def test_an_absent_package_is_installed_by_the_cell_where_that_can_be_done() -> None:
    absent = occurred("package_absent", ("package", "yaml"))
    web, fetched = replace(absent, profile="web"), replace(LEEWAY, wheels=frozenset({"pyyaml"}))
    profiles = replace(
        LEEWAY, profiles=tuple(load_profile(name) for name in ("strict", "datascience", "web"))
    )
    for violation, leeway, line in (
        (web, profiles, "%pip install PyYAML"),
        (absent, fetched, "%pip install --no-index PyYAML"),
    ):
        done = complete(violation, leeway=leeway)
        assert [(one.kind, one.text) for one in done.remedies] == [("magic", line)]
        for text in (done.hint, done.message):
            assert text is not None
            assert "outside" not in text.en
            assert "沙箱外" not in text.zh
        assert done.hint is not None
        assert f"`{line}`" in done.hint.en
        assert f"`{line}`" in done.hint.zh
    assert complete(absent, leeway=LEEWAY).remedies[0].kind == "command"


def test_pip_that_finds_a_fetched_wheel_is_not_sent_to_a_terminal() -> None:
    missed = replace(occurred("name_lookup", ("host", "pypi.org")), line=1)
    leeway = replace(LEEWAY, wheels=frozenset({"cowsay"}))
    (found,) = remedies_for(missed, code="%pip install cowsay\nimport cowsay", leeway=leeway)
    assert (found.kind, found.code) == ("code", "%pip install --no-index cowsay\nimport cowsay")
    (outside,) = remedies_for(missed, code="%pip install cowsay", leeway=LEEWAY)
    assert outside.kind == "command"
