"""Going round the filter: bits that a comparison could miss, interfaces that it does not see."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest
from lacking import lacking

if TYPE_CHECKING:
    from conftest import Attacker

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the calls are written by x86_64's numbers"),
]

_CLONE_USER = """
child = LIBC.syscall(56, ctypes.c_ulong(HIGH | 0x10000000 | signal.SIGCHLD), 0, 0, 0, 0)
if child == 0:
    os._exit(0)
tell("ok" if child > 0 else errno.errorcode[ctypes.get_errno()])
"""


@pytest.mark.parametrize("high", ["0", "1 << 40"])
def test_clone_with_a_namespace_flag_below_high_bits(attacker: Attacker, high: str) -> None:
    attack = _CLONE_USER.replace("HIGH", high)
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "EPERM"


@pytest.mark.parametrize("high", ["0", "1 << 32"])
def test_socket_of_the_network_below_high_bits(attacker: Attacker, high: str) -> None:
    attack = f"tell(called(41, ({high}) | socket.AF_INET, socket.SOCK_STREAM, 0))"
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "EPERM"


def test_tiocsti_below_high_bits(attacker: Attacker) -> None:
    attack = """
main, second = os.openpty()
os.setsid() if os.getpid() != os.getsid(0) else None
fcntl.ioctl(second, 0x540E, 0)
tell([called(16, second, 0x5413, ctypes.create_string_buffer(64)),
      called(16, second, (0xDEAD << 32) | 0x5412, b"x")])
"""
    assert attacker.outside(attack)[0] == "ok"
    assert attacker.inside(attack) == ["ok", "EPERM"]


def test_io_uring(attacker: Attacker) -> None:
    attack = "tell(called(425, 8, None))"
    assert attacker.outside(attack) in ("EFAULT", "EPERM")  # the second where a sysctl switches it off
    assert attacker.inside(attack) == "ENOSYS"


def test_clone3_with_a_namespace_flag(attacker: Attacker) -> None:
    attack = """
fields = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, signal.SIGCHLD)
child = LIBC.syscall(435, ctypes.byref(fields), ctypes.c_size_t(ctypes.sizeof(fields)))
if child == 0:
    os._exit(0)
tell("ok" if child > 0 else errno.errorcode[ctypes.get_errno()])
"""
    assert attacker.outside(attack) == "ok"
    assert attacker.inside(attack) == "ENOSYS"


def test_32_bit_call_by_int_80(attacker: Attacker) -> None:
    attack = """
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, getpid; int 0x80; ret
code = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
tell(code() == os.getpid())
"""
    assert attacker.outside(attack) is True
    assert attacker.cause(attack)["kind"] == "rule_kill"


@pytest.mark.parametrize("high", ["0", "1 << 40"])
def test_no_socket_hands_out_a_process_at_its_other_end(attacker: Attacker, high: str) -> None:
    attack = f"""
ours, theirs = socket.socketpair()
room, size, on = ctypes.create_string_buffer(4), ctypes.c_uint(4), ctypes.c_int(1)
level = ({high}) | socket.SOL_SOCKET
tell([called(55, ours.fileno(), level, ({high}) | 16, room, ctypes.byref(size)),
      called(55, ours.fileno(), level, ({high}) | 77, room, ctypes.byref(size)),
      called(54, ours.fileno(), level, ({high}) | 16, ctypes.byref(on), 4),
      called(54, ours.fileno(), level, ({high}) | 76, ctypes.byref(on), 4)])
"""
    outside = attacker.outside(attack)
    if outside == ["ok", "ENOPROTOOPT"] * 2:
        lacking("SO_PEERPIDFD is an option of Linux 6.5 and newer")
    assert outside == ["ok"] * 4
    assert attacker.inside(attack) == ["ok", "ENOPROTOOPT"] * 2


def test_a_filter_of_its_own_that_answers_for_the_supervisor_gives_nothing(attacker: Attacker) -> None:
    attack = """
# Every call is answered with success by a second filter's own ERRNO(0) for socket(2): no socket comes of it.
program = bytes.fromhex("2000000000000000" "1500000129000000" "0600000000000500" "060000000000ff7f")
memory = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))
LIBC.prctl(38, 1, 0, 0, 0)
loaded = called(317, 1, 0, ctypes.byref(Program(4, ctypes.addressof(memory))))
tell([loaded, tried(lambda: os.fstat(LIBC.syscall(41, 2, 1, 0) or 999))])
"""
    assert attacker.outside(attack) == ["ok", "EBADF"]
    assert attacker.inside(attack) == ["ok", "EBADF"]
