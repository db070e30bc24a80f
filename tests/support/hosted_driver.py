"""Runs the host with a control socket that it was given: the test is the supervisor."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from sentinel_kernel.kernel import ends
from sentinel_kernel.kernel.host import run_host
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.supervisor_process import SupervisorProcess

if __name__ == "__main__":
    control = socket.socket(fileno=int(sys.argv[1]))
    control.setblocking(False)
    # Stands for the supervisor's process, which the host kills where it does not answer; it ends with this one.
    stand_in = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    if "TEST_UNHEARD_SECONDS" in os.environ:
        ends.UNHEARD_SECONDS = float(os.environ["TEST_UNHEARD_SECONDS"])
    settings = read_settings(sys.argv[2:], os.environ, os.getcwd())
    try:
        status = run_host(settings, SupervisorProcess(stand_in.pid, control, 1))
    finally:
        stand_in.kill()
    sys.exit(status)
