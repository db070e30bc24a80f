"""What a dead worker's cell did to pid 1, and what a chain of processes keeps of an earlier profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Attacker
    from live_kernel import Notebook

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_OF_INIT = """
child = os.fork()
if child == 0:
    parameters = os.sched_param(0)
    tell({
        "prlimit64": tried(lambda: resource.prlimit(1, resource.RLIMIT_FSIZE, (0, 0))),
        "setpriority": tried(lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)),
        "group": tried(lambda: os.setpriority(os.PRIO_PGRP, 1, 19)),
        "user": tried(lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19)),
        "sched_setscheduler": tried(lambda: os.sched_setscheduler(1, os.SCHED_IDLE, parameters)),
        "sched_setparam": tried(lambda: os.sched_setparam(1, parameters)),
        "sched_setaffinity": tried(lambda: os.sched_setaffinity(1, os.sched_getaffinity(0))),
        "ioprio_set": called(IOPRIO_SET, 1, 1, 3 << 13),
        "own": tried(lambda: os.setpriority(os.PRIO_PROCESS, 0, 5)),
        "own at the disk": called(IOPRIO_SET, 1, 0, 3 << 13),
        "own limit": tried(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))),
        "asked": tried(lambda: resource.getrlimit(resource.RLIMIT_FSIZE)),
    })
    os._exit(0)
os.waitpid(child, 0)
"""


def test_no_cell_changes_what_later_workers_take_after(attacker: Attacker) -> None:
    import platform

    number = {"x86_64": 251, "aarch64": 30}[platform.machine()]
    told = attacker.inside(f"IOPRIO_SET = {number}\n" + _OF_INIT)
    own = {name: told.pop(name) for name in ("own", "own at the disk", "own limit", "asked")}
    assert set(own.values()) == {"ok"}, own
    assert set(told.values()) == {"EPERM"}, told


_HANDED_DOWN = (
    "import os, resource\nprint(resource.getrlimit(resource.RLIMIT_FSIZE), os.getpriority(os.PRIO_PROCESS, 0), "
    "os.sched_getscheduler(0))"
)


@pytest.mark.parametrize("what", ["limit", "nice", "scheduler"])
def test_init_that_was_crippled_all_the_same_is_not_forked_again(book: Notebook, what: str) -> None:
    """Done from outside here, by the same user: inside it may be a way that nobody knows."""
    import os
    import resource

    before = book.run(_HANDED_DOWN).text
    init = _init_of(book)
    if what == "limit":
        resource.prlimit(init, resource.RLIMIT_FSIZE, (0, 0))
    elif what == "nice":
        os.setpriority(os.PRIO_PROCESS, init, 19)
    else:
        os.sched_setscheduler(init, os.SCHED_IDLE, os.sched_param(0))
    assert book.run("import os; os._exit(1)").reply["ename"] == "SandboxDied"
    assert book.run(_HANDED_DOWN).text == before
    assert _init_of(book) != init


def test_init_that_is_sound_is_forked_again(book: Notebook) -> None:
    book.run("%sentinel_limit pids=100\nimport os, resource")
    init = _init_of(book)
    assert book.run("os._exit(1)").reply["ename"] == "SandboxDied"
    book.run("1")
    assert _init_of(book) == init


def _init_of(book: Notebook) -> int:
    """Return the host's number of the sandbox's first process."""
    from pathlib import Path

    from sentinel_kernel.supervisor.processes import processes_below

    inside = {}
    for pid in processes_below(book.host_pid):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:") and len(line.split()) > 2:
                inside[line.split()[-1]] = pid
    return inside["1"]


_CHAIN = """
import os, signal, subprocess, sys
open('/tmp/hop.py', 'w').write('''
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import resource
def held():
    return f"{len(os.sched_getaffinity(0))} {resource.getrlimit(resource.RLIMIT_NPROC)[0]}"
wanted = None
while not os.path.exists('/tmp/stop') and held() != wanted:
    if os.fork():
        os._exit(0)
    if wanted is None and os.path.exists('/tmp/wanted'):
        wanted = open('/tmp/wanted').read()
with open('/tmp/part.' + sys.argv[1], 'w') as file:
    print(held(), file=file)
os.rename('/tmp/part.' + sys.argv[1], '/tmp/told.' + sys.argv[1])
''')
for number in range(6):
    subprocess.Popen([sys.executable, '-S', '-E', '/tmp/hop.py', str(number)], start_new_session=True)
"""
_TOLD = """
import glob, os, resource, time
with open('/tmp/wanted.part', 'w') as file:
    file.write(f"1 {resource.getrlimit(resource.RLIMIT_NPROC)[0]}")
os.rename('/tmp/wanted.part', '/tmp/wanted')
# A chain ends as soon as the meter has caught one of its processes: what comes later has it from there.
deadline = time.monotonic() + 60
while len(glob.glob('/tmp/told.*')) < 6:
    if time.monotonic() > deadline:
        open('/tmp/stop', 'w').close()
    time.sleep(0.05)
print(resource.getrlimit(resource.RLIMIT_NPROC)[0], [open(name).read().split() for name in glob.glob('/tmp/told.*')])
"""


def test_chains_of_processes_do_not_keep_an_earlier_profiles_limits(tmp_path: Path) -> None:
    with notebook(tmp_path, HOME=str(tmp_path / "work"), SENTINEL_PROFILE="datascience") as book:
        book.run(_CHAIN)
        text = book.run("%sentinel_profile strict\n" + _TOLD).text
        own, _, rest = text.partition(" ")
        assert rest.count("'1', '" + own + "'") == 6, text
