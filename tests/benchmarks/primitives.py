"""The sandbox's own costs: set-up beside bubblewrap's, notifications, overlays."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from sentinel_kernel.policy.plan import BootPlan

_ROUNDS = 2000
_KINDS = 60  # below the number that a ledger tells apart in one cell


def _preparation(folder: Path, payload: tuple[str, ...]):  # noqa: ANN202 - one private tuple
    import sentinel_kernel
    from sentinel_kernel.supervisor.channels import RunDirectory
    from sentinel_kernel.supervisor.identities import Identities
    from sentinel_kernel.supervisor.preparation import parse_start, prepare

    request = parse_start(
        {"profile": "strict", "workspace": str(folder), "python": sys.executable, "payload": payload}
    )
    lease = Identities().lease()
    directory = RunDirectory()
    prepared = prepare(request, lease.identity, os.path.dirname(sentinel_kernel.__file__), directory.path)
    return prepared, lease, directory


class Setup:
    """Makes the strict profile's sandbox, and bubblewrap's of the same mounts, around `true`."""

    def __init__(self, folder: Path) -> None:
        """Prepare both; what is measured is only making them."""
        self._folder = folder

    def __enter__(self) -> Self:
        from sentinel_kernel.supervisor.preparation import compile_filter

        self._prepared, self._lease, self._directory = _preparation(self._folder, ("/bin/true",))
        self._bubblewrap = bubblewrap_command(self._prepared.plan)
        # Compiled beforehand on our side, as bubblewrap would get it as a file.
        self._program = compile_filter(self._prepared.profile)[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.close()
        self._lease.close()

    def ours(self) -> float:
        """Return the seconds from before clone(2) until the filter is loaded and its listener is here."""
        from sentinel_kernel.supervisor.sandbox import start_sandbox
        from sentinel_kernel.supervisor.trees import prepare_trees

        trees = prepare_trees(self._prepared.plan)
        started = time.perf_counter()
        sandbox = start_sandbox(self._prepared.plan, lambda: self._program, trees)
        taken = time.perf_counter() - started
        sandbox.end()
        sandbox.close()
        return taken

    def bubblewrap(self) -> float:
        """Return the seconds that bubblewrap adds to running `true`."""
        started = time.perf_counter()
        subprocess.run(self._bubblewrap, check=True)
        middle = time.perf_counter()
        subprocess.run(["/bin/true"], check=True)
        return (middle - started) - (time.perf_counter() - middle)


def bubblewrap_command(plan: BootPlan) -> list[str]:
    """Return the bubblewrap call with the mounts of ``plan`` (overlays as read-only binds: 0.8 has none)."""
    from sentinel_kernel.policy.plan import MountKind

    command = [
        "bwrap",
        "--unshare-all",
        "--unshare-user",
        "--hostname",
        "sentinel",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]
    for directory in plan.directories:
        command += ["--dir", directory]
    for path, target in plan.links:
        if not path.startswith("/dev"):
            command += ["--symlink", target, path]
    # What we copy, it binds: there is no other way to give it a file of the host's.
    for path, _ in plan.files:
        if os.path.exists(path):
            command += ["--ro-bind", path, path]
    for entry in plan.mounts:
        if entry.kind in (MountKind.TMPFS, MountKind.MASK_DIRECTORY):
            command += ["--tmpfs", entry.target]
        else:
            command += ["--ro-bind", entry.source, entry.target]
    return [*command, "--", "/bin/true"]


def bare_notification() -> float:
    """Return the median seconds of one notified call, answered at once by a listener in a process of its own."""
    from pyseccomp import ALLOW, NOTIFY, SyscallFilter

    from sentinel_kernel.linux.process import set_no_new_privileges
    from sentinel_kernel.linux.seccomp import Listener, load_filter

    filter_ = SyscallFilter(ALLOW)
    filter_.add_rule(NOTIFY, "getppid")
    with open(os.memfd_create("filter"), "w+b") as file:
        filter_.export_bpf(file)
        file.seek(0)
        program = file.read()
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        set_no_new_privileges()
        descriptor = load_filter(program)
        socket.send_fds(theirs, [b"x"], [descriptor])
        os.close(descriptor)
        taken = []
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            os.getppid()
            taken.append(time.perf_counter() - started)
        theirs.send(repr(statistics.median(taken)).encode())
        os._exit(0)
    theirs.close()
    descriptor = socket.recv_fds(ours, 1, 1)[1][0]
    listener = Listener(descriptor)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    served = 0
    while served < _ROUNDS:
        poll.poll()
        notification = listener.receive()
        if notification is not None:
            listener.refuse(notification.id, errno.EPERM)
            served += 1
    result = float(ours.recv(64))
    os.waitpid(pid, 0)
    listener.close()
    ours.close()
    return result


def recorded_refusal(folder: Path) -> tuple[float, float]:
    """Return the median seconds of refused socket(2) calls in a real sandbox: each of a new kind, and repeats."""
    from ordinary_user import own_identity
    from supervised import Supervised

    victim = folder / "refused.py"
    victim.write_text(
        "import json, socket, statistics, time\n"
        "def refused(protocol):\n"
        "    started = time.perf_counter()\n"
        "    try: socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)\n"
        "    except OSError: pass\n"
        "    return time.perf_counter() - started\n"
        f"kinds = [refused(protocol) for protocol in range({_KINDS})]\n"
        f"repeats = [refused(0) for _ in range({_ROUNDS})]\n"
        "medians = [statistics.median(kinds), statistics.median(repeats)]\n"
        f"json.dump(medians, open({str(folder / 'medians.json')!r}, 'w'))\n"
    )
    state = folder / "state"
    with Supervised(own_identity(folder / "home"), state) as supervised:
        cause = supervised.run(folder, [supervised.python, str(victim)])
        if cause["status"] != 0:
            raise AssertionError(supervised.events)
        if sum(violation["count"] for violation in supervised.violations()) != _ROUNDS + _KINDS:
            raise AssertionError("not every refusal was recorded")
        kinds, repeats = supervised.saved_json("medians.json")
    shutil.rmtree(state)
    return kinds, repeats


def bare_overlay(folder: Path) -> list[tuple[str, float, float]]:
    """Return (name, seconds, seconds without) of file loops on an overlay that nothing else was added to."""
    script = Path(__file__).with_name("bare_overlay.sh")
    lower = folder / "lower"
    lower.mkdir()
    (lower / "data.bin").write_bytes(b"x" * 4096)
    output = subprocess.run(
        ["unshare", "-Urm", "/bin/sh", str(script), str(lower), sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    if output.returncode != 0:
        raise AssertionError(output.stderr)
    rows = [json.loads(line) for line in output.stdout.splitlines()]
    with contextlib.suppress(OSError):
        shutil.rmtree(lower)
    plain, overlay = rows
    return [(f"bare_overlay_{name}", overlay[name], plain[name]) for name in ("open_read_close", "stat")]
