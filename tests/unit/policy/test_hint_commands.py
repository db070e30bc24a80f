"""Commands in hints: accepted as they stand, with nothing promised that a death has taken."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sample_violations import occurred, refusal, refused

from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.limit_magic import LimitChange
from sentinel_kernel.kernel.magics import Magics
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.policy.cause import CALL, CAUSES
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.limit_remedy import TYPED
from sentinel_kernel.policy.own_limits import beyond
from sentinel_kernel.policy.plan import Sizes
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.violation import Limit, Process
from sentinel_kernel.record import replace
from sentinel_kernel.worker.leading_block import parse_leading_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.policy.violation import Violation

MIB, GIB = 1 << 20, 1 << 30
REPOSITORY = Path(__file__).parents[3]
MOST = Sizes(
    memory_bytes=11121 * MIB, cpu_count=2, pids=4096, disk_bytes=4 * GIB, tmp_bytes=2 * GIB, shm_bytes=2 * GIB,
    open_files=65536, file_size_bytes=None,
)  # fmt: skip
SIZES: dict[str, float | None] = {
    "memory_bytes": GIB, "cpu_count": 1, "pids": 128, "disk_bytes": 256 * MIB, "tmp_bytes": 256 * MIB,
    "shm_bytes": 128 * MIB, "open_files": 4096, "file_size_bytes": None, "output_bytes": None, "wall_seconds": None,
    "cpu_seconds": None,
}  # fmt: skip
LEEWAY = Leeway(
    profiles=tuple(load_profile(name) for name in list_profiles()),
    sizes=SIZES,
    most={name: getattr(MOST, name) for name in SIZES},
    workspace="/home/u/nb",
    python="/env/bin/python",
    asks=True,
)
MAGICS = Magics("en", (), Ceiling(read_settings(["-f", "-"], {}, ".")), lambda: "strict", list)
CODES = (
    None, "x = 1", "import numpy as np\nx = np.ones((20000, 10000))",
    "from threading import Thread\nts = [Thread(target=f) for _ in range(1100)]",
    "from threading import Thread\nts = [Thread(target=f) for _ in range(9000)]",
    "!git clone https://github.com/a/b",
)  # fmt: skip


def commands(text: str) -> list[str]:
    """Return the magics in words that are for a person: all between backquotes, and limits that stand without."""
    quoted = re.findall(r"`(%sentinel_[^`]*)`", text)
    return quoted + re.findall(r"(?<!`)%sentinel_\w+(?: [a-z_]+=[^\s。，；;,)`]+)+", text)


def assert_can_be_typed(text: str) -> None:
    for command in commands(text):
        lines = parse_leading_block(f"{command.rstrip('.')}\nx = 1").lines
        assert [line.name for line in lines] == [command.split()[0][1:].rstrip(".")], command
        for action in MAGICS.check(lines):  # raises where it is not understood
            if isinstance(action, LimitChange):
                assert not beyond(action.limits, MOST), command
    limits = "|".join(typed for typed, _, _ in TYPED.values())
    bare = re.sub(r"%sentinel_limit(?: [a-z_]+=\S+)+", "", text)
    assert not re.search(rf"\b(?:{limits})=", bare), f"a limit without its magic: {text}"
    assert "=..." not in text


def situations() -> Iterator[Violation]:
    """Yield a violation of each cause, limit, stage and end."""
    for cause in CAUSES.values():
        if cause.name == CALL:
            continue
        for does in ("", *cause.variants):
            values = {
                "does": does,
                "ended_by": does,
                "signal": "SIGKILL",
                "folder": "/data/x",
                "inside": "/mnt/x/y",
            }
            subject = {"package_absent": ("package", "no_such"), "name_lookup": ("host", "example.org")}
            yield occurred(cause.name, subject.get(cause.name, ("path", "/data/x/y.csv")), values=values)
    for name, (_, field, unit) in TYPED.items():
        for stage, worker in itertools.product(("soft", "refused", "interrupt", "kill"), (False, True)):
            allowed = SIZES[field] or 1 << 20
            limit = Limit(name, stage, None, allowed, unit, own=False, backend="x")
            plain = occurred(name, limit=limit, resource="worker" if worker else "cell")
            yield plain
            yield replace(plain, values={"wanted": "thread"})
            yield replace(plain, limit=replace(limit, allowed=11121 * MIB - 1))
    yield refused("socket", 2, 1)
    yield refused("ptrace", killed=True)
    yield refused("mount", killed=True)


DONE = [complete(one, code=code, leeway=LEEWAY) for one in situations() for code in CODES]


def texts(violation: Violation) -> list[str]:
    words = [violation.message, violation.hint, *(remedy.why for remedy in violation.remedies)]
    typed = [f"`{one.text}`" for one in violation.remedies if one.kind == "magic" and "pip" not in one.text]
    return [text for one in words if one is not None for text in (one.en, one.zh)] + typed


def test_every_command_that_is_said_can_be_typed_as_it_stands() -> None:
    said = [text for violation in DONE for text in texts(violation)]
    assert sum(bool(commands(text)) for text in said) > 100
    for text in set(said):
        assert_can_be_typed(text)


def test_every_command_of_the_mappings_can_be_typed_as_it_stands() -> None:
    document = json.loads((REPOSITORY / "mappings" / "syscall_feedback.json").read_text())
    shown = {"{folder}": "/data/survey", "{inside}": "/mnt/survey/x.csv"}
    for group in itertools.chain(document["groups"], document["causes"], document["errors"]):
        for text in (group["en"], group["zh"], *group["hint"].values()):
            assert_can_be_typed(re.sub(r"{folder}|{inside}", lambda found: shown[found[0]], text))


def test_every_line_of_the_corpus_can_be_typed_as_it_stands() -> None:
    files = sorted((REPOSITORY / "tests" / "explained" / "programs").glob("*.cells"))
    fixes = [line for file in files for line in re.findall(r"(?m)^fix: (%sentinel.*)$", file.read_text())]
    assert len(fixes) > 10
    for fix in fixes:
        MAGICS.check(parse_leading_block(fix).lines)


def test_no_variables_are_promised_that_a_death_has_taken() -> None:
    lost = [violation for violation in DONE if violation.loses_variables]
    kept = [violation for violation in DONE if not violation.loses_variables]
    promise = re.compile(r"variables (?:stay|are kept)|变量(?:会|均已)保留")
    assert sum(bool(promise.search(text)) for one in kept for text in texts(one)) > 50
    assert len(lost) > 100
    for violation in lost:
        for text in texts(violation):
            assert not promise.search(text), text
    raised = [one for one in lost if one.cause == "memory" and one.remedies]
    assert raised
    for one in raised:
        assert one.hint is not None
        assert "after the cells that define your variables" in one.hint.en
        assert "先重新运行定义变量的单元格" in one.hint.zh


def threads(count: int) -> str:
    return f"from threading import Thread\nts = [Thread(target=f) for _ in range({count})]"


def test_what_is_proposed_for_threads_is_enough_for_them_and_can_be_had_a_little_later() -> None:
    limit = Limit("memory", "refused", None, GIB, "bytes", own=False, backend="x")
    violation = occurred("memory", limit=limit, values={"wanted": "thread"})
    first = complete(violation, code=threads(900), leeway=LEEWAY).remedies[0]
    assert first.text.startswith("%sentinel_limit memory=")
    (action,) = MAGICS.check(parse_leading_block(first.text).lines)
    assert isinstance(action, LimitChange)
    limits: dict[str, Any] = dict(action.limits)
    assert 900 * 9 * MIB + 300 * MIB <= limits["memory_bytes"] <= 15 / 16 * 11121 * MIB
    assert limits["pids"] >= 900
    too_many = complete(violation, code=threads(9000), leeway=LEEWAY)
    assert [one for one in too_many.remedies if "limit" in one.text] == []
    assert too_many.hint is not None
    assert "is not possible under this kernel's ceiling" in too_many.hint.en


# --- programs that ask for a host


def of_program(**fields: Any) -> Violation:
    return refusal(process=Process(9, "git", is_worker=False), **fields)


IN_DATASCIENCE = of_program(
    profile="datascience", syscall="connect", resource="name-lookup", architecture="x86_64"
)
IN_STRICT = of_program(architecture="x86_64", number=41)


@pytest.mark.parametrize(
    ("code", "host"),
    [
        ("!git clone https://github.com/pallets/click", "github.com"),
        ("x = 1\n!git clone git@github.com:pallets/click.git", "github.com"),
        ("%%bash\ncd /tmp\ncurl -sSf https://example.org:8443/x.sh", "example.org"),
        ("!wget -q example.org/data.csv -O data.csv", "example.org"),
        ("!curl https://me:secret@Example.org/x", "example.org"),
        (
            'import subprocess\nsubprocess.run(["git", "clone", "https://github.com/a/b"], check=True)',
            "github.com",
        ),
        ("!curl https://github.com@203.0.113.5/x", "203.0.113.5"),
    ],
)
def test_the_host_that_a_program_is_to_reach_is_named(code: str, host: str) -> None:
    here = complete(IN_DATASCIENCE, code=code, leeway=LEEWAY)
    assert [one.text for one in here.remedies] == [f"%sentinel_allow {host}"]
    assert here.hint is not None
    assert here.hint.en.startswith(f"Put `%sentinel_allow {host}` at the top of the cell")
    assert f"`%sentinel_allow {host}`" in here.hint.zh
    there = complete(IN_STRICT, code=code, leeway=LEEWAY)
    assert [one.code for one in there.remedies] == [
        f"%sentinel_profile datascience\n%sentinel_allow {host}\n{code}"
    ]
    assert there.hint is not None
    assert f"`%sentinel_profile datascience` and below it `%sentinel_allow {host}`" in there.hint.en


@pytest.mark.parametrize(
    "code",
    [
        None,
        "!git pull",
        "!curl https://$HOST/x",
        "!curl {url}",
        "!curl https://a.example.org https://b.example.org",
        "!curl https://a.org\\@b.org/x",
        "!curl http://127.0.0.1:8000/x",
        "!wget -i list.txt",
        "print('git clone https://github.com/a/b')",
        "!./mine https://github.com/a/b",
    ],
)
def test_where_the_host_is_not_known_its_place_is_said_to_be_one(code: str | None) -> None:
    done = complete(IN_DATASCIENCE, code=code, leeway=LEEWAY)
    assert done.remedies == ()
    assert done.hint is not None
    assert "`%sentinel_allow HOST` (HOST: the host's name, e.g. github.com)" in done.hint.en
    assert "`%sentinel_allow HOST`（HOST 为主机名，例如 github.com）" in done.hint.zh
    assert complete(IN_STRICT, code=code, leeway=LEEWAY).remedies == ()


def test_what_the_program_says_of_itself_names_no_host() -> None:
    said = of_program(profile="datascience", syscall="connect", resource="name-lookup", architecture="x86_64")
    said = replace(said, process=Process(9, "git clone https://evil.example/x", is_worker=False))
    assert complete(said, code="run()", leeway=LEEWAY).remedies == ()


# --- a module that is not there


def test_a_module_that_is_not_there_is_told_how_a_cell_gets_it() -> None:
    absent = occurred("package_absent", ("package", "nosuchmodule"))
    done = complete(absent, leeway=LEEWAY)
    assert done.hint is not None
    for said in ("`%pip install` works under a profile with an index of packages (web)", "--no-index",
                 "`sentinel-kernel wheels add`"):  # fmt: skip
        assert said in done.hint.en
    for said in ("`%pip install` 可在带软件包索引的配置（web）下使用", "`sentinel-kernel wheels add`"):
        assert said in done.hint.zh
    inside = complete(replace(absent, profile="web"), leeway=LEEWAY)
    assert inside.hint is not None
    assert "`%pip install nosuchmodule`" in inside.hint.en
    assert "`%pip install nosuchmodule`" in inside.hint.zh
