"""Using up what the sandbox shares with the host: memory, processors, counters of the user and of the machine."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kernel_memory import Settled
from waiting import wait_until

if TYPE_CHECKING:
    from conftest import Attacker
    from ordinary_user import Identity

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the calls are written by x86_64's numbers"),
]

_MIB = 1 << 20
_LIMIT = {"resources": {"memory_bytes": "256MiB"}}
_STAY = """
while True:
    signal.pause()
"""


def _open(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(reason=f"open: {reason}")


@pytest.fixture
def ordinary_only(identity: Identity) -> None:
    if identity.uid == 0:
        pytest.skip("would take it from all of this machine's root; the ordinary user is the tests' own")


def test_private_memory_beyond_the_limit(attacker: Attacker) -> None:
    attack = "tell(tried(lambda: mmap.mmap(-1, 320 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)))"
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack, attacker.profile(**_LIMIT)) == "ENOMEM"


def test_shared_memory_beyond_the_limit(attacker: Attacker) -> None:
    attack = """
def take():
    memory = mmap.mmap(-1, 320 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    for offset in range(0, len(memory), 4096):
        memory[offset] = 1
tell(tried(take))
"""
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack, attacker.profile(**_LIMIT)) != "ok"


def test_memory_files_beyond_the_limit(attacker: Attacker) -> None:
    attack = """
def take():
    file = os.memfd_create("x")
    for _ in range(320):
        os.write(file, bytes(1 << 20))
tell(tried(take))
"""
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack, attacker.profile(**_LIMIT)) != "ok"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor anyway")
def test_processors_beyond_the_profiles(attacker: Attacker) -> None:
    attack = "tried(lambda: os.sched_setaffinity(0, range(64))); tell(len(os.sched_getaffinity(0)))"
    assert attacker.outside(attack) > 1
    assert attacker.inside(attack) == 1


@pytest.mark.usefixtures("ordinary_only")
def test_inotify_instances_of_the_user_outside(attacker: Attacker, identity: Identity) -> None:
    asked = (identity.python, "-c", "import ctypes, sys; sys.exit(ctypes.CDLL(None).inotify_init1(0) < 0)")
    assert identity.run(*asked, check=False).returncode == 0
    attacker.start("while LIBC.inotify_init1(0) >= 0:\n    pass\ntell(ctypes.get_errno())" + _STAY)
    wait_until(attacker.told, "the attack has taken all that it gets")
    assert identity.run(*asked, check=False).returncode == 0


@_open("descriptors in flight are counted for the user: programs with a lower RLIMIT_NOFILE can't send any")
@pytest.mark.usefixtures("ordinary_only")
def test_descriptors_in_flight_of_the_user_outside(attacker: Attacker, identity: Identity) -> None:
    asked = (
        identity.python,
        "-c",
        """
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
first, second = socket.socketpair()
socket.send_fds(first, [b"x"], [0])
""",
    )
    assert identity.run(*asked, check=False).returncode == 0
    attacker.start(
        """
pairs = []
def send():
    while True:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        for _ in range(4):
            rights = array.array("i", [0] * 250)
            pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
tell(tried(send))
"""
        + _STAY
    )
    wait_until(attacker.told, "the attack has sent all that it may")
    assert identity.run(*asked, check=False).returncode == 0


def test_native_aio_of_the_machine(attacker: Attacker) -> None:
    def reserved() -> int:
        return int(Path("/proc/sys/fs/aio-nr").read_text())

    before = reserved()
    attacker.start(
        """
for _ in range(4):
    called(206, 2048, ctypes.byref(ctypes.c_ulong(0)))
tell(0)
"""
        + _STAY
    )
    wait_until(attacker.told, "the attack has reserved what it gets")
    assert reserved() - before < 1024


_WATCHING = """
import select

def in_many_sets():
    for _ in range(150):
        one = select.epoll()
        for file in FILES:
            one.register(file, select.EPOLLIN)
        SETS.append(one)

def in_one_set_by_one_number_after_another():
    one = select.epoll()
    SETS.append(one)
    for number in range(3000, 3150):
        for file in FILES:
            os.dup2(file, number)
            one.register(number, select.EPOLLIN)

def in_sets_that_lie_in_messages():
    PAIRS.append(socket.socketpair())
    for _ in range(30):
        one = select.epoll()
        for number in range(3000, 3005):
            for file in FILES:
                os.dup2(file, number)
                one.register(number, select.EPOLLIN)
        socket.send_fds(PAIRS[-1][0], [b"x"], [one.fileno()])
        one.close()

def in_sets_of_a_process_that_is_closed():
    LIBC.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    in_many_sets()

FILES = [os.eventfd(0) for _ in range(1000)]
PAIRS, SETS = [], []
fill = {}
"""
_UNTIL_KILLED = """
child = os.fork()
if child == 0:
    try:
        for _ in range(6):
            fill()
    except OSError as error:
        os._exit(error.errno)
    signal.pause()
status = os.waitpid(child, 0)[1]
tell(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.usefixtures("kernel_memory_alone")
@pytest.mark.parametrize(
    "way",
    [
        "in_many_sets",
        pytest.param("in_one_set_by_one_number_after_another", marks=pytest.mark.soak),
        "in_sets_that_lie_in_messages",
        "in_sets_of_a_process_that_is_closed",
    ],
)
def test_files_watched_for_events_beyond_the_share_of_the_user(attacker: Attacker, way: str) -> None:
    """150,000 are let be, whichever way; what takes more and more of them is ended, long before the user has none."""
    fill = _WATCHING.replace("{}", way)
    wait_until(Settled(), "the Linux kernel has given back what ended processes had", 60)
    assert attacker.outside(fill + "tell(tried(lambda: [fill(), fill()]))") == "ok"
    wait_until(Settled(), "what the attack outside had is given back", 60)
    assert attacker.inside(fill + _UNTIL_KILLED) == -signal.SIGKILL
    limits = [event["limit"] for event in attacker.supervised.events if event["event"] == "limit"]
    told = [(limit["name"], limit["stage"], limit["used"] > limit["allowed"]) for limit in limits]
    assert told == [("watches", "kill", True)]


_SIGNALS = """
def queue():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    information = (ctypes.c_int * 32)(signal.SIGRTMIN, 0, -1)
    while LIBC.syscall(129, os.getpid(), signal.SIGRTMIN, information) == 0:
        pass
    return errno.errorcode[ctypes.get_errno()]
"""
_TIMER = """
import ctypes, sys
sys.exit(ctypes.CDLL(None).syscall(222, 1, None, ctypes.byref(ctypes.c_int())) != 0)
"""


@pytest.mark.usefixtures("ordinary_only")
def test_signals_waiting_for_the_user_outside(attacker: Attacker, identity: Identity) -> None:
    """Timers take one each: none could be made any more."""
    assert attacker.outside(
        f"{_SIGNALS}tell([queue(), called(222, 1, 0, ctypes.byref(ctypes.c_int()))])"
    ) == [
        "EAGAIN",
        "EAGAIN",
    ]
    asked = (identity.python, "-c", _TIMER)
    assert identity.run(*asked, check=False).returncode == 0
    attacker.start(f"{_SIGNALS}tell(queue())" + _STAY)
    wait_until(attacker.told, "the attack has queued all that it may")
    assert attacker.so_far() == "EAGAIN"
    assert identity.run(*asked, check=False).returncode == 0


_LOCKS = """
def lock():
    size = 64 << 10
    for _ in range(1 << 14):
        segment = LIBC.shmget(0, size, 0o1600)
        if segment < 0 or LIBC.shmctl(segment, 11, None) != 0:  # SHM_LOCK
            return errno.errorcode[ctypes.get_errno()]
"""
_LOCK = """
import ctypes, sys
libc = ctypes.CDLL(None)
segment = libc.shmget(0, 64 << 10, 0o1600)
locked = libc.shmctl(segment, 11, None)
libc.shmctl(segment, 0, None)  # IPC_RMID
sys.exit(locked != 0)
"""


@pytest.mark.usefixtures("ordinary_only")
def test_locked_memory_of_the_user_outside(attacker: Attacker, identity: Identity) -> None:
    asked = (identity.python, "-c", _LOCK)
    assert identity.run(*asked, check=False).returncode == 0
    attacker.start(f"{_LOCKS}tell(lock())" + _STAY)
    wait_until(attacker.told, "the attack has locked all that it may")
    assert attacker.so_far() == "ENOMEM"
    assert identity.run(*asked, check=False).returncode == 0


def test_terminals_of_the_machine(attacker: Attacker) -> None:
    """100 are no attack; of the 3,072 that all sandboxes and containers have together one sandbox may have few."""
    attack = """
pairs = []
def more(number):
    return tried(lambda: [pairs.append(os.openpty()) for _ in range(number)])
tell([more(50), more(50)])
"""
    assert attacker.outside(attack) == ["ok", "ok"]
    assert attacker.inside(attack) == ["ok", "ENOSPC"]
