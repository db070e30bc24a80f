"""Boot steps that take rights away: identity, root change, namespaces, limits, capabilities, Landlock, filter."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket

from sentinel_kernel.abi.landlock import AccessFs, AccessNet, Scope
from sentinel_kernel.abi.personality import ADDR_COMPAT_LAYOUT, PER_LINUX
from sentinel_kernel.abi.prctl import SecureBits
from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.abi.seccomp import BPF_INSTRUCTION_SIZE, BPF_MAXIMUM_INSTRUCTIONS
from sentinel_kernel.linux import autogroup, landlock, namespaces, network, process, seccomp
from sentinel_kernel.policy.plan import LENT_FILES, process_limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.boot.context import BootContext

# Second fence: writing is refused outside the plan's writable places whatever the mounts say. Reading is left to
# the mounts alone, because a handled read right costs every open(2) a walk up to the root.
_FENCED = (
    AccessFs.WRITE_FILE
    | AccessFs.REMOVE_DIR
    | AccessFs.REMOVE_FILE
    | AccessFs.MAKE_CHAR
    | AccessFs.MAKE_DIR
    | AccessFs.MAKE_REG
    | AccessFs.MAKE_SOCK
    | AccessFs.MAKE_FIFO
    | AccessFs.MAKE_BLOCK
    | AccessFs.MAKE_SYM
    | AccessFs.REFER
)
_SCOPE_ABI = 6
_BACKLOG = 128
_OPTIONAL_COUNTS = frozenset({"max_inotify_instances", "max_inotify_watches"})
_USER_COUNTS = (
    ("max_user_namespaces", b"0"),
    ("max_mnt_namespaces", b"0"),
    ("max_net_namespaces", b"0"),
    ("max_inotify_instances", b"32"),
    ("max_inotify_watches", b"8192"),
)
_SIGNALS_PART, _MOST_SIGNALS = 4, 65536
"""Of the signals and timers that the user may have waiting a sandbox has this part, and no more than this."""
_LOCKED_PART = 4
"""Of the memory that the user may lock a sandbox has this part."""

_PROGRAM_BYTES = BPF_INSTRUCTION_SIZE * BPF_MAXIMUM_INSTRUCTIONS


def take_identity(context: BootContext) -> None:
    """Become the one mapped user; the capabilities in the new user namespace stay."""
    process.set_secure_bits(SecureBits.NO_SETUID_FIXUP)
    inside = context.plan.identity
    os.setresgid(inside.inside_gid, inside.inside_gid, inside.inside_gid)
    os.setresuid(inside.inside_uid, inside.inside_uid, inside.inside_uid)
    process.set_dumpable(dumpable=True)  # a change of ids clears it, and /proc/self would belong to root


def root_control_groups(_context: BootContext) -> None:
    """Make the control group that this process was put in the root of all that it sees (cgroup_namespaces(7))."""
    namespaces.leave(CloneFlags.NEWCGROUP)


def change_root(context: BootContext) -> None:
    """Make the staged tree the root and let go of the host's."""
    os.chdir(f"{context.plan.staging}/root")
    namespaces.pivot_root_here()


def verify_root(context: BootContext) -> None:
    """Prove that the root is the one we made and that the host's is gone, before anything is written to it."""
    if os.stat("/").st_dev != context.root_device:
        raise OSError(5, "the root directory is not the one that was staged")
    if os.path.lexists(context.plan.absent_inside):
        raise OSError(5, f"the host's {context.plan.absent_inside} is still visible")


def forbid_namespaces(context: BootContext) -> None:  # noqa: ARG001 - every step has the same form
    """Allow no further user namespace inside, whatever the filter says, and a share of what its owner may count.

    Inotify's objects are counted for the user outside as well (namespaces(7), /proc/sys/user).
    """
    for name, value in _USER_COUNTS:
        try:
            file = os.open(f"/proc/sys/user/{name}", os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if name in _OPTIONAL_COUNTS:
                continue
            raise
        try:
            os.write(file, value)
        finally:
            os.close(file)


def name_host(context: BootContext) -> None:
    """Set the host name inside."""
    socket.sethostname(context.plan.hostname)


def open_loopback(context: BootContext) -> None:  # noqa: ARG001
    """Bring up the private loopback interface: debuggers and child output use it."""
    network.bring_loopback_up()


def open_sockets(context: BootContext) -> None:
    """Bind what the supervisor serves inside: sockets stay in the network namespace that they were made in."""
    for name, kind, address, port in context.plan.sockets:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        made.bind((address, port))
        if kind == "tcp":
            made.listen(_BACKLOG)
        context.sockets.append((f"socket:{name}", made.detach()))


def start_session(context: BootContext) -> None:
    """Leave the supervisor's session and keyring, its umask, blocked and ignored signals."""
    os.setsid()
    weigh_session(context.nice)
    os.umask(0o022)
    namespaces.join_new_session_keyring()
    reset_signals()


def weigh_session(nice: int) -> None:
    """Have this session, in which init imports, weigh what its supervisor's sandboxes are to weigh (sched(7)).

    Where that is refused, it weighs as much as others, and the worker's is set from outside all the same.
    """
    if nice:
        with contextlib.suppress(OSError):
            autogroup.set_nice("self", nice)


def reset_signals() -> None:
    """Block and ignore no signal."""
    # Caught signals are at their default after exec anyway; ignored ones would stay ignored (execve(2)).
    for number in _ignored_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _ignored_signals() -> list[int]:
    """Return the signals that this process ignores (SigIgn of proc_pid_status(5))."""
    status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(status, 8192)
    finally:
        os.close(status)
    mask = int(text.partition(b"SigIgn:")[2].split(None, 1)[0], 16)
    reserved = {signal.SIGKILL, signal.SIGSTOP, 32, 33}  # the last two are the C library's own
    return [number for number in range(1, 65) if mask >> (number - 1) & 1 and number not in reserved]


def apply_limits(context: BootContext) -> None:
    """Set the resource limits (getrlimit(2)); the hard ones can't be raised again without CAP_SYS_RESOURCE."""
    # Not 0: with 1 a piped core_pattern is not started at all, and that helper would be root's, on the host.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # The hard limit is what a change of profile may raise the soft one to, from outside.
    most = dict(process_limits(context.plan.most))
    lists = context.plan.lists
    # Without a user namespace the Linux kernel counts all processes of the user.
    others = {resource.RLIMIT_NPROC: lists.others} if lists is not None else {}
    for what, limit in process_limits(context.plan.sizes):
        value = limit + others.get(what, 0)
        inherited = resource.getrlimit(what)[1]
        bound = most.get(what, resource.RLIM_INFINITY)
        if bound != resource.RLIM_INFINITY:
            bound += others.get(what, 0)
        if what == resource.RLIMIT_DATA and bound != resource.RLIM_INFINITY:
            bound *= 2  # a heap's free part comes on top; the soft limit is not the cell's to raise
        if what == resource.RLIMIT_NOFILE and bound != resource.RLIM_INFINITY:
            bound += LENT_FILES
        hard = min((limit for limit in (inherited, bound) if limit != resource.RLIM_INFINITY), default=bound)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (soft, hard))
    _leave_signals()
    _leave_locked_memory()


def _leave_signals() -> None:
    """Leave to other programs of the user most of the signals and timers that Linux counts for the user.

    Those of all of a user's processes are counted together, and refused by the limit of the one that wants another.
    """
    limits = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    finite = (limit for limit in limits if limit != resource.RLIM_INFINITY)
    most = min(min(finite, default=_MOST_SIGNALS) // _SIGNALS_PART, _MOST_SIGNALS)
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (most, most))


def _leave_locked_memory() -> None:
    """Leave to other programs of the user most of what Linux counts for the user of shared memory that is locked.

    What is shared by System V is counted for all of the user's processes, of the namespaces below as well (SHM_LOCK of
    shmctl(2)); one process's own locked memory (mlock(2)) has the same limit.
    """
    limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    finite = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    if finite:
        most = min(finite) // _LOCKED_PART
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))


def lay_out_memory(context: BootContext) -> None:
    """Have init's memory laid out as the plan says; what workers execute is not, as init takes it back."""
    if context.plan.low_memory:
        process.set_personality(PER_LINUX | ADDR_COMPAT_LAYOUT)


def give_up_privileges(context: BootContext) -> None:  # noqa: ARG001
    """Empty every capability set, lock the securebits, and never gain privileges again."""
    process.empty_bounding_set()
    process.set_secure_bits(
        SecureBits.NOROOT
        | SecureBits.NOROOT_LOCKED
        | SecureBits.NO_SETUID_FIXUP
        | SecureBits.NO_SETUID_FIXUP_LOCKED
        | SecureBits.KEEP_CAPS_LOCKED
        | SecureBits.NO_CAP_AMBIENT_RAISE
        | SecureBits.NO_CAP_AMBIENT_RAISE_LOCKED
    )
    process.clear_capabilities()
    process.set_no_new_privileges()
    process.set_dumpable(dumpable=False)


def die_with_supervisor(context: BootContext) -> None:
    """Ask for death with the supervisor, then check that it is not gone already (the request is not retroactive)."""
    process.die_with_parent()
    poll = select.poll()
    poll.register(context.liveness, select.POLLIN)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        raise OSError(3, "the supervisor is gone")


def restrict_paths(context: BootContext) -> None:
    """Fence off writing by Landlock where the Linux kernel has it, as a second line behind the mounts."""
    try:
        abi = landlock.abi_version()
    except OSError:
        if context.plan.fenced:
            raise
        return  # the first fence stands; doctor and status say that the second is missing
    handled = _FENCED & landlock.supported_access(abi)
    scoped = Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL if abi >= _SCOPE_ABI else Scope(0)
    # Whoever may reach hosts has them connected from outside alone (policy/network_fence.py).
    fenced = AccessNet.BIND_TCP | AccessNet.CONNECT_TCP if context.plan.fenced else AccessNet(0)
    # What is no folder, a device, takes no right but one of those that are handled.
    rules = [
        (path, handled if os.path.isdir(path) else handled & AccessFs.WRITE_FILE)
        for path in context.plan.writable
    ]
    landlock.restrict_self(abi, handled, scoped, rules, fenced)


def receive_filter(context: BootContext) -> None:
    """Take the filter's program from the supervisor, which has built it meanwhile."""
    context.filter_program = context.report.recv(_PROGRAM_BYTES)
    if not context.filter_program:
        raise OSError(3, "the supervisor is gone")


def load_filter(context: BootContext) -> None:
    """Load the system call filter; from here on every call is the policy's."""
    context.listener = seccomp.load_filter(context.filter_program)


def hand_over(context: BootContext) -> None:
    """Give the supervisor the listener and what it needs of the workspace, and wait until it answers calls."""
    descriptors = [context.listener]
    if context.workspace_upper >= 0:
        descriptors += [context.workspace_upper, context.workspace_context]
    named = [*context.sized, *context.shown, *context.layers, *context.sockets]
    names = [name for name, _ in named]
    descriptors += [descriptor for _, descriptor in named]
    socket.send_fds(context.report, [" ".join(["listener", *names]).encode()], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    if context.report.recv(16) != b"go":
        raise OSError(3, "the supervisor is gone")
