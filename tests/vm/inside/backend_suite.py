"""The limits' back ends for real: control groups that are delegated, or made by the user's systemd.

Runs in the virtual machine as an ordinary user; which back end is expected depends on whether systemd is process 1.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import groups
from ordinary_user import own_identity
from run import Outcome, kernel, run_cell
from supervised import Supervised
from telling import SECONDS, check, tell, wait_until

PROFILES = Path(__file__).parent / "profiles"
STATE = Path("/home/alice/state")
SYSTEMD = Path("/run/systemd/system").is_dir()
EXPECTED = "systemd" if SYSTEMD else "cgroup"
MIB = 1 << 20
PYTHON = sys.executable
_THROTTLED_SECONDS = 120.0
_SPEND = "import time\nend = time.monotonic() + 3\nwhile time.monotonic() < end:\n    pass\n"
_FORK = (
    "import os, signal, time\nchildren = []\ntry:\n    while True:\n        child = os.fork()\n"
    "        if child == 0:\n            signal.pause()\n        children.append(child)\n"
    "finally:\n    for child in children:\n        os.kill(child, signal.SIGKILL)\n        os.waitpid(child, 0)\n"
)
_GREEDY_CHILD = (
    "import subprocess, sys\n"
    "done = subprocess.run([sys.executable, '-c', 'x = bytearray(b\"1\") * (150 << 20)'])\nprint(done.returncode)\n"
)


class Suite:
    """Checks of one kernel."""

    def __init__(self, client: Any) -> None:
        self.client = client

    @property
    def leaf(self) -> Path:
        """Return the group of the sandbox."""
        return wait_until(lambda: groups.leaves(groups.supervisors()[0]), "there is a leaf")[0]

    def run(self, code: str) -> Outcome:
        """Run a cell."""
        return run_cell(self.client, code)

    def status(self) -> str:
        """Return what the status names as what keeps the limits."""
        asked = self.client.execute("%sentinel_status")
        words = ""
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") == asked:
                words += message["content"].get("data", {}).get("text/plain", "")
                if message["content"].get("execution_state") == "idle":
                    break
        assert (
            "a control group that systemd made" if SYSTEMD else "a control group: memory, pids"
        ) in words, words
        return words[words.index("limits kept by") :][:160]

    def values(self) -> dict[str, str]:
        """Return the values of the group's files."""
        names = (
            "memory.max",
            "memory.swap.max",
            "memory.oom.group",
            "memory.high",
            "pids.max",
            "cpu.max",
            "io.max",
        )
        seen = {name: (self.leaf / name).read_text().strip() for name in names if (self.leaf / name).exists()}
        assert seen["memory.max"] == str(400 * MIB), seen
        assert (seen["memory.oom.group"], seen["memory.high"]) == ("0", "max"), seen
        assert seen.get("memory.swap.max", "0") == "0", seen
        assert seen["pids.max"].isdecimal(), seen
        if "cpu.max" in seen:
            assert seen["cpu.max"] == "100000 100000", seen
        if seen.get("io.max"):
            assert "rbps=20971520 wbps=10485760" in seen["io.max"], seen
        assert "cpu.max" in seen or SYSTEMD
        assert seen.get("io.max") or SYSTEMD
        return seen

    def io_of_ones_own(self) -> str:
        """A person's own speed of writing is written to the group, and taken back."""
        if not (self.leaf / "io.max").exists() or not (self.leaf / "io.max").read_text().strip():
            return "no io controller here"
        self.run("%sentinel_limit io_write=5M")
        seen = (self.leaf / "io.max").read_text().strip()
        assert "rbps=20971520 wbps=5242880" in seen, seen
        self.run("%sentinel_limit io_write=profile")
        assert "wbps=10485760" in (self.leaf / "io.max").read_text()
        return seen

    def inside(self) -> str:
        """All of the sandbox is in the group, which is the root of what it sees; it can't write there."""
        seen = self.run(
            "print(open('/proc/self/cgroup').read(), end='')\n"
            "import os\nprint(os.path.exists('/sys/fs/cgroup/cgroup.procs'))"
        ).text
        assert seen == "0::/\nFalse\n", seen
        assert len((self.leaf / "cgroup.procs").read_text().split()) >= 2
        return seen

    def processor(self) -> dict[str, float]:
        """Half a processor is kept, and what was held back is counted."""
        leaf = self.leaf
        if not (leaf / "cpu.max").exists():
            return {}
        before = (
            groups.number(leaf, "cpu.stat", "usage_usec"),
            groups.number(leaf, "cpu.stat", "nr_throttled"),
        )
        began = time.monotonic()
        throttled = 0
        # Where the emulated processor is given less than the quota there is nothing to hold back: then once more.
        while not throttled and time.monotonic() - began < _THROTTLED_SECONDS:
            self.run(_SPEND)
            throttled = groups.number(leaf, "cpu.stat", "nr_throttled") - before[1]
        took = time.monotonic() - began
        used = (groups.number(leaf, "cpu.stat", "usage_usec") - before[0]) / 1e6
        self.run("%sentinel_limit cpu=profile")
        # How much that is of the time it took is not asked: an emulated clock goes as it likes.
        assert throttled > 0
        held = groups.number(leaf, "cpu.stat", "nr_throttled")
        self.run("for _ in range(10**5): pass")
        assert groups.number(leaf, "cpu.stat", "nr_throttled") == held
        return {"used_seconds": round(used, 2), "took_seconds": round(took, 2), "throttled": throttled}

    def weight(self) -> str:
        """Who has computed weighs less than other groups until it has rested."""
        weight = self.leaf / "cpu.weight.nice"
        if not weight.exists():
            return "no cpu controller here"
        wait_until(lambda: weight.read_text().strip() == "0", "it weighs as much as others")
        self.run(_SPEND)
        seen = weight.read_text().strip()
        wait_until(lambda: weight.read_text().strip() == "0", "it weighs as much as others again")
        assert seen == "5", seen
        return seen

    def tasks(self) -> dict[str, Any]:
        """What forks without end is refused by the group, which counts it; the card says so."""
        outcome = self.run(_FORK)
        assert outcome.reply["ename"] == "BlockingIOError", outcome.reply
        assert ("pids", "refused") in outcome.limits(), outcome.cards
        refused = groups.number(self.leaf, "pids.events", "max")
        assert refused > 0
        assert self.run("print(6 * 7)").text == "42\n"
        return {"refused": refused, "backend": outcome.cards[0]["limit"]["backend"]}

    def child_killed(self) -> dict[str, Any]:
        """Where the Linux kernel kills a child for memory, the variables stay and the card names the child."""
        leaf = self.leaf
        self.run("kept = 41")
        killed = groups.number(leaf, "memory.events", "oom_kill")
        self._narrow(leaf, 60)
        try:
            outcome = self.run(_GREEDY_CHILD)
        finally:
            (leaf / "memory.max").write_text(str(400 * MIB))
        assert outcome.text == "-9\n", outcome.text
        assert groups.number(leaf, "memory.events", "oom_kill") == killed + 1
        cards = [card["limit"] for card in outcome.cards if card.get("limit", {}).get("stage") == "kill"]
        assert [card["name"] for card in cards] == ["memory"], (outcome.cards, self.run("pass").cards)
        assert cards[0]["detail"] in ("python", ""), cards  # no name where it was reaped too soon
        assert self.run("print(kept + 1)").text == "42\n"
        return {"detail": cards[0]["detail"], "words": outcome.words[0][:200]}

    def worker_killed(self) -> dict[str, Any]:
        """Where the Linux kernel kills the worker for memory, the cell says that, and the next one runs."""
        leaf = self.leaf
        killed = groups.number(leaf, "memory.events", "oom_kill")
        self._narrow(leaf, 60)
        try:
            outcome = self.run("hoard = bytearray(b'1') * (150 << 20)")
        finally:
            (leaf / "memory.max").write_text(str(400 * MIB))
        assert outcome.reply.get("ename") == "SandboxDied", outcome.reply
        assert groups.number(leaf, "memory.events", "oom_kill") > killed
        words = " ".join(outcome.words)
        assert "memory" in words, words
        assert self.run("print(6 * 7)").text == "42\n"
        return {"words": outcome.reply["evalue"][:300]}

    def _narrow(self, leaf: Path, spare_mib: int) -> None:
        # Below what the kernel itself knows of: so the Linux kernel is ahead of every mark of ours.
        (leaf / "memory.max").write_text(str(int((leaf / "memory.current").read_text()) + spare_mib * MIB))

    def own_limit(self) -> dict[str, str]:
        """A limit of the person's own is the group's at once; the worker goes on."""
        self.run("kept = 41")
        done = self.run("%sentinel_limit memory=300M pids=20")
        assert done.reply["status"] == "ok", done.reply
        seen = {name: (self.leaf / name).read_text().strip() for name in ("memory.max", "pids.max")}
        assert seen["memory.max"] == str(300 * MIB), seen
        assert self.run("print(kept + 1)").text == "42\n"
        # Less than is in use: refused, and nothing is killed.
        self.run("hoard = bytearray(b'1') * (120 << 20)")
        self.run("%sentinel_limit memory=100M")
        assert (self.leaf / "memory.max").read_text().strip() == str(300 * MIB)
        assert self.run("print(len(hoard) >> 20)").text == "120\n"
        self.run("del hoard\n")
        self.run("%sentinel_limit memory=profile pids=profile")
        return seen

    def profile(self) -> dict[str, str]:
        """Another profile's limits are the group's at once; the worker goes on."""
        done = self.run("%sentinel_profile strict")
        assert done.reply["status"] == "ok", done.reply
        leaf = self.leaf
        seen = {
            name: (leaf / name).read_text().strip()
            for name in ("memory.max", "cpu.max")
            if (leaf / name).exists()
        }
        assert seen["memory.max"] == str(1024 * MIB), (seen, done.words)
        if "cpu.max" in seen:
            assert seen["cpu.max"] == "100000 100000", seen
        assert self.run("print(kept + 1)").text == "42\n"
        return seen

    def sweep(self) -> str:
        """What a killed supervisor leaves is gone once the next one has started."""
        old = self.leaf
        os.kill(groups.supervisors()[0], signal.SIGKILL)
        wait_until(lambda: self.run("print(6 * 7)").text == "42\n", "the kernel is back")
        wait_until(lambda: not old.exists(), f"{old} is gone")
        assert self.leaf != old
        return str(old)


def figures() -> dict[str, float]:
    """What samples say is what the group counts, within five in a hundred."""
    state, work = STATE / "figures", STATE / "figures" / "work"
    work.mkdir(parents=True, exist_ok=True)
    hold = "x = bytearray(b'1') * (120 << 20)\nprint(1, flush=True)\nimport time\nwhile True: time.sleep(1)"
    with Supervised(own_identity(state), state, environment=_environment()) as supervised:
        supervised.reply(supervised.start(work, payload=[PYTHON, "-c", hold]))
        leaf = groups.leaves(supervised.process.pid)[0]
        wait_until(lambda: groups.in_use(leaf) > 120 * MIB, "the payload holds what it is to hold")
        supervised.request("watch", on=True)
        while True:
            sample = supervised.wait("usage")["sample"]
            counted = groups.in_use(leaf)
            if sample["memory_bytes"] > 120 * MIB:
                break
        assert abs(sample["memory_bytes"] - counted) <= counted * 0.05, (sample, counted)
        return {"told_mib": sample["memory_bytes"] >> 20, "counted_mib": counted >> 20}


def explicit() -> dict[str, str]:
    """A back end that is asked for and is not there is an error with a remedy; the fallback can be asked for."""
    missing = "cgroup" if SYSTEMD else "systemd"
    state, work = STATE / "explicit", STATE / "explicit" / "work"
    work.mkdir(parents=True, exist_ok=True)
    seen = {}
    with Supervised(own_identity(state), state, environment=_environment()) as supervised:
        supervised.start(work, payload=["/usr/bin/true"], limits_backend=missing)
        told = supervised.wait("unavailable")
        assert f"SENTINEL_LIMITS_BACKEND={missing} is not to be had" in told["cause_en"], told
        assert told["remedy_en"].startswith("Start JupyterLab in"), told
        seen[missing] = told["cause_en"]
        for wanted in ("fallback", EXPECTED):
            supervised.start(work, payload=["/usr/bin/true"], limits_backend=wanted)
            ready = supervised.wait("ready")
            assert ready["backend"] == wanted, ready
            seen[wanted] = ready["backend_detail"]
            supervised.wait("worker_died")
    return seen


def start_cost() -> dict[str, float]:
    """Tell what a group of its own costs a sandbox, beside one without, in the same run."""
    state, work = STATE / "cost", STATE / "cost" / "work"
    work.mkdir(parents=True, exist_ok=True)
    took: dict[str, list[float]] = {"fallback": [], EXPECTED: []}
    with Supervised(own_identity(state), state, environment=_environment()) as supervised:
        for _ in range(4):
            for wanted, seconds in took.items():
                began = time.monotonic()
                supervised.start(work, payload=["/usr/bin/true"], limits_backend=wanted)
                supervised.wait("worker_died")
                seconds.append(time.monotonic() - began)
    return {name: round(sorted(seconds)[1] * 1000, 1) for name, seconds in took.items()}


def from_user_service() -> str:
    """In a service of the user's own systemd too a scope is had: it was a scope of a system service's so far."""
    command = ["systemd-run", "--user", "--pipe", "--wait", "--quiet", PYTHON, "-c"]
    code = (
        "import sys; sys.path.insert(0, '/project'); from sentinel_kernel.supervisor.backend import Backends; "
        "made = Backends(); backend = made.make('auto'); print(backend.name, backend.detail); "
        "print(backend.usage()); backend.close(); made.close()"
    )
    done = subprocess.run([*command, code], capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.startswith("systemd memory, pids"), (done.stdout, done.stderr)
    return done.stdout


def nothing_left() -> list[str]:
    """When all kernels have ended no group of theirs is there."""
    wait_until(lambda: not groups.left(), f"no group is left of {groups.left()}")
    return groups.left()


def doctor() -> list[str]:
    """The doctor names what this older Linux lacks, and what it has all the same."""
    command = [PYTHON, "-c", "from sentinel_kernel.cli import main; main(['doctor'])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    lines = [line.strip() for line in done.stdout.splitlines()]
    text = "\n".join(lines)
    assert "no synchronous wake-ups (Linux 6.6)" in text, text + done.stderr
    assert "version 2; a folder outside the fence was refused" in text, text
    assert any(line.startswith("ok") and "cgroup v2" in line for line in lines), text
    return [line for line in lines if line.startswith(("ok", "absent", "MISSING", "FAIL"))]


def _environment() -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]} if SYSTEMD else {}


def main() -> None:
    """Run every check."""
    os.environ.pop("SENTINEL_LIMITS_BACKEND", None)
    if not SYSTEMD:
        os.environ["XDG_RUNTIME_DIR"] = str(STATE / "run")
        (STATE / "run").mkdir(parents=True, exist_ok=True, mode=0o700)
    tell(release=os.uname().release, expected=EXPECTED, group=str(groups.of_process("self")))
    wanted = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split()).get(
        "vm.checks", ""
    )
    names = [*IN_A_KERNEL, *ALONE] if wanted in ("", "all") else wanted.split(",")
    with kernel("vm", PROFILES) as client:
        suite = Suite(client)
        for name in filter(IN_A_KERNEL.__contains__, names):
            check(name, getattr(suite, name))
    for name in filter(ALONE.__contains__, names):
        check(name, ALONE[name])
    check("nothing_left", nothing_left)


IN_A_KERNEL = (
    *(
        "status",
        "values",
        "inside",
        "weight",
        "processor",
        "tasks",
        "child_killed",
        "worker_killed",
        "own_limit",
        "io_of_ones_own",
        "profile",
    ),
    "sweep",
)
ALONE = {action.__name__: action for action in (figures, explicit, start_cost, doctor)} | (
    {"from_user_service": from_user_service} if SYSTEMD else {}
)

if __name__ == "__main__":
    main()
