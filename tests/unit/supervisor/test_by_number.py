"""A number that comes to mean another process while a limit is set: that one keeps its own; any thread can be meant."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest

from sentinel_kernel.supervisor import by_number, switching
from sentinel_kernel.supervisor.network.epolls import Watches

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

def take_number():
    "Have a process with the number that is meant, which is free a moment after it is seen no more."
    while True:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(meant - 1))
        if (made := child()) == meant:
            return
        os.kill(made, signal.SIGKILL)
        os.waitpid(made, 0)

def become_another():
    os.kill(meant, signal.SIGKILL)
    os.waitpid(meant, 0)
    take_number()

def seen(pid):
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)[0], os.sched_getaffinity(pid)

when, what = sys.argv[1:]
if what == "thread":
    # The thread of a child ends and its number becomes another process's, where Linux knows no pidfds of threads.
    import errno, threading
    real_open, real_set = os.pidfd_open, os.sched_setaffinity
    def older(pid, flags=0):
        if flags or by_number.process_of(pid) != pid:
            raise OSError(errno.EINVAL, "")
        return real_open(pid)
    numbers, ends = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        def stay():
            os.write(numbers[1], b"%d" % threading.get_native_id())
            os.read(ends[0], 1)
        threading.Thread(target=stay, daemon=True).start()
        signal.pause()
    meant = int(os.read(numbers[0], 20))
    before = os.sched_getaffinity(meant)
    def taken(*arguments):
        os.sched_setaffinity = real_set
        if when == "call":
            os.write(ends[1], b".")
            while os.path.exists(f"/proc/{process}/task/{meant}"):
                pass
            take_number()
        return real_set(*arguments)
    os.pidfd_open, os.sched_setaffinity = older, taken
    try:
        by_number.set_processors(meant, 1, set(sorted(before)[:1]))
        done = True
    except ProcessLookupError:
        done = False
    print(done, os.sched_getaffinity(meant) == before)
    sys.exit()
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


# Two threads beside the first, whose numbers it tells; it ends when nobody is left to tell them to.
THREADS = """
import os, sys, threading
def stay():
    os.write(1, b"%d\\n" % threading.get_native_id())
    event.wait()
event = threading.Event()
for _ in range(2):
    threading.Thread(target=stay, daemon=True).start()
sys.stdin.read()
"""


@pytest.fixture(params=["as it is", "before 6.9"])
def linux(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """This Linux kernel, and one that knows no pidfds of threads: it takes numbers of processes alone."""
    if request.param == "before 6.9":
        real = os.pidfd_open

        def older(pid: int, flags: int = 0) -> int:
            if flags or by_number.process_of(pid) != pid:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(pid, flags)

        monkeypatch.setattr(os, "pidfd_open", older)
    return str(request.param)


@pytest.mark.usefixtures("linux")
def test_a_thread_beside_its_processs_first_is_set() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        threads = [int(process.stdout.readline()) for _ in range(2)]
        assert process.pid not in threads
        all_of_them = os.sched_getaffinity(0)
        fewer = {min(all_of_them)}
        by_number.set_processors(threads[0], process.pid, fewer)
        by_number.set_soft_limit(threads[1], process.pid, resource.RLIMIT_DATA, 1 << 40)
        assert os.sched_getaffinity(threads[0]) == fewer
        # What watches a socket of such a thread is moved through a pidfd too.
        Watches().move(threads[0], process.stdin.fileno(), process.stdin.fileno(), [])
        # Positive control: the one that was not meant keeps its own.
        assert os.sched_getaffinity(threads[1]) == all_of_them
        assert resource.prlimit(process.pid, resource.RLIMIT_DATA)[0] == 1 << 40
        process.stdin.close()
        process.wait()
    with pytest.raises(ProcessLookupError):
        by_number.set_processors(threads[0], process.pid, fewer)


@pytest.mark.usefixtures("linux")
def test_every_thread_is_kept_to_fewer_processors() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        threads = [int(process.stdout.readline()) for _ in range(2)]
        fewer = {min(os.sched_getaffinity(0))}
        assert switching.place_threads(process.pid, process.pid, fewer, exactly=True)
        assert [os.sched_getaffinity(one) for one in (process.pid, *threads)] == [fewer] * 3
        assert not switching.place_threads(process.pid, process.pid, fewer, exactly=True)
        process.stdin.close()


@pytest.mark.requires("user_namespaces")
@pytest.mark.parametrize("when", ["call", "never"])
def test_a_thread_that_ends_at_the_call_leaves_its_number_as_it_is(when: str) -> None:
    assert _run(when, "thread") == {"call": "False True", "never": "True False"}[when]
