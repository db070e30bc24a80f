"""What no profile can change: calls that are never allowed, and calls that the worker can't do without."""

from __future__ import annotations

import errno

from sentinel_kernel.abi.socket import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    NETLINK_ROUTE,
    SOCKADDR_IN6_BYTES,
    SOCKADDR_IN_BYTES,
)
from sentinel_kernel.policy.action import NOTIFY, Action, ActionKind
from sentinel_kernel.policy.regions import LOW_32_BITS, ArgumentTest
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.regions import Region

NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET of ``<linux/sched.h>``.

CLONE_NEWTIME (0x80) is part of the exit signal in clone(2), and a flag in unshare(2) and clone3(2) alone.
"""

_F_SETLEASE = 1024  # <linux/fcntl.h>
_SOL_SOCKET, _SO_PASSPIDFD, _SO_PEERPIDFD = 1, 76, 77  # <asm-generic/socket.h>, Linux 6.5
TIOCSTI, TIOCLINUX, TIOCCONS = 0x5412, 0x541C, 0x541D  # <asm-generic/ioctls.h>

_NO_CALL = Action(ActionKind.ERRNO, errno.ENOSYS)
_NO_CALL_TOLD = Action(ActionKind.NOTIFY, errno.ENOSYS)


def _calls(names: str) -> tuple[str, ...]:
    return tuple(names.split())


def _equals(index: int, value: int) -> ArgumentTest:
    return ArgumentTest(index, LOW_32_BITS, value)


class FixedRule(Record):
    """What holds for ``syscalls`` whatever a profile says.

    With ``only_in`` it holds in those regions, with ``except_in`` outside of those, with neither everywhere.
    """

    syscalls: tuple[str, ...]
    action: Action
    reason: str
    only_in: tuple[Region, ...] = ()
    except_in: tuple[Region, ...] = ()
    exact: bool = False
    """Whether no profile may refuse it in another way either."""


_NOT_HELD = frozenset(
    _calls(
        "read write readv writev pread64 pwrite64 close close_range dup dup2 dup3 clone clone3 fork vfork "
        "execve execveat exit exit_group wait4 waitid futex mmap munmap mremap mprotect madvise brk "
        "sendmsg recvmsg sendto recvfrom rt_sigaction rt_sigprocmask rt_sigreturn restart_syscall "
        "set_robust_list rseq poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 epoll_ctl "
        "nanosleep clock_nanosleep clock_gettime sched_yield getrandom"
    )
)
"""Calls that must never wait for a supervisor.

A signal that comes before it has taken the call makes it fail with EINTR, which shells and C libraries do not
expect of them; and each would cost a thousand times its price.
"""


def is_never_held(syscall: str) -> bool:
    """Tell whether ``syscall`` must be decided in the filter alone (see the reason beside the list)."""
    return syscall in _NOT_HELD


_INIT = 1
"""The number of the sandbox's first process, inside; every worker is forked from it and takes after it.

Of its process group, which has the same number, it is the only one: workers have a session of their own."""

# PRIO_USER of <linux/resource.h> and IOPRIO_WHO_USER of <linux/ioprio.h>. What has other bits is refused anyway; each
# further bit of the mask would double what other rules of the call fall into.
_PRIO_USER = ArgumentTest(0, 0x03, 2)
_IOPRIO_WHO_USER = ArgumentTest(0, 0x03, 3)
_OF_INIT = (_equals(0, _INIT),)
_IOPRIO_IDLE = ArgumentTest(2, 0x07 << 13, 3 << 13)
"""The class of <linux/ioprio.h>, in the bits above level and hint: whoever has it goes behind all others."""

_SETUID, _SETGID = 0o4000, 0o2000  # inode(7)
_CREATES = (0o100, 0o20000000)
"""O_CREAT and __O_TMPFILE of <asm-generic/fcntl.h>: without them open(2) reads no mode."""


def _has(index: int, bit: int) -> ArgumentTest:
    return ArgumentTest(index, bit, bit)


def _created_with(flags: int, mode: int) -> tuple[Region, ...]:
    """Return where a file is made that runs as its owner or group; the arguments' numbers are given."""
    return tuple((_has(flags, how), _has(mode, bit)) for how in _CREATES for bit in (_SETUID, _SETGID))


_RUNS_AS_OWNER = "in a folder that is written directly, whoever runs the file would become the folder's owner"

_OF_PROCESSES = "it would hand out a process outside of the sandbox, to which the worker's sockets lead"
_NO_OPTION = Action(ActionKind.ERRNO, errno.ENOPROTOOPT)
"""As of a Linux kernel that does not know the option: libraries do without."""


def _option(name: int) -> Region:
    # Few bits, as those of two tests multiply: no other level or option has just these in the same places.
    return (ArgumentTest(1, 0x3F, _SOL_SOCKET), ArgumentTest(2, 0x7F, name))


# Refusals: a profile may refuse the same in another way (KILL, another errno), but not allow it.
FLOOR: tuple[FixedRule, ...] = (
    FixedRule(
        ("io_uring_setup", "io_uring_enter", "io_uring_register"),
        _NO_CALL,
        "io_uring makes calls that the filter never sees; libraries fall back to ordinary calls",
    ),
    FixedRule(
        ("clone3", "openat2"),
        _NO_CALL,
        "its flags lie behind a pointer, out of reach; the C library falls back to the older call",
        exact=True,
    ),
    FixedRule(
        ("add_key", "request_key", "keyctl"),
        _NO_CALL_TOLD,
        "the keys of the Linux kernel belong to the user outside as well",
    ),
    FixedRule(
        ("clone",),
        NOTIFY,
        "a new namespace would bring back rights that the sandbox has given up",
        except_in=((ArgumentTest(0, NAMESPACE_FLAGS, 0),),),
    ),
    FixedRule(("unshare", "setns"), NOTIFY, "namespaces are the walls of the sandbox"),
    FixedRule(
        _calls(
            "mount umount2 pivot_root chroot fsopen fsmount fsconfig fspick move_mount open_tree "
            "open_tree_attr mount_setattr"
        ),
        NOTIFY,
        "the file system of the sandbox is set up from outside",
    ),
    FixedRule(
        _calls(
            "init_module finit_module delete_module create_module get_kernel_syms query_module kexec_load "
            "kexec_file_load bpf uselib uretprobe uprobe"
        ),
        NOTIFY,
        "it would put code into the Linux kernel",
    ),
    FixedRule(
        ("perf_event_open", "userfaultfd", "lookup_dcookie", "nfsservctl"),
        NOTIFY,
        "it opens parts of the Linux kernel that attacks like to use",
    ),
    FixedRule(
        _calls(
            "reboot swapon swapoff iopl ioperm acct quotactl quotactl_fd syslog vhangup settimeofday "
            "clock_settime adjtimex clock_adjtime sethostname setdomainname _sysctl"
        ),
        NOTIFY,
        "it concerns the machine as a whole",
    ),
    FixedRule(
        ("open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark"),
        NOTIFY,
        "it reaches files without going through the folders that the sandbox shows",
    ),
    # Not the bit for the group alone: on folders it is in honest use, and a call's registers don't tell them apart.
    FixedRule(("chmod", "fchmod"), NOTIFY, _RUNS_AS_OWNER, only_in=((_has(1, _SETUID),),)),
    FixedRule(("fchmodat", "fchmodat2"), NOTIFY, _RUNS_AS_OWNER, only_in=((_has(2, _SETUID),),)),
    FixedRule(("mknod", "creat"), NOTIFY, _RUNS_AS_OWNER, only_in=((_has(1, _SETUID),), (_has(1, _SETGID),))),
    FixedRule(("mknodat",), NOTIFY, _RUNS_AS_OWNER, only_in=((_has(2, _SETUID),), (_has(2, _SETGID),))),
    FixedRule(("open",), NOTIFY, _RUNS_AS_OWNER, only_in=_created_with(1, 2)),
    FixedRule(("openat",), NOTIFY, _RUNS_AS_OWNER, only_in=_created_with(2, 3)),
    FixedRule(("pidfd_getfd",), NOTIFY, "it takes open files out of other processes"),
    FixedRule(("getsockopt",), _NO_OPTION, _OF_PROCESSES, only_in=(_option(_SO_PEERPIDFD),)),
    FixedRule(("setsockopt",), _NO_OPTION, _OF_PROCESSES, only_in=(_option(_SO_PASSPIDFD),)),
    FixedRule(
        ("fcntl",),
        NOTIFY,
        "whoever opens the file outside would wait for the cell",
        only_in=((_equals(1, _F_SETLEASE),),),
    ),
    FixedRule(
        ("ioctl",),
        NOTIFY,
        "it types into a terminal, or takes one over",
        only_in=((_equals(1, TIOCSTI),), (_equals(1, TIOCLINUX),), (_equals(1, TIOCCONS),)),
    ),
    FixedRule(
        ("socket",),
        NOTIFY,
        "sockets of this family are not held by the sandbox's own network",
        except_in=(
            (_equals(0, AF_UNIX),),
            (_equals(0, AF_INET),),
            (_equals(0, AF_INET6),),
            (_equals(0, AF_NETLINK), _equals(2, NETLINK_ROUTE)),
        ),
    ),
    FixedRule(
        ("socketpair",),
        NOTIFY,
        "pairs of this family are not held by the sandbox's own network",
        except_in=((_equals(0, AF_UNIX),),),
    ),
    FixedRule(
        ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"),
        NOTIFY,
        "every later worker would inherit it from the sandbox's first process",
        only_in=(_OF_INIT,),
    ),
    FixedRule(
        ("setpriority",),
        NOTIFY,
        "every later worker would inherit it from the sandbox's first process, one of the user's",
        only_in=((_equals(1, _INIT),), (_PRIO_USER,)),
    ),
    FixedRule(
        ("ioprio_set",),
        NOTIFY,
        "every later worker would inherit it from the sandbox's first process, one of the user's",
        only_in=((_equals(1, _INIT),), (_IOPRIO_WHO_USER,)),
    ),
    # Linux lets nobody lower a nice value without rights; but anybody takes a level at the disk, and a class above the
    # one that the kernel was started with (ionice -c3).
    FixedRule(
        ("ioprio_set",),
        NOTIFY,
        "it would go before others on the machine at the disk; the idle class alone is behind all of them",
        except_in=((_IOPRIO_IDLE,),),
    ),
)

_INTERNET_LENGTHS = (SOCKADDR_IN_BYTES, SOCKADDR_IN6_BYTES)

# What the worker (a Jupyter kernel on inherited sockets) and its start need; no profile can take it away.
WORKER_NEEDS: tuple[FixedRule, ...] = (
    FixedRule(
        _calls(
            "read write readv writev pread64 pwrite64 close close_range lseek dup dup2 dup3 pipe2 "
            "fstat newfstatat statx stat lstat getdents64 getcwd readlink readlinkat access "
            "faccessat faccessat2 mkdir mkdirat unlink unlinkat rename renameat renameat2 ftruncate umask "
            "chdir"
        ),
        Action(ActionKind.ALLOW),
        "the worker reads and writes files and pipes",
    ),
    FixedRule(
        ("fcntl",),
        Action(ActionKind.ALLOW),
        "the worker reads and writes files and pipes",
        except_in=((_equals(1, _F_SETLEASE),),),
    ),
    FixedRule(("open",), Action(ActionKind.ALLOW), "the worker opens files", except_in=_created_with(1, 2)),
    FixedRule(("openat",), Action(ActionKind.ALLOW), "the worker opens files", except_in=_created_with(2, 3)),
    FixedRule(
        ("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "membarrier"),
        Action(ActionKind.ALLOW),
        "the worker needs memory",
    ),
    FixedRule(
        _calls(
            "execve wait4 waitid exit exit_group kill tgkill getpid getppid gettid getuid geteuid getgid "
            "getegid getpgrp getpgid setpgid prctl arch_prctl set_tid_address set_robust_list rseq "
            "futex restart_syscall uname rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack sysinfo"
        ),
        Action(ActionKind.ALLOW),
        "the worker is started, interrupted and ended by them",
    ),
    FixedRule(
        ("clone",),
        Action(ActionKind.ALLOW),
        "the worker starts threads, and init starts the worker",
        only_in=((ArgumentTest(0, NAMESPACE_FLAGS, 0),),),
    ),
    FixedRule(
        ("personality",),
        Action(ActionKind.ALLOW),
        "init gives up the layout of memory that is its own, so that programs begin with the usual one",
        only_in=((_equals(0, 0),),),
    ),
    FixedRule(
        _calls(
            "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time getrandom sched_yield "
            "sched_getaffinity sched_getparam sched_getscheduler poll ppoll select "
            "pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
            "eventfd2 pipe"
        ),
        Action(ActionKind.ALLOW),
        "the worker waits for messages",
    ),
    FixedRule(
        ("prlimit64", "sched_setscheduler"),
        Action(ActionKind.ALLOW),
        "the worker sets its own limits, and asks how it is scheduled",
        except_in=(_OF_INIT,),
    ),
    FixedRule(
        ("prlimit64",),
        Action(ActionKind.ALLOW),
        "each program asks for the limits that it has",
        only_in=((ArgumentTest(2, (1 << 64) - 1, 0),),),
    ),
    FixedRule(
        _calls("sendmsg recvmsg sendto recvfrom shutdown getsockname getpeername accept accept4 listen"),
        Action(ActionKind.ALLOW),
        "the worker speaks with the host over sockets that it inherits",
    ),
    FixedRule(
        ("getsockopt",),
        Action(ActionKind.ALLOW),
        "the worker looks after the sockets that it inherits",
        except_in=(_option(_SO_PEERPIDFD),),
    ),
    FixedRule(
        ("setsockopt",),
        Action(ActionKind.ALLOW),
        "the worker looks after the sockets that it inherits",
        except_in=(_option(_SO_PASSPIDFD),),
    ),
    FixedRule(
        ("ioctl",),
        Action(ActionKind.ALLOW),
        "the worker makes its sockets non-blocking and asks for the size of its terminal",
        only_in=tuple((_equals(1, number),) for number in (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    ),
    FixedRule(
        ("socket", "socketpair"),
        Action(ActionKind.ALLOW),
        "the worker's parts speak with each other over local sockets",
        only_in=((_equals(0, AF_UNIX),),),
    ),
    FixedRule(
        ("bind", "connect"),
        Action(ActionKind.ALLOW),
        "the worker's parts speak with each other over local sockets (no length of an internet address)",
        except_in=tuple((_equals(2, length),) for length in _INTERNET_LENGTHS),
    ),
)
