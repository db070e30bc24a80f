"""Children that have ended and nobody waited for are taken note of, each by who has started it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import multiprocessing, os, signal, subprocess, sys
from sentinel_kernel.worker.reaping import _ended, reap_children

known = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
worker = multiprocessing.get_context("fork").Process(target=os._exit, args=(4,))
worker.start()
nobodys = os.fork()
if nobodys == 0:
    os._exit(5)
running = os.fork()
if running == 0:
    signal.pause()
for child in (known.pid, worker.pid, nobodys):
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
assert set(_ended()) == {known.pid, worker.pid, nobodys}
reap_children()
assert (known.returncode, worker.exitcode, list(_ended())) == (3, 4, [])
assert os.waitpid(running, os.WNOHANG) == (0, 0)
os.kill(running, 9)
os.waitpid(running, 0)
print("well")
"""


def test_each_child_that_has_ended_is_reaped_by_its_owner() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "well\n", done.stderr
