"""Names what a call reaches for, so that one call can have different words (connect: outside, or a name)."""

from __future__ import annotations

from sentinel_kernel.abi.socket import AF_INET, AF_INET6
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP, OUTSIDE, read_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NETWORK = "network"
SOCKET_FAMILY = "socket-family"
OUTSIDE_NETWORK = "outside-network"

_BY_CALLS = {
    NETWORK: "bind connect listen accept accept4 sendto sendmmsg recvmmsg setsockopt getsockopt",
    SOCKET_FAMILY: "socketpair",
    "namespaces": "clone clone3 unshare setns",
    "mounts": (
        "mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick move_mount open_tree "
        "open_tree_attr mount_setattr"
    ),
    "processes": (
        "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp kill tkill tgkill"
    ),
    "linux-kernel": (
        "init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load "
        "kexec_file_load bpf perf_event_open userfaultfd uselib uretprobe uprobe lookup_dcookie "
        "nfsservctl io_uring_setup io_uring_enter io_uring_register"
    ),
    "machine": (
        "reboot swapon swapoff iopl ioperm acct quotactl quotactl_fd syslog vhangup settimeofday "
        "clock_settime adjtimex clock_adjtime sethostname setdomainname _sysctl"
    ),
    "keys": "add_key request_key keyctl",
    "devices": "mknod mknodat",
    "files": (
        "open_by_handle_at name_to_handle_at fanotify_init fanotify_mark openat open creat unlink "
        "unlinkat mkdir mkdirat rmdir rename renameat renameat2 chmod fchmodat chown fchownat truncate"
    ),
    "terminal": "ioctl",
    "identity": "setgroups setuid setgid setresuid setresgid setreuid setregid capset",
    "memory": "memfd_secret modify_ldt move_pages migrate_pages personality",
    "foreign-code": "foreign_architecture x32_call",
}
_RESOURCES = {call: resource for resource, calls in _BY_CALLS.items() for call in calls.split()}
OTHER = "other"


def resource_of(syscall: str, arguments: Sequence[int], copied: Mapping[int, bytes]) -> str:
    """Return what ``syscall`` with these arguments reaches for."""
    if syscall == "socket":
        family = arguments[0] & 0xFFFFFFFF
        return NETWORK if family in (AF_INET, AF_INET6) else SOCKET_FAMILY
    if syscall == "connect":
        reach = read_address(copied.get(1, b"")).reach
        return {NAME_LOOKUP: NAME_LOOKUP, OUTSIDE: OUTSIDE_NETWORK}.get(reach, NETWORK)
    return _RESOURCES.get(syscall, OTHER)


def resources() -> frozenset[str]:
    """Return every name that :func:`resource_of` may give."""
    return frozenset((*_BY_CALLS, NAME_LOOKUP, OUTSIDE_NETWORK, OTHER))
