"""Init imports once, forks workers from that interpreter, reaps every orphan, and can't be led astray from inside."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until
from warm_init import STACK_SIGNAL, WarmInit

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.requires("user_namespaces")

STATES = """
import glob
def states():
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            name, _, rest = open(path).read().rpartition(")")
        except OSError:
            continue
        found[int(name.split(" ")[0])] = rest.split()[0]
    return found
"""


def test_a_worker_says_hello_and_its_end_is_told(init: WarmInit) -> None:
    worker = init.start_worker()
    assert worker.run("import os; print(os.getppid())") == "1"
    pid = int(worker.run("print(os.getpid())"))
    worker.begin("os._exit(7)")
    event = init.event("exit")
    assert event == {"event": "exit", "pid": pid, "status": 7 << 8, "worker": True}


def test_a_killed_worker_is_told_with_its_signal(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.begin("import os; os.kill(os.getpid(), 9)")
    assert os.WTERMSIG(init.event("exit")["status"]) == signal.SIGKILL


def test_a_worker_that_is_shut_down_runs_exit_handlers(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.run("import atexit; atexit.register(lambda: open('done', 'w').close())")
    worker.send("shutdown_request", {"restart": False}, "control")
    assert init.event("exit")["status"] == 0
    assert (init.workspace / "done").exists()
    assert init.errors() == ""


def test_kill_all_leaves_only_init_and_another_worker_follows(init: WarmInit) -> None:
    first = init.start_worker()
    first.run(
        "import subprocess\n"
        "for _ in range(5): subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "subprocess.Popen(['sh', '-c', 'trap : TERM INT HUP; while :; do sleep 1; done'])"
    )
    init.kill_all()
    assert os.WTERMSIG(init.event("exit")["status"]) == signal.SIGKILL
    init.event("killed_all")
    second = init.start_worker("--SentinelKernel.first_execution_count=12")
    reply, _ = second.execute(STATES + "print(sorted(states()), __import__('os').getpid())")
    assert reply["execution_count"] == 12
    alive, _, pid = second.run("print(sorted(states()), __import__('os').getpid())").rpartition(" ")
    assert alive == f"[1, {pid}]"
    assert second.run("print('first' in globals())") == "False"


def test_orphans_are_reaped(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.run(
        "import os\n"
        "for _ in range(200):\n"
        "    if (child := os.fork()) == 0:\n"
        "        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)"
    )
    worker.run(STATES)
    wait_until(lambda: worker.run("print('Z' in states().values())") == "False", "no zombie is left")


def test_signals_from_inside_do_not_reach_init(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.run(
        "import os, signal\n"
        "for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    for _ in range(3): os.kill(1, number)\n"
        "os.kill(1, signal.SIGKILL); os.kill(1, signal.SIGSTOP)"
    )
    assert worker.run("print(2 + 2)") == "4"
    init.kill_all()
    init.event("exit")
    init.event("killed_all")


def test_init_is_closed_to_the_worker_and_the_worker_open_to_its_children(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.run("import os, subprocess")
    look = "import os; os.readlink('/proc/{}/exe'); open('/proc/{}/mem', 'rb').close(); print('open')"
    assert "PermissionError" in worker.execute(look.format(1, 1))[1][-2]["content"]["ename"]
    assert worker.run(look.format("self", "self")) == "open"
    child = "subprocess.run(['python3', '-c', 'import os; print(len(os.listdir(f\"/proc/{os.getppid()}/fd\")) > 3)'])"
    assert worker.run(f"{child}.returncode") in ("True", "")


def test_nothing_of_the_control_socket_is_left_in_a_worker(init: WarmInit) -> None:
    worker = init.start_worker()
    found = worker.run(
        "import os\n"
        "kinds = {line.split()[6]: line.split()[4] for line in open('/proc/net/unix').readlines()[1:]}\n"
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try: target = os.readlink(f'/proc/self/fd/{name}')\n"
        "    except FileNotFoundError: continue\n"
        "    if target.startswith('socket:'): print(kinds.get(target[8:-1], 'NOT UNIX'))"
    ).split()
    assert found
    assert set(found) == {"0001"}  # SOCK_STREAM of AF_UNIX, each one


def test_a_worker_that_can_not_start_says_why(init: WarmInit) -> None:
    init.ask_for_worker(cwd="/no/such/folder")
    init.event("hello")
    assert init.event("exit")["status"] == 1 << 8
    assert "FileNotFoundError" in init.errors()
    assert "/no/such/folder" in init.errors()


def test_init_ends_with_its_supervisor_and_takes_the_worker_along(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.begin("import time; time.sleep(1000)")
    assert init.hang_up() == 0  # `unshare --fork` hands pid 1's status on; nobody survives pid 1
    assert init.errors() == ""


def test_preloaded_modules_are_there_before_the_fork(init: WarmInit) -> None:
    worker = init.start_worker(preload=("colorsys", "xml.dom.minidom"))
    assert worker.run("import sys; print('colorsys' in sys.modules, 'xml.dom.minidom' in sys.modules)") == (
        "True True"
    )


def test_a_preloaded_module_that_starts_a_thread_is_refused(tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    init = WarmInit(PYTHONPATH=str(tmp_path))
    try:
        init.event("warm")
        init.ask_for_worker(preload=("threaded",))
        with pytest.raises(EOFError, match="threaded started a thread"):
            init.event("hello")
        assert init.wait_end() == 1
    finally:
        init.close()


def test_the_reserved_signal_writes_the_stack_to_the_pipe(init: WarmInit) -> None:
    worker = init.start_worker()
    worker.run(f"import os\ndef refused():\n    os.kill(os.getpid(), {STACK_SIGNAL})\nrefused()")
    stack = os.read(init.stacks, 65536).decode()
    assert stack.startswith("Stack (most recent call first):")
    assert "line 3 in refused" in stack


def test_every_worker_has_randomness_of_its_own(init: WarmInit) -> None:
    draw = "import random, uuid; print(random.random(), uuid.uuid4(), get_ipython().kernel.session.session)"
    first = init.start_worker(preload=("random",)).run(draw).split()
    init.kill_all()
    init.event("exit")
    init.event("killed_all")
    second = init.start_worker().run(draw).split()
    assert all(one != other for one, other in zip(first, second, strict=True))
