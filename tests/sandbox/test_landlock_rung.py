"""The landlock rung, on machines that refuse what the full one is made of: what it keeps out, and what it leaves."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lesser_machine import prefix
from ordinary_user import Identity, ordinary_identity
from supervised import Supervised, own_folder
from waiting import wait_until

from sentinel_kernel.abi.architecture import architecture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("landlock")]

VICTIMS = Path(__file__).parents[1] / "victims"
SECURITY = Path(__file__).parents[2] / "SECURITY.md"
MACHINES = {
    "user.max_user_namespaces is 0": ("no_namespaces",),
    "a filter as Docker's": ("docker",),
    "a covered /proc": ("covered_proc",),
}
NOT_REFUSED = {"uid"}
OLDEST = 4
"""The least version of Landlock that will do; signals are made from outside there."""
_WHO = ["user", "root"] if os.geteuid() == 0 else ["user"]


@pytest.fixture(scope="module", params=_WHO)
def someone(request: pytest.FixtureRequest) -> Iterator[Identity]:
    """Give who starts the kernel; the interpreter is one that others than root can reach."""
    with ordinary_identity() as ordinary:
        if request.param == "user":
            yield ordinary
            return
        home = own_folder(replace(ordinary, uid=0), Path(ordinary.home) / "of-root")
        (home / "tmp").mkdir(exist_ok=True)
        for folder in (Path(ordinary.home), home, home / "tmp"):
            folder.chmod(0o755)
        yield replace(ordinary, name="root", uid=0, prefix=(), home=home)


@pytest.fixture(scope="module")
def place(someone: Identity) -> Path:
    """Return a folder with a workspace in it, and things outside of that."""
    top = own_folder(someone, someone.home / "place")
    top.chmod(0o755)
    for name in ("work", "outside"):
        own_folder(someone, top / name).chmod(0o755)
    for path in (top / "work" / "shown.txt", top / "outside" / "secret"):
        path.write_text("secret")
        os.chown(path, someone.uid, someone.uid)
    for victim in VICTIMS.glob("*.py"):
        (top / "work" / victim.name).write_bytes(victim.read_bytes())
    return top


@pytest.fixture(scope="module")
def outsider(someone: Identity, place: Path) -> Iterator[dict[str, Any]]:
    """Return the facts of a process of the same user."""
    process = someone.popen(
        someone.python,
        str(place / "work" / "outsider.py"),
        str(place / "outside"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    facts |= {"folder": str(place / "outside"), "shown": str(place / "work" / "shown.txt")}
    yield facts
    process.communicate()


def machine_of(someone: Identity, how: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the prefix; root with all capabilities needs no user namespace to be kept from making one."""
    return prefix(someone.python, *(how or (("docker",) if someone.uid == 0 else ("no_namespaces",))))


def as_on(version: int) -> dict[str, Any]:
    """Return what a start is asked for with to have no more of Landlock than that version; 0: as much as there is."""
    return {"fault": {"step": "landlock_version", "errno": version}} if version else {}


def reached(
    someone: Identity,
    place: Path,
    how: tuple[str, ...],
    facts: dict[str, Any],
    profile: str,
    version: int = 0,
) -> tuple[dict[str, str], Supervised, dict[str, Any]]:
    """Run the attempts in a sandbox, and return what came of them."""
    with Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as supervised:
        command = [
            supervised.python,
            str(place / "work" / "reach_out.py"),
            "$OUTPUT/report.json",
            json.dumps(facts),
        ]
        supervised.start(place / "work", profile, payload=command, **as_on(version))
        ready = supervised.wait("ready")
        cause = supervised.wait("worker_died")["cause"]
        assert (cause["kind"], cause["status"]) == ("exit", 0), (cause, supervised.violations())
        output = Path(ready["rung_words"]["output"])
        outcomes: dict[str, str] = json.loads((output / "report.json").read_text())
        (output / "report.json").unlink()
    return outcomes, supervised, ready


@pytest.mark.parametrize(("profile", "version"), [("strict", 0), ("datascience", 0), ("datascience", OLDEST)])
def test_nothing_outside_is_reached(
    someone: Identity, place: Path, outsider: dict[str, Any], profile: str, version: int
) -> None:
    how = ("docker",) if someone.uid == 0 else ("no_namespaces",)
    control = json.loads(_outside(someone, place, outsider))
    outcomes, supervised, ready = reached(someone, place, how, outsider, profile, version)
    print("\n".join(f"{name:32} outside {control[name]:12} inside {outcomes[name]}" for name in outcomes))
    assert ready["rung"] == "landlock"
    assert ready["rung_words"]["abi"] == version or (version == 0 and ready["rung_words"]["abi"] >= OLDEST)
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == set()
    assert [name for name in outcomes if control[name] != "done" and name not in NOT_REFUSED] == []
    assert outcomes["uid"] != "0"
    told = {violation["syscall"] for violation in supervised.violations()}
    assert {"socket", "shmget"} <= told
    assert (place / "outside" / "secret").read_text() == "secret"


def _outside(someone: Identity, place: Path, facts: dict[str, Any]) -> str:
    """The positive control: the same attempts by the same user, in no sandbox."""
    report = place / "outside" / "control.json"
    someone.run(someone.python, str(place / "work" / "reach_out.py"), str(report), json.dumps(facts))
    text = report.read_text()
    report.unlink()
    return text


@pytest.mark.parametrize("how", MACHINES.values(), ids=MACHINES)
def test_what_is_left_behind_ends_and_nothing_stays(
    someone: Identity, place: Path, outsider: dict[str, Any], how: tuple[str, ...]
) -> None:
    if someone.uid == 0:
        how = ("docker",)  # root of its own user namespace has no further id that its sandbox could run as
    _, supervised, ready = reached(someone, place, how, {**outsider, "leaves": True}, "strict")
    assert ready["rung"] == "landlock", ready
    assert ready["rung_words"]["cause_en"]
    wait_until(lambda: not _left(supervised.process.pid), "everything of the sandbox has ended")
    wait_until(lambda: not Path(ready["rung_words"]["tmp"]).parent.exists(), "its folder is gone")
    # The report lay in it when that sandbox ended; one that has written nothing takes the folder away.
    with Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as again:
        again.run(place / "work", ["/bin/true"])
    wait_until(lambda: not (place / "work" / "sentinel-output").exists(), "an empty output folder goes")


def _left(supervisor: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"sentinel-left-behind" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != supervisor]


_AIMED = """
import json, os, resource, select, socket, subprocess
def tried(call, *of):
    try:
        call(*of)
    except OSError as error:
        return error.errno
    return 0
def connect(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
ended = subprocess.Popen(["/bin/true"])
os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
limit = resource.RLIMIT_CORE
own = os.environ["TMPDIR"] + "/own"
serving = socket.socket(socket.AF_UNIX)
serving.bind(own)
serving.listen()
told = {
    "connect to one's own": tried(connect, own),
    "connect to the host's": tried(connect, os.environ["SENTINEL_OUTPUT"] + "/of-host"),
    "open a child": tried(os.pidfd_open, child.pid),
    "open one that has ended": tried(os.pidfd_open, ended.pid),
    "open one outside": tried(os.pidfd_open, OUTSIDE),
    "read a child's limits": tried(resource.prlimit, child.pid, limit),
    "they are its own": int(resource.prlimit(child.pid, limit) != resource.getrlimit(limit)),
    "read limits of one outside": tried(resource.prlimit, OUTSIDE, limit),
    "set one's own": tried(resource.prlimit, os.getpid(), limit, resource.getrlimit(limit)),
    "set a child's": tried(resource.prlimit, child.pid, limit, (0, 0)),
    "one's own priority": tried(os.setpriority, os.PRIO_PROCESS, os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)),
    "a child's priority": tried(os.setpriority, os.PRIO_PROCESS, child.pid, os.getpriority(os.PRIO_PROCESS, 0)),
}
if not told["open a child"]:
    seen = os.pidfd_open(child.pid)
    child.communicate()
    told["its end is seen"] = len(select.select([seen], [], [], 60)[0])
with open(os.environ["SENTINEL_OUTPUT"] + "/aimed.json", "w") as file:
    json.dump(told, file)
"""


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_what_is_aimed_by_number_or_at_the_hosts_sockets_is_refused(someone: Identity, place: Path) -> None:
    output = own_folder(someone, place / "work" / "sentinel-output")
    path = output / "of-host"
    script = place / "work" / "aimed.py"
    outside = someone.popen("sleep", "600")
    script.write_text(_AIMED.replace("OUTSIDE", str(outside.pid)))
    script.chmod(0o644)
    how = ("docker",) if someone.uid == 0 else ("no_namespaces",)
    with (
        _ended(outside),
        socket.socket(socket.AF_UNIX) as serving,
        Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as supervised,
    ):
        serving.bind(str(path))
        path.chmod(0o777)
        serving.listen()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(path))
        asks = f"import resource; resource.prlimit({outside.pid}, resource.RLIMIT_CORE)"
        someone.run(someone.python, "-c", asks)  # the positive control
        supervised.start(place / "work", payload=[supervised.python, str(script)])
        ready = supervised.wait("ready")
        cause = supervised.wait("worker_died")["cause"]
        assert cause["status"] == 0, cause
        assert ready["rung_words"]["output"] == str(output)
    told = json.loads((output / "aimed.json").read_text())
    path.unlink()
    (output / "aimed.json").unlink()
    refused = {
        "connect to the host's": errno.EACCES,
        "open one outside": errno.EPERM,
        "read limits of one outside": errno.EPERM,
        "set a child's": errno.EPERM,
        "a child's priority": errno.EPERM,
    }
    assert told == {**dict.fromkeys(told, 0), **refused, "its end is seen": 1}


_TELLS = """
import ctypes, json, os, sys, time
NUMBERS, PID = json.loads(sys.argv[2]), int(sys.argv[3])
LIBC = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *[
        ctypes.c_ulong(one & (1 << 64) - 1) if isinstance(one, int) else one for one in arguments
    ])
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result
def filled(name, size, *arguments):
    room = ctypes.create_string_buffer(size)
    call(name, *[room if one is ... else one for one in arguments])
    return room.raw.hex()
def rights():
    head = (ctypes.c_uint32 * 2)(0x20080522, PID)
    return filled("capget", 24, head, ...)
clock = ~PID << 3 | 2
timer = ctypes.create_string_buffer(8)
asked = {
    "getsid": lambda: os.getsid(PID),
    "getpgid": lambda: os.getpgid(PID),
    "getpriority": lambda: os.getpriority(os.PRIO_PROCESS, PID),
    "getpriority, of a group": lambda: os.getpriority(os.PRIO_PGRP, os.getpgid(PID)),
    "ioprio_get": lambda: call("ioprio_get", 1, PID),
    "sched_getscheduler": lambda: os.sched_getscheduler(PID),
    "sched_getparam": lambda: os.sched_getparam(PID).sched_priority,
    "sched_getattr": lambda: filled("sched_getattr", 56, PID, ..., 56, 0),
    "sched_rr_get_interval": lambda: os.sched_rr_get_interval(PID),
    "sched_getaffinity": lambda: sorted(os.sched_getaffinity(PID)),
    "capget": rights,
    "clock_gettime": lambda: time.clock_gettime(clock) > 0.1,
    "clock_getres": lambda: time.clock_getres(clock),
    "timer_create": lambda: call("timer_create", clock, None, timer),
    "kill": lambda: os.kill(PID, 0),
    "prlimit64": lambda: filled("prlimit64", 16, PID, 7, None, ...),
    "get_robust_list": lambda: filled("get_robust_list", 8, PID, ..., ctypes.byref(ctypes.c_size_t())),
    "setpgid": lambda: os.setpgid(PID, 0),
    "stat": lambda: os.stat(f"/proc/{PID}").st_uid,
    "readlink": lambda: os.readlink(f"/proc/{PID}/exe"),
    "/proc": lambda: len(open(f"/proc/{PID}/stat").read()) > 0,
}
told = {}
for name, ask in asked.items():
    try:
        told[name] = ask()
    except OSError as error:
        told[name] = f"errno {error.errno}"
with open(os.path.expandvars(sys.argv[1]), "w") as file:
    json.dump(told, file)
"""
_SPENDS = """
import os, time
os.nice(3)
while time.process_time() < 0.2:
    pass
print(flush=True)
time.sleep(600)
"""
_SAID_OF_OTHERS = {
    *("getsid", "getpgid", "getpriority", "getpriority, of a group", "ioprio_get", "capget", "stat"),
    *("sched_getscheduler", "sched_getparam", "sched_getattr", "sched_rr_get_interval", "sched_getaffinity"),
    *("clock_gettime", "clock_getres", "timer_create"),
}
"""What SECURITY.md names as told of processes outside on this rung."""


def test_what_is_told_of_a_process_outside_is_what_is_said(someone: Identity, place: Path) -> None:
    """Without namespaces the Linux kernel answers who asks by number, and Landlock does not look at that."""
    script = place / "work" / "tells.py"
    script.write_text(_TELLS)
    script.chmod(0o644)
    numbers = json.dumps(dict(architecture_of(os.uname().machine).syscalls))
    outside = someone.popen(someone.python, "-c", _SPENDS, stdout=subprocess.PIPE)
    with (
        _ended(outside),
        Supervised(someone, place / "state", command_prefix=machine_of(someone)) as supervised,
    ):
        assert outside.stdout is not None
        with outside.stdout as spent:
            spent.readline()
        pid = outside.pid
        control = place / "outside" / "told.json"
        someone.run(someone.python, str(script), str(control), numbers, str(pid))
        payload = [supervised.python, str(script), "$SENTINEL_OUTPUT/told.json", numbers, str(pid)]
        supervised.start(place / "work", payload=payload)
        ready = supervised.wait("ready")
        cause = supervised.wait("worker_died")["cause"]
        assert (ready["rung"], cause["status"]) == ("landlock", 0), (cause, supervised.violations())
    inside = Path(ready["rung_words"]["output"]) / "told.json"
    known, told = json.loads(control.read_text()), json.loads(inside.read_text())
    for path in (control, inside):
        path.unlink()
    assert known["getpriority"] == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3), known
    assert {
        name for name in told if told[name] == known[name] and not str(told[name]).startswith("errno")
    } == (_SAID_OF_OTHERS), told
    refused = {name: told[name] for name in told.keys() - _SAID_OF_OTHERS}
    assert refused == {
        **dict.fromkeys(("kill", "prlimit64", "get_robust_list"), f"errno {errno.EPERM}"),
        "setpgid": f"errno {errno.ESRCH}",
        **dict.fromkeys(("/proc", "readlink"), f"errno {errno.EACCES}"),
    }
    calls = {name.partition(",")[0] for name in _SAID_OF_OTHERS}
    assert {name for name in calls if f"`{name}`" not in SECURITY.read_text()} == set()


_SIGNALS = """
import ctypes, json, os, signal, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
def tried(call, *of):
    try:
        call(*of)
    except OSError as error:
        return error.errno
    return 0
def queue(pid):
    value = ctypes.c_void_p(7)
    if libc.sigqueue(pid, signal.SIGUSR1, value):
        raise OSError(ctypes.get_errno(), "sigqueue")
came = []
signal.signal(signal.SIGUSR1, lambda *_: came.append(1))
def child():
    return subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
def ended(how):
    one = child()
    how(one)
    return one.wait()
def by_descriptor(one):
    opened = os.pidfd_open(one.pid)
    signal.pidfd_send_signal(opened, signal.SIGTERM)
gone = child()
gone.kill()
gone.wait()
told = {
    "a child": ended(lambda one: os.kill(one.pid, signal.SIGTERM)),
    "its group": ended(lambda one: os.killpg(one.pid, signal.SIGTERM)),
    "by descriptor": ended(by_descriptor),
    "no such": tried(os.kill, gone.pid, 0),
    "no such group": tried(os.killpg, gone.pid, 0),
    "outside": tried(os.kill, OUTSIDE, 0),
    "the group outside": tried(os.killpg, os.getpgid(OUTSIDE), 0),
    "queued outside": tried(queue, OUTSIDE),
    "the warden": tried(os.kill, os.getppid(), signal.SIGCONT),
}
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR1)
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
queue(os.getpid())
os.kill(0, signal.SIGUSR1)
told["own"] = len(came)
all_of_them = [child(), child()]
os.kill(-1, signal.SIGTERM)
told["all"] = [one.wait() for one in all_of_them]
with open(os.environ["SENTINEL_OUTPUT"] + "/signals.json", "w") as file:
    json.dump(told, file)
"""


@pytest.mark.parametrize("version", [0, OLDEST])
def test_signals_go_to_the_sandboxs_own_processes_alone(
    someone: Identity, place: Path, outsider: dict[str, Any], version: int
) -> None:
    script = place / "work" / "signals.py"
    script.write_text(_SIGNALS.replace("OUTSIDE", str(outsider["pid"])))
    script.chmod(0o644)
    with Supervised(someone, place / "state", command_prefix=machine_of(someone)) as supervised:
        supervised.start(place / "work", payload=[supervised.python, str(script)], **as_on(version))
        ready = supervised.wait("ready")
        cause = supervised.wait("worker_died")["cause"]
        assert cause["status"] == 0, (cause, supervised.violations())
    output = Path(ready["rung_words"]["output"])
    told = json.loads((output / "signals.json").read_text())
    (output / "signals.json").unlink()
    term = -signal.SIGTERM
    assert told.pop("the group outside") in (errno.EPERM, errno.ESRCH)
    assert told == {
        "a child": term,
        "its group": term,
        "by descriptor": term,
        "all": [term, term],
        "own": 5,
        "no such": errno.ESRCH,
        "no such group": errno.ESRCH,
        **dict.fromkeys(("outside", "queued outside", "the warden"), errno.EPERM),
    }


_MOVING = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
def renamed(source, target, flags):
    failed = libc.renameat2(-100, source.encode(), -100, target.encode(), flags)
    return ctypes.get_errno() if failed else 0
def tried(call, *of):
    try:
        call(*of)
    except OSError as error:
        return error.errno
    return 0
own, shown = os.environ["TMPDIR"], os.environ["SENTINEL_OUTPUT"]
os.makedirs(own + "/folder/below")
os.mkfifo(own + "/folder/pipe")
os.symlink("/etc/passwd", own + "/folder/link")
for place in (own, own + "/folder"):
    with open(place + "/plain", "w") as file:
        file.write("x")
told = {
    "a pipe": tried(os.mkfifo, shown + "/pipe"),
    "a link": tried(os.symlink, "/etc/passwd", shown + "/link"),
    "a pipe moved": tried(os.rename, own + "/folder/pipe", shown + "/pipe"),
    "a pipe linked": tried(os.link, own + "/folder/pipe", shown + "/pipe"),
    "a link moved": tried(os.rename, own + "/folder/link", shown + "/link"),
    "a folder with them": tried(os.rename, own + "/folder", shown + "/folder"),
    "a folder exchanged": tried(os.mkdir, shown + "/made")
    or renamed(own + "/folder", shown + "/made", 2),
    "a plain file": tried(os.rename, own + "/plain", shown + "/plain"),
    "a device left behind": renamed(shown + "/plain", shown + "/white", 4),
    "within": tried(os.mkdir, shown + "/other") or tried(os.rename, shown + "/plain", shown + "/other/plain"),
    "a folder within": tried(os.rename, shown + "/other", shown + "/made/other"),
    "within its own": tried(os.rename, own + "/folder/pipe", own + "/pipe"),
}
os.rmdir(own + "/folder/below")
with open(shown + "/moving.json", "w") as file:
    json.dump(told, file)
"""


def test_what_lies_in_the_hosts_folder_is_plain(someone: Identity, place: Path) -> None:
    script = place / "work" / "moving.py"
    script.write_text(_MOVING)
    script.chmod(0o644)
    with Supervised(someone, place / "state", command_prefix=machine_of(someone)) as supervised:
        supervised.start(place / "work", payload=[supervised.python, str(script)])
        ready = supervised.wait("ready")
        words = ready["rung_words"]
        # Else each attempt would fail for that alone.
        assert os.stat(os.path.dirname(words["tmp"])).st_dev == os.stat(words["output"]).st_dev
        cause = supervised.wait("worker_died")["cause"]
        assert cause["status"] == 0, (cause, supervised.violations())
    output = Path(words["output"])
    told = json.loads((output / "moving.json").read_text())
    found = {path.relative_to(output): stat.S_IFMT(path.lstat().st_mode) for path in output.rglob("*")}
    shutil.rmtree(output)
    assert set(found.values()) <= {stat.S_IFDIR, stat.S_IFREG}, found
    crossed = {"a folder with them": errno.EXDEV, "a folder exchanged": errno.EXDEV}
    kinds = ("a pipe", "a link", "a pipe moved", "a pipe linked", "a link moved")
    left = {"a device left behind": errno.EINVAL}
    assert told == {**dict.fromkeys(told, 0), **dict.fromkeys(kinds, errno.EACCES), **crossed, **left}


_STRAYING = """
import ctypes, json, os, resource, signal
def tried(call, *of):
    try:
        call(*of)
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
def by_number(call, *of):
    if libc.syscall(call, *of):
        raise OSError(ctypes.get_errno(), "syscall")
old = 160 if os.uname().machine == "x86_64" else 164
none = (ctypes.c_ulong * 2)(0, 0)
told = {
    "its mark": resource.getrlimit(10)[1],
    "by prlimit": tried(resource.prlimit, 0, 10, (0, 0)),
    "by prlimit, of a number": tried(resource.prlimit, os.getpid(), 10, (0, 0)),
    "by setrlimit": tried(by_number, old, 10, none),
    "another limit": tried(by_number, old, 4, none),
}
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sentinel-left-behind", "600"])
        os._exit(0)
    os.wait()
with open(os.environ["SENTINEL_OUTPUT"] + "/straying.json", "w") as file:
    json.dump(told, file)
os.rename(file.name, file.name + ".done")
signal.pause()
"""


@pytest.mark.parametrize("killed", ["the warden", "both"])
def test_what_outlives_its_warden_is_ended(
    someone: Identity, place: Path, killed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # Another sandbox of the user's that starts just now, in a test beside this one, may be the one that ends them.
    told = [_outlived(someone, place, killed, capfd)]
    while not any("3 processes of a sandbox on the landlock rung had outlived" in one for one in told):
        assert len(told) < 4, told
        told.append(_outlived(someone, place, killed, capfd))


def _outlived(someone: Identity, place: Path, killed: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Kill what keeps a sandbox; return what was said as that which it left had ended."""
    script = place / "work" / "straying.py"
    script.write_text(_STRAYING)
    script.chmod(0o644)
    with Supervised(someone, place / "state", command_prefix=machine_of(someone)) as supervised:
        supervised.start(place / "work", payload=[supervised.python, str(script)])
        ready = supervised.wait("ready")
        done = Path(ready["rung_words"]["output"]) / "straying.json.done"
        wait_until(done.exists, "it has begun")
        told = json.loads(done.read_text())
        done.unlink()
        left = _left(supervised.process.pid)
        warden = _child_above(left[0], supervised.process.pid)
        supervisor = supervised.process.pid
        if killed == "both":
            os.kill(supervisor, signal.SIGSTOP)
        os.kill(warden, signal.SIGKILL)
        if killed == "both":
            os.kill(supervisor, signal.SIGKILL)
        else:
            supervised.wait("worker_died")
            wait_until(lambda: not _left(supervisor), "what it left has ended")
    if killed == "both":
        assert set(_left(supervisor)) <= set(left)
        # Of the user's on the full rung, where there is one by then.
        machine = machine_of(someone) if someone.uid == 0 else ()
        with Supervised(someone, place / "state", command_prefix=machine) as again:
            again.run(place / "work", ["/bin/true"])
        wait_until(lambda: not _left(supervisor), "the next start has ended them")
    wait_until(lambda: not Path(ready["rung_words"]["tmp"]).parent.exists(), "its folder is gone")
    assert told.pop("its mark") > 0
    refused = ("by prlimit", "by prlimit, of a number", "by setrlimit")
    assert (len(left), told) == (3, {**dict.fromkeys(refused, errno.EPERM), "another limit": 0})
    return capfd.readouterr().err


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _child_above(pid: int, top: int) -> int:
    """Return the child of ``top`` that ``pid`` descends from."""
    while (above := _parent(pid)) != top:
        pid = above
    return pid


def test_who_asks_for_the_full_rung_is_refused(someone: Identity, place: Path) -> None:
    folder = own_folder(someone, place / "profiles")
    (folder / "walled.json").write_text(
        '{"name": "walled", "extends": "strict", "minimum_isolation": "full"}'
    )
    how = ("docker",) if someone.uid == 0 else ("no_namespaces",)
    with Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as supervised:
        supervised.start(place / "work", "walled", payload=["/bin/true"], profile_directories=[str(folder)])
        told = supervised.wait("unavailable")
    assert told["step"] == "clone", told
    assert told["remedy_en"]


def test_a_change_to_a_profile_that_asks_for_the_full_rung_is_refused(someone: Identity, place: Path) -> None:
    folder = own_folder(someone, place / "profiles")
    for name, rung in (("walled", "full"), ("unwalled", "landlock")):
        profile = {
            "name": name,
            "extends": "strict",
            "minimum_isolation": rung,
            "filesystem": {"commit": "new"},
        }
        (folder / f"{name}.json").write_text(json.dumps(profile))
    how = ("docker",) if someone.uid == 0 else ("no_namespaces",)
    with Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as supervised:
        supervised.start(place / "work", payload=["/bin/sleep", "600"], profile_directories=[str(folder)])
        supervised.wait("ready")
        refused = supervised.reply(supervised.request("profile", profile="walled"))
        changed = supervised.reply(supervised.request("profile", profile="unwalled"))
    assert not refused["live"]
    assert "asks for the full rung" in refused["message"]
    assert changed["live"], changed  # the positive control
    assert "commit" not in changed  # nothing is held there, so that no profile says what gets out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a /proc that hides")
@pytest.mark.parametrize("someone", ["user"], indirect=True)
def test_where_the_supervisor_can_not_see_them_nothing_runs(someone: Identity, place: Path) -> None:
    """A /proc with hidepid shows a user no process that can't be traced: what it holds would count for nothing."""
    hides = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh")
    blind = replace(someone, prefix=(*hides, *someone.prefix))
    with Supervised(blind, place / "state", command_prefix=machine_of(someone)) as supervised:
        supervised.start(place / "work", payload=["/bin/true"])
        told = supervised.wait("unavailable")
    assert "hidepid" in told["cause_en"], told
    assert "/proc 以 hidepid 方式挂载" in told["cause_zh"]


def test_without_landlock_either_nothing_runs(someone: Identity, place: Path) -> None:
    how = ("no_landlock", *(("docker",) if someone.uid == 0 else ("no_namespaces",)))
    with Supervised(someone, place / "state", command_prefix=machine_of(someone, how)) as supervised:
        supervised.start(place / "work", payload=["/bin/true"])
        told = supervised.wait("unavailable")
    assert told["step"] == "clone", told
    assert told["remedy_en"]
