"""Decodes the arguments of a call for people: families, addresses, flags, paths; total for any registers."""

from __future__ import annotations

import signal
import stat

from sentinel_kernel.abi.socket import FAMILIES, SOCK_TYPE_MASK, TYPE_FLAGS, TYPES
from sentinel_kernel.policy.signatures import signature
from sentinel_kernel.policy.sockaddr import read_address
from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CLONE_FLAGS = {
    0x80: "CLONE_NEWTIME",
    0x100: "CLONE_VM",
    0x200: "CLONE_FS",
    0x400: "CLONE_FILES",
    0x800: "CLONE_SIGHAND",
    0x1000: "CLONE_PIDFD",
    0x2000: "CLONE_PTRACE",
    0x4000: "CLONE_VFORK",
    0x8000: "CLONE_PARENT",
    0x10000: "CLONE_THREAD",
    0x20000: "CLONE_NEWNS",
    0x40000: "CLONE_SYSVSEM",
    0x80000: "CLONE_SETTLS",
    0x100000: "CLONE_PARENT_SETTID",
    0x200000: "CLONE_CHILD_CLEARTID",
    0x1000000: "CLONE_CHILD_SETTID",
    0x2000000: "CLONE_NEWCGROUP",
    0x4000000: "CLONE_NEWUTS",
    0x8000000: "CLONE_NEWIPC",
    0x10000000: "CLONE_NEWUSER",
    0x20000000: "CLONE_NEWPID",
    0x40000000: "CLONE_NEWNET",
    0x80000000: "CLONE_IO",
}
_EXIT_SIGNAL = 0x7F
_MOUNT_FLAGS = {
    1: "MS_RDONLY",
    2: "MS_NOSUID",
    4: "MS_NODEV",
    8: "MS_NOEXEC",
    16: "MS_SYNCHRONOUS",
    32: "MS_REMOUNT",
    1024: "MS_NOATIME",
    4096: "MS_BIND",
    8192: "MS_MOVE",
    16384: "MS_REC",
    1 << 17: "MS_UNBINDABLE",
    1 << 18: "MS_PRIVATE",
    1 << 19: "MS_SLAVE",
    1 << 20: "MS_SHARED",
    1 << 21: "MS_RELATIME",
    1 << 24: "MS_STRICTATIME",
}
_IOCTLS = {
    0x5401: "TCGETS",
    0x540E: "TIOCSCTTY",
    0x5412: "TIOCSTI",
    0x5413: "TIOCGWINSZ",
    0x541C: "TIOCLINUX",
    0x541D: "TIOCCONS",
    0x5421: "FIONBIO",
}
_PTRACE = {
    0: "PTRACE_TRACEME",
    1: "PTRACE_PEEKTEXT",
    2: "PTRACE_PEEKDATA",
    4: "PTRACE_POKETEXT",
    5: "PTRACE_POKEDATA",
    16: "PTRACE_ATTACH",
    17: "PTRACE_DETACH",
    0x4206: "PTRACE_SEIZE",
}
_PRCTL = {
    1: "PR_SET_PDEATHSIG",
    4: "PR_SET_DUMPABLE",
    15: "PR_SET_NAME",
    22: "PR_SET_SECCOMP",
    23: "PR_CAPBSET_READ",
    24: "PR_CAPBSET_DROP",
    28: "PR_SET_SECUREBITS",
    35: "PR_SET_MM",
    38: "PR_SET_NO_NEW_PRIVS",
    47: "PR_CAP_AMBIENT",
    0x59616D61: "PR_SET_PTRACER",
}
_BPF = {
    0: "BPF_MAP_CREATE",
    5: "BPF_PROG_LOAD",
    8: "BPF_PROG_ATTACH",
    18: "BPF_BTF_LOAD",
    28: "BPF_LINK_CREATE",
}
_MODE_TYPES = {
    stat.S_IFIFO: "S_IFIFO",
    stat.S_IFCHR: "S_IFCHR",
    stat.S_IFDIR: "S_IFDIR",
    stat.S_IFBLK: "S_IFBLK",
    stat.S_IFREG: "S_IFREG",
    stat.S_IFSOCK: "S_IFSOCK",
}
_AT_FDCWD = -100  # <linux/fcntl.h>


class Argument(Record):
    """One argument: its name, its register, and both for a person.

    ``untrusted`` marks a text that was copied from the sandbox: show it, never follow it.
    """

    name: str
    value: int
    text: str
    untrusted: bool = False


def decode_arguments(
    syscall: str, arguments: Sequence[int], copied: Mapping[int, bytes]
) -> tuple[Argument, ...]:
    """Return the arguments of ``syscall`` for people; never raises."""
    decoded = []
    for index, (name, kind) in enumerate(signature(syscall)):
        value = arguments[index]
        if kind in ("path", "bytes", "address"):
            decoded.append(_copied_argument(name, kind, value, copied.get(index)))
        else:
            decoded.append(Argument(name, value, _DECODERS[kind](value)))
    return tuple(decoded)


def _copied_argument(name: str, kind: str, value: int, data: bytes | None) -> Argument:
    if not data:
        return Argument(name, value, pointer_text(value))
    if kind == "address":
        address = read_address(data)
        return Argument(name, value, address.text, untrusted=not address.numeric)
    return Argument(name, value, shown(data.partition(b"\0")[0] if kind == "path" else data), untrusted=True)


def int32(value: int) -> int:
    """Return a register as the ``int`` that the Linux kernel reads from it."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def pointer_text(value: int) -> str:
    """Return what is said of a pointer: its number would differ in each run and tell nobody anything."""
    return "NULL" if value == 0 else "pointer"


def family_text(value: int) -> str:
    """Return the name of a socket family."""
    return FAMILIES.get(value & 0xFFFFFFFF, f"family {int32(value)}")


def flags_text(value: int, names: Mapping[int, str]) -> str:
    """Return the names of the bits in ``value``, and the rest in hexadecimal."""
    value &= 0xFFFFFFFF
    parts = [name for bit, name in names.items() if value & bit]
    rest = value & ~sum(names)
    if rest or not parts:
        parts.append(hex(rest))
    return "|".join(parts)


def clone_flags_text(value: int) -> str:
    """Return the names of clone(2)'s flags, without the exit signal in the low bits."""
    return flags_text(value & ~_EXIT_SIGNAL, _CLONE_FLAGS)


def _socket_type(value: int) -> str:
    kind = TYPES.get(value & SOCK_TYPE_MASK, str(value & SOCK_TYPE_MASK))
    return "|".join([kind, *(name for bit, name in TYPE_FLAGS.items() if value & bit)])


def _signal(value: int) -> str:
    number = int32(value)
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _descriptor(value: int) -> str:
    return "AT_FDCWD" if int32(value) == _AT_FDCWD else str(int32(value))


def _mode(value: int) -> str:
    kind = _MODE_TYPES.get(stat.S_IFMT(value & 0xFFFF))
    permissions = f"0o{value & 0o7777:03o}"
    return f"{kind}|{permissions}" if kind else permissions


def _named(names: Mapping[int, str]) -> Callable[[int], str]:
    return lambda value: names.get(value & 0xFFFFFFFF, hex(value & 0xFFFFFFFF))


_DECODERS: dict[str, Callable[[int], str]] = {
    "int": lambda value: str(int32(value)),
    "size": str,
    "hex": lambda value: hex(value & 0xFFFFFFFF) if value >> 32 in (0, 0xFFFFFFFF) else hex(value),
    "fd": _descriptor,
    "pointer": pointer_text,
    "family": family_text,
    "socket_type": _socket_type,
    "signal": _signal,
    "mode": _mode,
    "clone_flags": clone_flags_text,
    "mount_flags": lambda value: flags_text(value, _MOUNT_FLAGS),
    "ioctl": _named(_IOCTLS),
    "ptrace": _named(_PTRACE),
    "prctl": _named(_PRCTL),
    "bpf": _named(_BPF),
}
