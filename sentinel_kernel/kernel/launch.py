"""The first steps of the host kernel: start the supervisor, and only then import what takes long."""

from __future__ import annotations

import os
import sys

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.supervisor_process import start_supervisor

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.supervisor_process import SupervisorProcess


def main(arguments: Sequence[str]) -> int:
    """Run the kernel until it is shut down; return the process's exit status."""
    try:
        settings = read_settings(arguments, os.environ, os.getcwd())
    except SentinelError as error:
        print(f"sentinel_kernel: {error}", file=sys.stderr)  # noqa: T201 - the one line a person who typed this sees
        return 2
    supervisor: SupervisorProcess | Exception
    try:
        supervisor = start_supervisor(settings, settings.profile, "start")
    except (OSError, SentinelError) as error:
        supervisor = error  # the kernel starts all the same, and says so in every cell
    from sentinel_kernel.kernel.host import run_host  # noqa: PLC0415 - imports zmq while the sandbox starts

    try:
        return run_host(settings, supervisor)
    except SentinelError as error:
        print(f"sentinel_kernel: {error}", file=sys.stderr)  # noqa: T201
        return 2
