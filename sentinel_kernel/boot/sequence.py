"""The boot sequence: the ordered steps, the report of the one that failed, and the final exec."""

from __future__ import annotations

import json
import os

from sentinel_kernel.boot import confinement, mounting
from sentinel_kernel.linux import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.boot.context import BootContext

STEPS: tuple[Callable[[BootContext], None], ...] = (
    confinement.take_identity,
    confinement.root_control_groups,
    mounting.make_mounts_private,
    mounting.stage_root,
    mounting.make_skeleton,
    mounting.mount_tree,
    mounting.mount_devices,
    mounting.mount_proc,
    mounting.mount_shown,
    confinement.change_root,
    confinement.verify_root,
    confinement.forbid_namespaces,
    mounting.mask_proc,
    mounting.seal_root,
    confinement.name_host,
    confinement.open_loopback,
    confinement.open_sockets,
    confinement.start_session,
    confinement.apply_limits,
    confinement.lay_out_memory,
    confinement.give_up_privileges,
    confinement.die_with_supervisor,
    confinement.restrict_paths,
    confinement.receive_filter,
    confinement.load_filter,
    confinement.hand_over,
)
_EXEC_STEP = "execute"
_CONTROL = 3
_FIRST_OTHER = 4
_LAST = (1 << 31) - 1


def step_names() -> tuple[str, ...]:
    """Return the names of all steps, in order, the final exec included."""
    return (*(step.__name__ for step in STEPS), _EXEC_STEP)


def boot(context: BootContext, fault: tuple[str, int] | None = None) -> None:
    """Run every step and exec the payload; on failure report step, errno and message, and exit 1.

    Runs in the child of clone(2), never returns. ``fault`` makes the named step fail with an errno: that is how
    the tests prove that every step's failure is reported and leaves the host untouched.
    """
    name = ""
    os.umask(0o022)
    try:
        steps = STEPS
        if context.plan.lists is not None:
            from sentinel_kernel.boot.landlock_rung import STEPS as steps  # noqa: N811, PLC0415 - seldom

        for step in steps:
            name = step.__name__
            _fail_on_purpose(name, fault)
            step(context)
        name = _EXEC_STEP
        _fail_on_purpose(name, fault)
        _execute(context)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the supervisor must hear of it, and we must end
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        message = f"{type(error).__name__}: {error}"[:500]
        try:
            context.report.send(json.dumps({"step": name, "errno": number, "message": message}).encode())
        finally:
            os._exit(1)


def _fail_on_purpose(name: str, fault: tuple[str, int] | None) -> None:
    if fault is not None and fault[0] == name:
        raise OSError(fault[1], "injected fault")


def _execute(context: BootContext) -> None:
    """Arrange the four descriptors of the payload, close all others, and exec it."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    # First out of the way of 0 to 3, then into place: no dup2 may overwrite a descriptor that is still needed.
    moved = [os.dup(descriptor) for descriptor in (null, context.error_output, context.control)]
    report = context.report.fileno()
    if min(*moved, report) < _FIRST_OTHER:
        raise OSError(9, "the supervisor left a standard descriptor closed")
    for source, target in ((moved[0], 0), (moved[0], 1), (moved[1], 2), (moved[2], _CONTROL)):
        os.dup2(source, target, inheritable=True)
    # The report socket is close-on-exec: its end of file tells the supervisor that the exec went well.
    os.set_inheritable(report, False)
    process.close_descriptors(_FIRST_OTHER, report - 1) if report > _FIRST_OTHER else None
    process.close_descriptors(report + 1, _LAST)
    os.chdir("/")
    os.execve(context.plan.argv[0], context.plan.argv, dict(context.plan.environment))  # noqa: S606 - that is its job
