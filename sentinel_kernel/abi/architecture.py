"""The machines that Sentinel runs on: audit numbers, system call tables, the x32 bit."""

from __future__ import annotations

from sentinel_kernel.abi import syscalls_aarch64, syscalls_x86_64
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

# <linux/audit.h>: ELF machine number | __AUDIT_ARCH_64BIT (1 << 31) | __AUDIT_ARCH_LE (1 << 30)
AUDIT_ARCH_X86_64: Final = 0xC000003E
AUDIT_ARCH_I386: Final = 0x40000003
AUDIT_ARCH_AARCH64: Final = 0xC00000B7
AUDIT_ARCH_ARM: Final = 0x40000028

X32_SYSCALL_BIT: Final = 0x40000000
"""``__X32_SYSCALL_BIT`` of ``<asm/unistd.h>``: set in the numbers of x86_64's x32 interface."""

_FOREIGN_NAMES: Final = {
    AUDIT_ARCH_X86_64: "x86_64",
    AUDIT_ARCH_I386: "i386",
    AUDIT_ARCH_AARCH64: "aarch64",
    AUDIT_ARCH_ARM: "arm",
}


class Architecture(Record):
    """One machine: its name as uname(2) gives it, its audit number, and its calls by name and by number."""

    machine: str
    audit_arch: int
    syscalls: Mapping[str, int]
    names: Mapping[int, str]
    has_x32: bool
    top_bit: int
    """The highest bit of a program's addresses. Where its stack and its libraries are laid out from the top it is set
    in those; with ADDR_COMPAT_LAYOUT (personality(2)) mappings begin at a third or a quarter of the way, without it."""

    def name_of(self, number: int) -> str:
        """Return the name of call ``number``, or ``syscall_<number>`` where the table has none."""
        return self.names.get(number, f"syscall_{number}")


def _architecture(
    machine: str, audit_arch: int, table: Mapping[str, int], *, has_x32: bool, top_bit: int
) -> Architecture:
    names = {number: name for name, number in table.items()}
    return Architecture(machine, audit_arch, table, names, has_x32, top_bit)


X86_64: Final = _architecture("x86_64", AUDIT_ARCH_X86_64, syscalls_x86_64.SYSCALLS, has_x32=True, top_bit=46)
AARCH64: Final = _architecture(
    "aarch64", AUDIT_ARCH_AARCH64, syscalls_aarch64.SYSCALLS, has_x32=False, top_bit=47
)
ARCHITECTURES: Final = (X86_64, AARCH64)


def architecture_of(machine: str) -> Architecture:
    """Return the architecture of ``machine`` (as uname(2) names it).

    Raises:
        UnsupportedHost: there is no table for it; a guessed one would filter other calls than it names.

    """
    for architecture in ARCHITECTURES:
        if architecture.machine == machine:
            return architecture
    raise UnsupportedHost(
        f"Sentinel has no system call table for the machine '{machine}'.",
        "It runs on x86_64 and aarch64.",
    )


def architecture_by_audit(audit_arch: int) -> Architecture | None:
    """Return the architecture with ``audit_arch`` (seccomp_data.arch), None for a foreign one."""
    for architecture in ARCHITECTURES:
        if architecture.audit_arch == audit_arch:
            return architecture
    return None


def audit_name(audit_arch: int) -> str:
    """Return a name for any ``audit_arch``: the machine's, or the number in hexadecimal."""
    return _FOREIGN_NAMES.get(audit_arch, f"0x{audit_arch & 0xFFFFFFFF:08x}")


def is_known_anywhere(syscall: str) -> bool:
    """Tell whether any machine's table has the call: rules may name calls that one machine lacks."""
    return any(syscall in architecture.syscalls for architecture in ARCHITECTURES)
