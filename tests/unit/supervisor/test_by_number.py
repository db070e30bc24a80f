"""A number that has come to mean another process while a limit is set: that one keeps its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process namespace of its own, where the next number can be chosen (proc_sys_kernel(5), ns_last_pid).
DRIVER = """
import os, resource, signal, sys
from sentinel_kernel.linux import process
from sentinel_kernel.supervisor import by_number

def child():
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    return pid

def become_another():
    global meant
    os.kill(meant, signal.SIGKILL)
    os.waitpid(meant, 0)
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(meant - 1))
    assert child() == meant

def seen(pid):
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0], os.sched_getaffinity(pid)

when, what = sys.argv[1:]
meant = child()
before = seen(meant)
real = {"prlimit": resource.prlimit, "sched_setaffinity": os.sched_setaffinity}

def at_the_call(name, sets):
    def called(*arguments):
        if sets(arguments):
            setattr(module, name, real[name])
            become_another()
        return real[name](*arguments)
    module = resource if name == "prlimit" else os
    setattr(module, name, called)

def looked_at(number, first):
    if when == "look":
        become_another()
    return when != "stranger"

by_number.same_sandbox = looked_at
if when == "call":
    at_the_call("prlimit", lambda arguments: len(arguments) == 3)
    at_the_call("sched_setaffinity", lambda arguments: True)
fewer = set(sorted(before[1])[:1])
try:
    if what == "limit":
        by_number.set_soft_limit(meant, 1, resource.RLIMIT_NOFILE, 77)
    elif what == "processors":
        by_number.set_processors(meant, 1, fewer)
    else:
        def is_meant():
            looked_at(meant, 1)
            return when == "never" or when == "look"
        process.signal_thread(meant, meant, signal.SIGKILL, is_meant)
    done = True
except ProcessLookupError:
    done = False
if what == "signal":
    ended = os.waitpid(meant, os.WNOHANG if when != "never" else 0)[0]
    print(done, bool(ended))
else:
    print(done, seen(meant) == before, seen(meant) in ((77, before[1]), (before[0], fewer)))
"""


def _run(when: str, what: str) -> str:
    way = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    done = subprocess.run(
        [*way, sys.executable, "-c", DRIVER, when, what],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.requires("user_namespaces")
@pytest.mark.parametrize("what", ["limit", "processors"])
@pytest.mark.parametrize("when", ["look", "call", "stranger", "never"])
def test_another_process_under_the_number_keeps_what_it_has(when: str, what: str) -> None:
    # Positive control: where nobody takes the number, it is set.
    assert _run(when, what) == ("True False True" if when == "never" else "False True False")


@pytest.mark.requires("user_namespaces")
def test_another_process_under_the_number_gets_no_signal() -> None:
    assert _run("look", "signal") == "False False"
    assert _run("never", "signal") == "True True"
