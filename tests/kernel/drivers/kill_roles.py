"""Kills host, supervisor, init and worker of live kernels at varied moments and says what the frontend got.

Run as whoever owns the kernels: KERNELSPEC_FOLDER KILLS ROLE... prints one JSON line a kill.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import tempfile
import threading
import time

os.environ["JUPYTER_PATH"] = sys.argv[1]

from jupyter_client.manager import KernelManager
from kernel_roles import roles

ANSWER_SECONDS = 60
MOMENTS = (None, 0.0, 0.002, 0.01, 0.05, 0.15, 0.3)
"""Seconds from the cell's request to the kill; None: in the middle of the start."""


def wait_for(condition, what, seconds=ANSWER_SECONDS):
    """Return the first true value of ``condition``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(StopIteration):
            if value := condition():
                return value
        threading.Event().wait(0.005)
    raise SystemExit(f"not within {seconds} s: {what}")


def kill_in_the_start(role, host):
    """Kill the first process with this role that there is; returns role -> pid of what there was by then."""
    while True:
        victims = wait_for(lambda: role in (now := roles(host)) and now, f"a {role}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(victims[role], signal.SIGKILL)
            return victims


def gone(pids):
    """Tell whether none of the processes exists any more (a zombie of somebody else's counts as gone)."""
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] not in "ZX":
                return False
    return True


def execute(client, code):
    """Run a cell and return (reply status or name of the error, whether its idle came)."""
    message_id = client.execute(code, store_history=False)
    end = time.monotonic() + ANSWER_SECONDS
    status = None
    while time.monotonic() < end and status is None:
        with contextlib.suppress(queue.Empty):
            message = client.get_shell_msg(timeout=1)
            if message["parent_header"].get("msg_id") == message_id:
                content = message["content"]
                status = content["ename"] if content["status"] == "error" else content["status"]
                if status == "SandboxUnavailable":
                    print(content["evalue"], file=sys.stderr)
    while time.monotonic() < end:
        with contextlib.suppress(queue.Empty):
            message = client.get_iopub_msg(timeout=1)
            if (
                message["parent_header"].get("msg_id") == message_id
                and message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
            ):
                return status, True
    return status, False


def kill_one(role, moment, folder):
    """Start a kernel, kill one of its processes, and return what came of it."""
    manager = KernelManager(kernel_name="sentinel", transport="ipc", ip=os.path.join(folder, "k"))
    manager.start_kernel(cwd=folder, stderr=open(os.devnull, "w"))
    host = manager.provisioner.process.pid
    client = manager.blocking_client()
    client.start_channels()
    seen = set()
    result = {"role": role, "moment": moment}
    try:
        if moment is None:
            seen |= set(kill_in_the_start(role, host).values())
            outcome = None
        else:
            client.wait_for_ready(timeout=ANSWER_SECONDS)
            victims = roles(host)
            seen |= set(victims.values())
            outcome = []
            runner = threading.Thread(
                target=lambda: outcome.append(execute(client, "import time; time.sleep(0.1); print(1)")),
                daemon=True,
            )
            if role != "host":
                runner.start()
            threading.Event().wait(moment)
            os.kill(victims[role], signal.SIGKILL)
            if role != "host":
                runner.join(ANSWER_SECONDS)
                result["cell"] = outcome[0] if outcome else "hang"
        if role == "host":
            wait_for(lambda: not manager.is_alive(), "the host's death is seen")
        else:
            if moment is None:
                client.wait_for_ready(timeout=ANSWER_SECONDS)
            result["next"] = execute(client, "1 + 1")
            if result["next"][0] == "SandboxDied":  # nothing ran when it died: the next cell says so
                result["after"] = execute(client, "1 + 1")
            seen |= set(roles(host).values())
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=role == "host")
        manager.cleanup_resources()
    wait_for(lambda: gone(seen), f"every process of the kernel is gone ({sorted(seen)})")
    result["gone"] = True
    return result


def main():
    """Kill."""
    kills, wanted = int(sys.argv[2]), sys.argv[3:]
    for role in wanted:
        for number in range(kills):
            with tempfile.TemporaryDirectory() as folder:
                print(json.dumps(kill_one(role, MOMENTS[number % len(MOMENTS)], folder)), flush=True)


main()
