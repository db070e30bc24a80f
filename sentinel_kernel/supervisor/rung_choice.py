"""The isolation ladder: which failures of the full rung the landlock rung helps with, and the plan for that."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat

from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.abi.resource import RLIMIT_LOCKS
from sentinel_kernel.errors import BootError
from sentinel_kernel.linux import landlock
from sentinel_kernel.policy.planning import LIBRARY_DIRECTORY
from sentinel_kernel.policy.rung import LANDLOCK, LEAST_ABI, held_calls, rules_of
from sentinel_kernel.policy.stray_marks import MARK_BYTES, mark_of, warden_mark
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.certificates import leads_there
from sentinel_kernel.supervisor.filter import RungRules
from sentinel_kernel.supervisor.path_lists import close_folders, make_lists, open_folders
from sentinel_kernel.supervisor.private_folder import make_private_folders
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.sandbox import DIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.errors import SentinelError
    from sentinel_kernel.policy.plan import BootPlan, PathLists
    from sentinel_kernel.supervisor.backend import Backend
    from sentinel_kernel.supervisor.preparation import Preparation
    from sentinel_kernel.supervisor.private_folder import PrivateFolders
    from sentinel_kernel.supervisor.rung_sandbox import ListedSandbox

_REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP)
_STEPS: dict[str, tuple[int, ...]] = {
    "clone": (*_REFUSED, errno.ENOSPC, errno.EUSERS, errno.EINVAL),
    "map_identity": _REFUSED,
    "map_owner": (*_REFUSED, errno.EINVAL),
    "take_identity": _REFUSED,
    "root_control_groups": (*_REFUSED, errno.ENOSPC, errno.EINVAL),
    "make_mounts_private": _REFUSED,
    "stage_root": _REFUSED,
    "mount_tree": (*_REFUSED, errno.ENODEV),
    "mount_devices": _REFUSED,
    "mount_proc": _REFUSED,
    "change_root": _REFUSED,
    "forbid_namespaces": _REFUSED,
    "mask_proc": _REFUSED,
}
"""Step -> errno by which the Linux kernel, or who has set this machine up, says that there is no such thing here.

What fails for want of memory, room or time is no reason to do with less."""


AS_OLDER = "landlock_version"
"""The step that a fault is injected into to have less of Landlock than there is: its number is the version then."""


def is_for_lesser(error: SentinelError) -> bool:
    """Tell whether the full rung can't be had on this machine, as opposed to having failed this once."""
    return isinstance(error, BootError) and error.errno in _STEPS.get(error.step, ())


def landlock_version() -> int:
    """Return the version of Landlock; 0 where there is none."""
    try:
        return landlock.abi_version()
    except OSError:
        return 0


def start_lesser(
    preparation: Preparation,
    package_directory: str,
    why: BootError,
    make_filter: Callable[[Preparation], bytes],
    backend: Backend,
    fault: tuple[str, int] | None,
) -> tuple[Preparation, ListedSandbox]:
    """Start the sandbox on the landlock rung, where ``why``, which the full one failed by, is a reason to.

    Raises:
        BootError: ``why``, which holds what the landlock rung failed by.

    """
    if not is_for_lesser(why):
        raise why
    try:
        return _start(preparation, package_directory, why, make_filter, backend, fault)
    except BootError as error:
        if error.step == DIED:
            raise  # somebody killed it: that says nothing of the rung, and it is started again
        if error is not why:
            why.lesser = error
        raise why from None


def _start(
    preparation: Preparation,
    package_directory: str,
    why: BootError,
    make_filter: Callable[[Preparation], bytes],
    backend: Backend,
    fault: tuple[str, int] | None,
) -> tuple[Preparation, ListedSandbox]:
    from sentinel_kernel.supervisor.rung_calls import RungCalls  # noqa: PLC0415 - only where it is to be had
    from sentinel_kernel.supervisor.rung_sandbox import (  # noqa: PLC0415 - as above
        note_lesser,
        start_listed,
        take_note,
    )

    abi = landlock_version()
    if fault is not None and fault[0] == AS_OLDER:
        abi = min(abi, fault[1])
    made, lists, folders = _lesser_preparation(preparation, package_directory, why, abi)
    who = None
    opened: dict[str, int] = {}
    try:
        if made.plan.started_by_root:
            identity = made.plan.identity
            who = identity.host_uid, identity.host_gid
            # Root of a container may not look into others' processes (CAP_SYS_PTRACE), but into those of its own real
            # id. Signals of the sandbox's don't come here: Landlock keeps them in.
            os.setresgid(identity.host_gid, -1, -1)
            os.setresuid(identity.host_uid, -1, -1)
        opened = open_folders(lists)
        note_lesser()
        sandbox = start_listed(made.plan, lambda: make_filter(made), folders, backend, fault)
        with contextlib.suppress(OSError):  # it runs; the note is for what it would leave if it were killed
            take_note()  # who looked for others while there was no process yet may have removed it
    except BaseException:
        close_folders(opened)
        folders.undo()
        raise
    numbers = architecture_of(os.uname().machine).syscalls
    sandbox.calls = RungCalls(sandbox.listener, lists, opened, numbers, sandbox.pid, who)
    return made, sandbox


def _lesser_preparation(
    preparation: Preparation, package_directory: str, why: BootError, abi: int
) -> tuple[Preparation, PathLists, PrivateFolders]:
    """Return ``preparation`` made over for the landlock rung, its lists, and the folders that were made for it.

    ``why`` is what the full rung failed by, ``abi`` Landlock's version.

    Raises:
        BootError: ``why`` where the profile asks for the full rung, or Landlock can't do it here; else that a folder
            can't be made or reached.

    """
    if preparation.profile.minimum_isolation != LANDLOCK or abi < LEAST_ABI:
        raise why
    plan = preparation.plan
    _check_reach(plan)
    writes = preparation.profile.filesystem.allow_write_overlay
    words = describe(why)
    folders = make_private_folders(plan.identity, plan.workspace, package_directory, writes=writes)
    try:
        lists = replace(
            make_lists(plan, package_directory, folders, abi),
            mark=_make_mark(),
            cause_en=words["cause_en"],
            cause_zh=words["cause_zh"],
            remedy_en=words["remedy_en"],
            remedy_zh=words["remedy_zh"],
        )
    except BaseException:
        folders.undo()
        raise
    same_user = not plan.started_by_root
    plan = replace(
        plan,
        lists=lists,
        home=folders.home,
        workspace_upper="",
        asked=(),
        fenced=False,
        sockets=(),
        argv=tuple(argument.replace(LIBRARY_DIRECTORY, folders.library) for argument in plan.argv),
        environment=_environment(plan, folders),
    )
    held = held_calls(same_user=same_user, split=bool(lists.split), abi=abi)
    of_rung = RungRules(rules_of(same_user=same_user), held)
    return replace(preparation, plan=plan, of_rung=of_rung), lists, folders


def _environment(plan: BootPlan, folders: PrivateFolders) -> dict[str, str]:
    """Return the variables of cells: none that leads to what only a root of the sandbox's own would have."""
    return {
        **{name: value for name, value in plan.environment.items() if not leads_there(value)},
        "HOME": folders.home,
        "TMPDIR": folders.tmp,
        "SENTINEL_RUNG": LANDLOCK,
        **({"SENTINEL_OUTPUT": folders.output} if folders.output else {}),
    }


def _make_mark() -> int:
    """Return a mark for the sandbox's processes; 0 where whoever started us may not set it, as it would be higher."""
    mark = mark_of(os.urandom(MARK_BYTES))
    most = resource.getrlimit(RLIMIT_LOCKS)[1]
    return mark if most == resource.RLIM_INFINITY or warden_mark(mark) <= most else 0


def _check_reach(plan: BootPlan) -> None:
    """Raise BootError where the id that a sandbox of root's runs as can't come to the notebook or to Python."""
    if not plan.started_by_root:
        return
    for path in (plan.workspace, os.path.realpath(plan.argv[0])):
        part = path
        while part != "/":
            status = os.stat(part)
            wanted = 0o5 if part == path else 0o1
            if status.st_mode & wanted != wanted:
                raise BootError(
                    "reach_workspace",
                    errno.EACCES,
                    f"On the landlock rung a sandbox of root's runs as an ordinary id, to which {part} is closed "
                    f"(mode {stat.S_IMODE(status.st_mode):o}).",
                    "Start JupyterLab as an ordinary user, or keep Python and notebooks where every user may read.",
                )
            part = os.path.dirname(part)
