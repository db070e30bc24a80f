"""The boot steps of the landlock rung: no namespaces and no mounts; what may be opened is listed (landlock(7))."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat

from sentinel_kernel.abi.landlock import SCOPES_FROM, AccessFs, AccessNet, Scope
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.boot import confinement
from sentinel_kernel.linux import landlock, namespaces, process
from sentinel_kernel.policy.plan import READ_ONLY_DEVICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.boot.context import BootContext
    from sentinel_kernel.policy.plan import PathLists

_READ = AccessFs.EXECUTE | AccessFs.READ_FILE | AccessFs.READ_DIR
_OF_FILES = (
    AccessFs.EXECUTE | AccessFs.WRITE_FILE | AccessFs.READ_FILE | AccessFs.TRUNCATE | AccessFs.IOCTL_DEV
)
"""What a rule for something that is no folder may hold."""

_NO_DEVICES = ~(AccessFs.MAKE_CHAR | AccessFs.MAKE_BLOCK | AccessFs.IOCTL_DEV)
_PLAIN = ~(AccessFs.MAKE_SOCK | AccessFs.MAKE_FIFO | AccessFs.MAKE_SYM)
"""What lies in the host's folder is opened by the host's programs: plain files and folders alone."""

_NOT_MOVED_IN = AccessFs.MAKE_BLOCK
"""No folder is moved to where more is allowed with what lies in it (landlock(7), LANDLOCK_ACCESS_FS_REFER), and links
and pipes could lie in one of the sandbox's. So the host's folder has a right that its own have not: one that takes
CAP_MKNOD, which nothing in the sandbox has."""


def become_nobody(context: BootContext) -> None:
    """Started by root: become the sandbox's own id, without groups, and without what root could get back."""
    if context.plan.started_by_root:
        if context.plan.cpus:
            os.sched_setaffinity(
                0, context.plan.cpus
            )  # of another's process it is not ours to set, afterwards
        identity = context.plan.identity
        process.empty_bounding_set()
        os.setgroups([])
        os.setresgid(identity.host_gid, identity.host_gid, identity.host_gid)
        os.setresuid(identity.host_uid, identity.host_uid, identity.host_uid)
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise OSError(errno.EPERM, "the sandbox would run as root, or in root's group")


def start_session(context: BootContext) -> None:
    """Leave the supervisor's session and keyring, its umask, blocked and ignored signals."""
    os.setsid()
    confinement.weigh_session(context.nice)
    os.umask(0o022)
    # Docker refuses this call; and the filter refuses all that keyrings could be used by.
    with contextlib.suppress(OSError):
        namespaces.join_new_session_keyring()
    confinement.reset_signals()


def mark_processes(context: BootContext) -> None:
    """Mark all processes of the sandbox's as such, for whoever finds them without a warden (supervisor/strays.py)."""
    lists = context.plan.lists
    if lists is not None and lists.mark:
        resource.setrlimit(RLIMIT_LOCKS, (lists.mark, lists.mark))


def give_up_privileges(context: BootContext) -> None:  # noqa: ARG001
    """Empty the capability sets, and never gain privileges again. Orphans inside stay below init."""
    process.clear_capabilities()
    process.set_no_new_privileges()
    process.adopt_orphans()
    process.set_dumpable(dumpable=False)


def open_paths(context: BootContext) -> None:
    """Refuse every file but those of the lists, all of the network, signals and abstract sockets outside.

    The last two where Landlock's version does; else the supervisor makes signals and connections (rung_processes.py).
    """
    lists = context.plan.lists
    if lists is None:
        raise OSError(errno.EINVAL, "the plan has no lists")
    handled = landlock.supported_access(lists.abi)
    landlock.restrict_self(
        lists.abi,
        handled,
        Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL if lists.abi >= SCOPES_FROM else Scope(0),
        _rules(lists, handled),
        AccessNet.BIND_TCP | AccessNet.CONNECT_TCP,
        may_be_gone=True,
    )


def _rules(lists: PathLists, handled: AccessFs) -> list[tuple[str, AccessFs]]:
    rules = [(path, _for_kind(path, _READ)) for path in lists.readable]
    rules += [(path, AccessFs.READ_FILE) for path in lists.single]
    rules += [(path, _of_device(path)) for path in lists.devices]
    rules += [(path, handled & _NO_DEVICES) for path in (lists.tmp, lists.home)]
    if lists.output:
        rules.append((lists.output, handled & _NO_DEVICES & _PLAIN | _NOT_MOVED_IN))
    return rules


def _of_device(path: str) -> AccessFs:
    if path == f"/dev/{READ_ONLY_DEVICE}":
        return AccessFs.READ_FILE
    return AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.IOCTL_DEV


def _for_kind(path: str, rights: AccessFs) -> AccessFs:
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        is_folder = False  # gone, or closed to us: then there is no rule
    return rights if is_folder else rights & _OF_FILES


STEPS: tuple[Callable[[BootContext], None], ...] = (
    become_nobody,
    start_session,
    confinement.apply_limits,
    mark_processes,
    confinement.lay_out_memory,
    give_up_privileges,
    confinement.die_with_supervisor,
    open_paths,
    confinement.receive_filter,
    confinement.load_filter,
    confinement.hand_over,
)
