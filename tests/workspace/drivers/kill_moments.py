"""Kills one process of a kernel while a cell writes, a commit or a shutdown is under way; says what became of files.

Run as whoever owns the kernels: KERNELSPEC_FOLDER ROLE PHASE MOMENTS SEED prints one JSON line a moment.
"""

import contextlib
import json
import os
import queue
import random
import select
import signal
import sys
import tempfile
import threading
import time

os.environ["JUPYTER_PATH"] = sys.argv[1]

from jupyter_client.manager import KernelManager
from kernel_roles import roles

SECONDS = 120
FILES = 24
SIZE = 40_000
LONGEST = {"cell": 0.12, "commit": 0.12, "shutdown": 0.25}
"""Seconds from the request to the last moment of a kill: beyond that it is over, as a rule."""

MOST_MISSED = 6


def is_alive(pid):
    """Tell whether a process exists and is no zombie."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] not in "ZX"
    return False


def wait_for(condition, what):
    """Wait until ``condition`` holds."""
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"not within {SECONDS} s: {what}")
        threading.Event().wait(0.01)


class Kernel:
    """One kernel on a folder of its own, killed once."""

    def __init__(self, folder):
        self.work = os.path.join(folder, "work")
        self.data = os.path.join(folder, "data")
        os.makedirs(self.work, exist_ok=True)
        self.log = open(os.path.join(folder, "log"), "wb")
        self.manager = KernelManager(kernel_name="sentinel", transport="ipc")
        self.manager.connection_file = os.path.join(folder, "kernel.json")
        variables = {
            "SENTINEL_PROFILE": "datascience",
            "SENTINEL_SPARE": "off",
            "SENTINEL_LANG": "en",
            "XDG_DATA_HOME": self.data,
            "XDG_STATE_HOME": os.path.join(folder, "state"),
        }
        self.manager.start_kernel(
            cwd=self.work, env={**os.environ, **variables}, stderr=self.log, stdout=self.log
        )
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)
        self.seen = {}
        self.printed = ""
        self.answered = threading.Event()
        """A question was answered: what was asked for begins."""

    @property
    def host(self):
        """Return the host's pid."""
        return self.manager.provisioner.pid

    def listen(self, message_id):
        """Take what comes of a cell until it is over or the host is gone, answering questions with yes."""
        end = time.monotonic() + SECONDS
        replied = idle = False
        while time.monotonic() < end and not (replied and idle):
            if not is_alive(self.host):
                return False
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.02)
                if message["parent_header"].get("msg_id") == message_id:
                    if message["msg_type"] == "stream":
                        self.printed += message["content"]["text"]
                    elif message["msg_type"] == "status":
                        idle = message["content"]["execution_state"] == "idle"
            with contextlib.suppress(queue.Empty):
                self.client.get_stdin_msg(timeout=0.001)
                self.client.input("y")
                self.answered.set()
            with contextlib.suppress(queue.Empty):
                reply = self.client.get_shell_msg(timeout=0.001)
                replied |= reply["parent_header"].get("msg_id") == message_id
        return True

    def run(self, code, **options):
        """Run a cell to its end."""
        return self.listen(self.client.execute(code, **options))

    def end(self):
        """End what is left of it, and wait until whoever saves is done."""
        self.client.stop_channels()
        with contextlib.suppress(Exception):
            self.manager.shutdown_kernel(now=not is_alive(self.host))
        wait_for(lambda: not any(is_alive(pid) for pid in self.seen.values()), f"the end of {self.seen}")
        self.log.close()

    def wait_for_host(self):
        """Wait until the host is gone."""
        wait_for(lambda: not is_alive(self.host), "the host's end")

    def look(self):
        """Note which processes there are."""
        self.seen.update({f"{role} {pid}": pid for role, pid in roles(self.host).items()})


def content(kind, number):
    """Return what a file holds: old, or new."""
    return f"{kind} {number} ".encode().ljust(SIZE, b".")


WRITES = f"""
import os
for number in range({FILES}):
    for name in (f'new-{{number}}.csv', f'old-{{number}}.csv'):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(file, f'new {{number}} '.encode().ljust({SIZE}, b'.'))
        os.close(file)
        print(name, flush=True)
"""


def kill(kernel, role, phase, seconds):
    """Kill the process of ``role`` after some seconds, or as soon as there is one; tell whether it ended by that."""
    if phase == "commit":
        kernel.answered.wait(SECONDS)
    threading.Event().wait(seconds)
    end = time.monotonic() + 1.0
    while time.monotonic() < end and is_alive(kernel.host):
        pid = roles(kernel.host).get(role)
        if pid is not None and end_by_kill(pid):
            kernel.seen[f"{role} {pid}"] = pid
            return True
        threading.Event().wait(0.001)
    return False


def end_by_kill(pid):
    """Kill a process; tell whether it was alive until then and ended."""
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if select.select([held], [], [], 0)[0]:
            return False  # it had ended, and waits for its parent
        signal.pidfd_send_signal(held, signal.SIGKILL)
        return bool(select.select([held], [], [], SECONDS)[0])
    except ProcessLookupError:
        return False
    finally:
        os.close(held)


def found_in_store(data):
    """Return name -> contents of the saved files of that name."""
    found = {}
    for folder, _, names in os.walk(data):
        for name in names:
            if name.endswith(".csv"):
                with open(os.path.join(folder, name), "rb") as file:
                    found.setdefault(name, []).append(file.read())
    return found


def judge(kernel, written, phase):
    """Return what is wrong, and where the new contents are."""
    faults, where = [], {"folder": 0, "store": 0, "unwritten": 0}
    store = found_in_store(kernel.data)
    for number in range(FILES):
        for name in (f"new-{number}.csv", f"old-{number}.csv"):
            path = os.path.join(kernel.work, name)
            there = open(path, "rb").read() if os.path.exists(path) else None
            old = content("old", number) if name.startswith("old") else None
            new = content("new", number)
            # Killed behind its open, or within its write(2), which SIGKILL ends at any page: all that the cell wrote.
            begun = there is not None and name not in written and new.startswith(there)
            if there not in (old, new) and not begun:
                faults.append(f"{name} in the folder is neither old nor new: {there and len(there)} bytes")
            if there == new:
                where["folder"] += 1
            elif new in store.get(name, ()):
                where["store"] += 1
            elif name in written or phase != "cell":  # with the cell's end all of them are written
                faults.append(f"{name} is lost")
            else:
                where["unwritten"] += 1
    left = [name for name in os.listdir(kernel.work) if not name.endswith(".csv")]
    return faults, where, left


def trial(role, phase, seconds):
    """Do one trial; return its line."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "work"))
        for number in range(FILES):
            with open(os.path.join(folder, "work", f"old-{number}.csv"), "wb") as file:
                file.write(content("old", number))
        kernel = Kernel(folder)
        kernel.run("1")
        kernel.look()
        if phase != "cell":
            kernel.run(WRITES)
            kernel.look()
        killed = []
        killer = threading.Thread(target=lambda: killed.append(kill(kernel, role, phase, seconds)))
        if phase == "cell":
            message_id = kernel.client.execute(WRITES)
        elif phase == "commit":
            message_id = kernel.client.execute("%sentinel_commit", allow_stdin=True)
        else:
            kernel.client.shutdown()
        killer.start()
        if phase != "shutdown":
            alive = kernel.listen(message_id)
            killer.join()
            if alive and is_alive(kernel.host):
                kernel.run("1")
                kernel.look()
        else:
            killer.join()
            kernel.wait_for_host()
        kernel.end()
        faults, where, left = judge(kernel, set(kernel.printed.split()), phase)
        log = open(os.path.join(folder, "log"), errors="replace").read() if faults else ""
    return {
        "role": role,
        "phase": phase,
        "seconds": round(seconds, 4),
        "killed": killed == [True],
        "faults": faults[:5],
        "left": left[:5],
        "log": log[-2000:],
        **where,
    }


def main():
    """Do the trials; one in which nothing was killed, as that had ended already, is done again at an earlier moment."""
    role, phase, moments, seed = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    chance = random.Random(f"{seed} {role} {phase}")
    for _ in range(moments):
        seconds, missed = chance.uniform(0, LONGEST[phase]), 0
        while True:
            line = trial(role, phase, seconds)
            if line["killed"] or line["faults"] or missed == MOST_MISSED:
                break
            missed += 1
            seconds /= 2
        print(json.dumps({**line, "missed": missed}), flush=True)


if __name__ == "__main__":
    main()
