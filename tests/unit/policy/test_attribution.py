"""Whether the sandbox caused an error, by evidence alone: calls, limits and paths, each beside what it must not be."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING, Any

import pytest
import sample_violations

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy import attribution
from sentinel_kernel.policy.cell_lines import CellNames, file_name
from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.failure_report import REPORT_BYTES, Failure, read_report, to_json, typed
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.memory_signs import size_tells
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.path_attribution import (
    DENIED,
    HIDDEN,
    READ_ONLY,
    Look,
    Seen,
    asks_host,
    normal,
    why_path,
)
from sentinel_kernel.policy.plan import MountEntry, MountKind
from sentinel_kernel.policy.violation import Process, Violation
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import BootPlan

NOW = 1_000_000


def line(number: int, function: str = "<module>", file: str = "") -> list[Any]:
    """Return a line of the running cell."""
    return [number, function, file]


def failure(*chain: dict[str, Any]) -> Failure:
    """Return a report of errors with some fields set."""
    plain = {"ename": "E", "base": "OSError", "by": "call", "lines": [line(3, "load"), line(9)]}
    return read_report({"thread": 7, "chain": [{**plain, **entry} for entry in chain]})


def refusal(**facts: Any) -> Violation:
    """Return the refusal of a call at line 3."""
    young = {"first_time_ms": NOW - 100, "last_time_ms": NOW - 100}
    return sample_violations.refusal(**{**young, "line": 3, **facts})


def found(entry: dict[str, Any], *violations: Violation, coarse: str = "") -> Violation | None:
    """Return the refusal that explains an error."""
    one = failure({"errno": errno.EPERM, **entry})
    return attribution.refused_call(one.chain[0], one, violations, NOW, {coarse})


def test_a_refused_call_explains_the_error_of_its_own_line() -> None:
    assert found({}, refusal()) is not None
    assert found({"lines": [line(9)]}, refusal()) is None
    assert found({}, refusal(errno=errno.EACCES)) is None
    assert found({}, refusal(process=Process(9, "sh", is_worker=False))) is None
    assert found({"path": "/x"}, refusal()) is None
    assert found({"path": "/x"}, refusal(syscall="mknod", resource="devices")) is not None
    assert found({"errno": None}, refusal(errno=None)) is None


def test_what_a_program_raises_by_hand_is_its_own() -> None:
    for by in ("raise", "library", "standard", "soft"):
        assert found({"by": by}, refusal()) is None
    assert found({"by": "standard", "site": "program"}, refusal()) is None
    child = Process(9, "python", is_worker=False)
    assert found({"by": "standard", "site": "program"}, refusal(process=child)) is not None
    assert found({"by": "ctypes", "lines": [line(5)]}, refusal()) is not None
    assert found({"by": "ctypes", "lines": [line(2)]}, refusal()) is None


def test_a_refusal_without_a_line_counts_while_it_is_young() -> None:
    assert found({}, refusal(line=None)) is not None
    assert found({}, refusal(line=None, last_time_ms=NOW - attribution.FRESH_MS - 1)) is None


def test_a_refusal_that_was_repeated_elsewhere_is_only_likely_the_errors() -> None:
    entry = {"lines": [line(9)]}
    assert found(entry, refusal(count=3)) is None  # each was on line 3
    assert found(entry, refusal(count=30), coarse="v") is not None
    assert found(entry, refusal(last_time_ms=NOW - attribution.FRESH_MS - 1), coarse="v") is None
    one = failure({"errno": errno.EPERM, **entry})
    assert not attribution.is_sure(refusal(), one.chain[0], one)
    here = refusal(id="here", line=9, last_time_ms=NOW - 300)
    assert found(entry, refusal(count=30), here, coarse="v") == here
    assert attribution.is_sure(here, one.chain[0], one)


def test_an_error_of_another_process_is_only_likely_a_refusals() -> None:
    child = refusal(process=Process(9, "python", is_worker=False), line=9)
    one = failure({"errno": errno.EPERM, "by": "remote"})
    assert found({"by": "remote"}, child) is not None
    assert not attribution.is_sure(child, one.chain[0], one)


def test_a_lookup_fails_for_a_refusal_and_not_for_a_name_that_never_is() -> None:
    def explained(**entry: Any) -> bool:
        one = failure({"base": "gaierror", "errno": -3, "host": "rivers.org", **entry})
        return attribution.failed_lookup(one.chain[0], one, [refusal()], NOW) is not None

    assert explained()
    one = failure({"base": "gaierror", "errno": -3, "host": "rivers.org"})
    asked = refusal(syscall="connect", resource=attribution.NAME_LOOKUP)
    made = [refusal(), refusal(line=None), asked]
    sure = [attribution.is_sure(found, one.chain[0], one) for found in made]
    assert sure == [
        True,
        False,
        True,
    ]  # a socket is refused for other reasons too: its line must be the error's
    assert not explained(host="rivers.invalid")
    assert not explained(by="raise")
    assert not explained(errno=111)


@pytest.mark.parametrize(("kind", "explains"), [(1, True), (2 | 0o2000000, True), (3, False), (5, False)])
def test_a_lookup_fails_for_no_raw_socket(kind: int, explains: bool) -> None:
    arguments = (Argument("family", 2, "AF_INET"), Argument("type", kind, ""))
    one = failure({"base": "gaierror", "errno": -3, "host": "rivers.org"})
    refused = refusal(arguments=arguments)
    assert (attribution.failed_lookup(one.chain[0], one, [refused], NOW) is not None) is explains


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({"errno": errno.ENOSPC}, ("space",)),
        ({"errno": errno.ENOSPC, "by": "raise"}, ()),
        ({"errno": errno.EMFILE}, ("open_files",)),
        ({"errno": errno.EAGAIN}, ("pids", "memory")),
        ({"errno": errno.EAGAIN, "site": "spawn"}, ("pids", "memory", attribution.STARTS)),
        ({"errno": errno.ETIMEDOUT}, ()),
        ({"base": "RuntimeError"}, ()),
        ({"base": "RuntimeError", "site": "thread"}, ("pids", "memory", attribution.STARTS)),
        ({"base": "MemoryError"}, ("memory",)),
        ({"base": "MemoryError", "by": "raise"}, ()),
        ({"base": "KeyboardInterrupt", "by": "raise"}, ()),
        ({"base": "CalledProcessError", "returncode": -9}, ("killed",)),
        ({"base": "CalledProcessError", "returncode": -11}, ()),
        ({"base": "CalledProcessError", "returncode": 1}, (attribution.CROWDED, attribution.FULL)),
        (
            {"base": "CalledProcessError", "returncode": 1, "code": errno.ENOSPC},
            (attribution.CROWDED, attribution.FULL, attribution.ROOM),
        ),
        (
            {"base": "CalledProcessError", "returncode": 1, "code": errno.ENOMEM},
            (attribution.CROWDED, attribution.FULL, "memory"),
        ),
        ({"base": "OperationalError", "code": 13}, ("space",)),
        ({"base": "OperationalError", "code": 1}, ()),
    ],
)
def test_which_limits_an_error_may_be_about(entry: dict[str, Any], names: tuple[str, ...]) -> None:
    assert attribution.limit_names(failure(entry).chain[0]) == names


def test_only_limits_of_this_cell_that_were_measured_count() -> None:
    entry = failure({"base": "KeyboardInterrupt"}).chain[0]
    told = {"name": "wall_seconds", "stage": "interrupt", "msg_id": "m"}
    assert attribution.told_limit("wall_seconds", entry, [told], "m") == told
    assert attribution.told_limit("wall_seconds", entry, [told], "other") is None
    full = {"name": "tmp", "stage": "refused"}
    assert attribution.told_limit("space", entry, [full], "m") == full


def test_a_size_tells_of_the_limit_unless_no_machine_has_it() -> None:
    assert size_tells(2 << 30, 1 << 30, 8 << 30)
    assert not size_tells(8 << 40, 1 << 30, 8 << 30)
    assert not size_tells(1 << 20, 1 << 30, 8 << 30)
    assert not size_tells(None, 1 << 30, 8 << 30)


# --- paths


def look(mode: int = stat.S_IFREG | 0o644, uid: int = 1000, real: str = "", **facts: Any) -> Look:
    """Return what was found at a path."""
    return Look(mode, uid, 1000, **({"no_exec": False, "readable": True} | facts), real=real)


FOLDER = look(stat.S_IFDIR | 0o755)


@pytest.fixture
def plan() -> BootPlan:
    """Return the mounts of a sandbox."""
    from types import SimpleNamespace

    mounts = (
        MountEntry(MountKind.BIND, "/usr", "/usr"),
        MountEntry(MountKind.TMPFS, "/tmp"),
        MountEntry(MountKind.TMPFS, "/home/ada"),
        MountEntry(MountKind.OVERLAY, "/home/ada/work", "/home/ada/work"),
        MountEntry(MountKind.BIND_WRITABLE, "/data", "/data"),
        MountEntry(MountKind.MASK_DIRECTORY, "/home/ada/work/.ssh"),
    )
    writable = ("/tmp", "/home/ada", "/home/ada/work", "/data")
    identity = SimpleNamespace(host_uid=1000, host_gid=1000)
    made: Any = SimpleNamespace(mounts=mounts, writable=writable, identity=identity, lists=None)
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("number", "path", "seen", "cause"),
    [
        (errno.ENOENT, "/srv/x", Seen(None, look(real="/srv/x"), None, FOLDER), HIDDEN),
        (errno.ENOENT, "/srv/x", Seen(None, None, None, FOLDER), None),
        (errno.ENOENT, "/srv/x", Seen(look(), look(), FOLDER, FOLDER), None),
        # What a cell has removed is still there on the host.
        (errno.ENOENT, "/home/ada/work/x", Seen(None, look(real="/home/ada/work/x"), FOLDER, FOLDER), None),
        # A link of the host's that leads out of what is shown.
        (errno.ENOENT, "/home/ada/work/x", Seen(None, look(real="/mnt/big/x"), FOLDER, FOLDER), HIDDEN),
        (errno.ENOENT, "/home/ada/work/.ssh/id", Seen(None, look(real="/x"), FOLDER, FOLDER), DENIED),
        (errno.ENOENT, "/home/ada/work/.ssh/id", Seen(None, None, FOLDER, FOLDER), None),
        (errno.EROFS, "/usr/x", Seen(None, None, FOLDER, FOLDER), READ_ONLY),
        (errno.EROFS, "/data/x", Seen(None, None, FOLDER, FOLDER), None),
        (errno.EACCES, "/usr/x", Seen(look(), look(), FOLDER, FOLDER), READ_ONLY),
        (errno.EACCES, "/usr/x", Seen(look(stat.S_IFREG, readable=False), look(stat.S_IFREG, readable=False), FOLDER,
                                      FOLDER), None),
        (errno.EACCES, "/usr/x", Seen(look(stat.S_IFREG | 0o600, 0), look(stat.S_IFREG | 0o600, 0), FOLDER, FOLDER),
         DENIED),
        # Closed by the cell itself: on the host it has another mode.
        (errno.EACCES, "/home/ada/work/x", Seen(look(stat.S_IFREG), look(), FOLDER, FOLDER), None),
        (errno.EACCES, "/home/ada/work/x", Seen(look(), look(), FOLDER, FOLDER), None),
        (errno.EACCES, "/proc/kcore", Seen(look(), None, FOLDER, None), DENIED),
        (errno.EROFS, "/proc/sys/kernel/x", Seen(look(), None, FOLDER, None), READ_ONLY),
        (errno.EACCES, "/proc/7/environ", Seen(look(), None, FOLDER, None), None),
    ],
)  # fmt: skip
def test_why_a_path_failed(plan: BootPlan, number: int, path: str, seen: Seen, cause: str | None) -> None:
    why = why_path(number, path, seen, plan, program=False, writes=False)
    assert (why and why.cause) == cause


@pytest.mark.parametrize(
    ("path", "told"),
    [("/proc/1/environ", "the sandbox's first process"), ("/proc/kcore", "the machine as a whole")],
)
def test_no_copy_is_proposed_of_what_no_profile_shows(plan: BootPlan, path: str, told: str) -> None:
    why = why_path(errno.EACCES, path, Seen(look(), None, FOLDER, None), plan, program=False, writes=False)
    assert why is not None
    made = make_occurrence(why.cause, id="id", profile="strict", rule=why.rule, time_ms=0)
    done = complete(replace(made, values={**made.values, "does": why.does}))
    assert done.message is not None
    assert done.hint is not None
    assert told in done.message.en
    assert "Copy" not in done.hint.en
    assert "复制" not in done.hint.zh


def test_a_new_file_in_a_folder_of_the_hosts_alone(plan: BootPlan) -> None:
    seen = Seen(None, None, None, FOLDER)
    why = why_path(errno.ENOENT, "/srv/new", seen, plan, program=False, writes=True)
    assert why is not None
    assert (why.cause, why.confidence) == (HIDDEN, "likely")


def test_which_paths_mean_the_same_on_the_host() -> None:
    assert normal("//srv/../etc/./x") == "/etc/x"
    assert asks_host("/etc/x")
    assert not any(map(asks_host, ("/", "/proc/self/fd/3", "/dev/fd/0", "/dev/shm/x")))


# --- reading


def test_a_report_is_read_as_it_was_written() -> None:
    one = failure({"errno": 2, "path": "/x", "library": ["a/b.py", 3, "f"], "bytes": 5}, {"base": ""})
    again = read_report(to_json(one))
    assert to_json(again) == to_json(one)
    assert again.lines == {3, 9}


def test_lines_are_those_that_were_typed() -> None:
    def lines(code: str, number: int, *, ended: bool = False, file: str = "") -> list[tuple[int, bool]]:
        names = CellNames()
        names.begin("m", code)
        if ended:
            names.end("m")
        file = file or f"/tmp/ipykernel_7/{file_name(code)}.py"
        one = typed(failure({"lines": [line(number, file=file)]}), names)
        return [(at.number, at.sure) for at in one.chain[0].lines]

    assert lines("\n\nimport os\nimport rivers", 2) == [(4, True)]
    assert lines("!ls \\\n  -l\nimport rivers", 2) == [(3, False)]
    assert lines("%%time\n\nimport rivers", 1, file="<timed exec>") == [(3, True)]
    assert lines("import rivers", 1, ended=True) == []
    assert lines("import rivers", 7) == [(7, False)]
    assert lines("import rivers", 7, file="/tmp/river.py") == [(7, False)]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"chain": []},
        {"chain": [{}] * 9},
        {"chain": ["x"]},
        {"chain": [{"base": "OSError", "by": "magic", "lines": []}]},
        {"chain": [{"base": "Mine", "by": "call", "lines": []}]},
        {"chain": [{"base": "", "by": "call", "lines": [line(0)]}]},
        {"chain": [{"base": "", "by": "call", "lines": [[1, "f"]]}]},
        {"chain": [{"base": "", "by": "call", "lines": [[1, "f", 3]]}]},
        {"chain": [{"base": "", "by": "call", "lines": [line(1)] * 17}]},
        {"chain": [{"base": "", "by": "call", "lines": [], "errno": True}]},
        {"chain": [{"base": "", "by": "call", "lines": [], "errno": 1 << 63}]},
        {"chain": [{"base": "", "by": "call", "lines": [], "path": 3}]},
        {"chain": [{"base": "", "by": "call", "lines": [], "library": ["x", 1]}]},
    ],
)
def test_what_is_no_report_is_an_error(document: object) -> None:
    with pytest.raises(ProtocolError):
        read_report(document)


def test_paths_that_can_be_none_are_left_out_and_texts_are_cut() -> None:
    entry = {"base": "", "by": "call", "lines": []}
    for path in ("", "a\0b", "/" + "a" * 5000, "\ud800"):
        assert read_report({"chain": [{**entry, "path": path}]}).chain[0].path is None
    long = read_report({"chain": [{**entry, "ename": "\ud800" + "a" * 1000}] * 8})
    assert len(long.chain[0].ename) == 200
    assert len(str(to_json(long))) < REPORT_BYTES
