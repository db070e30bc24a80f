"""What is watched for events on the landlock rung: counted of a user's sandbox, of root's, and of what is closed."""

from __future__ import annotations

import os

import pytest
from kernel_memory import Settled
from lesser_machine import prefix
from readable_place import readable_place
from supervised import Supervised, own_folder
from waiting import wait_until

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("landlock", "landlock_rung")]

_WATCHING = """
import ctypes, os, select, signal, sys

child = os.fork()
if child == 0:
    if CLOSED:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    files, sets = [os.eventfd(0) for _ in range(1000)], []
    for _ in range(900):
        sets.append(select.epoll())
        for file in files:
            sets[-1].register(file, select.EPOLLIN)
    signal.pause()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL)
"""


@pytest.mark.usefixtures("kernel_memory_alone")
@pytest.mark.parametrize("who", ["user", "root"] if os.geteuid() == 0 else ["user"])
@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_a_process_that_has_too_many_files_watched_is_ended_on_the_landlock_rung(
    who: str, closed: bool
) -> None:
    wait_until(Settled(), "what ended processes had is given back", 60)
    with readable_place(root=who == "root") as (someone, place):
        workspace = own_folder(someone, place / "work")
        workspace.chmod(0o755)
        machine = prefix(someone.python, "docker" if who == "root" else "no_namespaces")
        with Supervised(
            someone, place / "state", command_prefix=machine, environment={"HOME": str(workspace)}
        ) as supervised:
            attack = _WATCHING.replace("CLOSED", str(closed))
            supervised.start(workspace, "strict", payload=[supervised.python, "-c", attack])
            assert supervised.wait("ready")["rung"] == "landlock"
            assert supervised.wait("worker_died", 120)["cause"]["status"] == 0
            limits = [event["limit"] for event in supervised.events if event["event"] == "limit"]
    assert [(limit["name"], limit["stage"]) for limit in limits] == [("watches", "kill")]
