"""The first steps of the host kernel: start the supervisor, and only then import what takes long."""

from __future__ import annotations

import gc
import os
import sys

from sentinel_kernel.kernel.spawning import start_early

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.supervisor_process import SupervisorProcess


def main(arguments: Sequence[str]) -> int:
    """Run the kernel until it is shut down; return the process's exit status."""
    early = start_early(arguments)
    gc.disable()  # nothing that is imported here is garbage
    # While its interpreter starts.
    from sentinel_kernel.errors import SentinelError  # noqa: PLC0415
    from sentinel_kernel.kernel.settings import read_settings  # noqa: PLC0415
    from sentinel_kernel.kernel.supervisor_process import start_supervisor  # noqa: PLC0415

    try:
        settings = read_settings(arguments, os.environ, os.getcwd())
    except SentinelError as error:
        if early is not None:
            early.drop()
        print(f"sentinel_kernel: {error}", file=sys.stderr)  # noqa: T201 - the one line a person who typed this sees
        return 2
    supervisor: SupervisorProcess | Exception
    try:
        supervisor = start_supervisor(settings, settings.profile, "start", early=early)
    except (OSError, SentinelError) as error:
        if early is not None:
            early.drop()
        supervisor = error  # the kernel starts all the same, and says so in every cell
    from sentinel_kernel.kernel.host import run_host  # noqa: PLC0415 - imports zmq while the sandbox starts

    gc.enable()
    try:
        return run_host(settings, supervisor)
    except SentinelError as error:
        print(f"sentinel_kernel: {error}", file=sys.stderr)  # noqa: T201
        return 2
