"""The end of the host's sockets is never waited for for good."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_STUCK = """
import os, sys, zmq
from sentinel_kernel.kernel import outer
from sentinel_kernel.kernel.connection import Connection
ports = {name: number for number, name in enumerate(("shell", "control", "stdin", "iopub", "hb"), 1)}
made = outer.Outer(Connection("ipc", sys.argv[1] + "/k", ports, b"", ""))
kept = made.context.socket(zmq.DEALER)  # as one that libzmq holds for a client that is gone
made.close(100)
print("closed", flush=True)
os._exit(0)
"""


def test_sockets_that_do_not_end_hold_up_nobody(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STUCK, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("closed\n", 0), done.stderr
