"""Runs the mechanisms in a cell of a kernel that it starts, as a server does, and prints what became of each.

WORKSPACE RUNTIME KEY PROFILE: the folder of the notebook, one for the connection file, the key of its messages.
"""

import json
import os
import sys
import time

from jupyter_client.manager import KernelManager

_SECONDS = 240
_CELL = """
import subprocess, sys
subprocess.run([sys.executable, "mechanisms/run.py", "result.json", "targets.json", "inside"], check=True)
print(open("result.json").read())
"""


def main():
    """Start, run one cell, print its output, end."""
    workspace, runtime, key, profile = sys.argv[1:5]
    manager = KernelManager()
    manager._kernel_spec = None
    manager.kernel_name = ""
    manager.connection_file = os.path.join(runtime, "kernel-escape.json")
    manager.session.key = key.encode()
    spec = manager.kernel_spec_manager.kernel_spec_class(
        argv=[sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"],
        display_name="Sentinel",
        language="python",
    )
    manager._kernel_spec = spec
    manager.start_kernel(cwd=workspace, env={**os.environ, "SENTINEL_PROFILE": profile})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_SECONDS)
        printed = []
        asked = client.execute(_CELL)
        end = time.monotonic() + _SECONDS
        while True:
            message = client.get_iopub_msg(timeout=max(1, end - time.monotonic()))
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                if content["name"] == "stdout":
                    printed.append(content["text"])
                else:
                    print(content["text"], file=sys.stderr)
            elif message["msg_type"] == "error":
                printed = [json.dumps({"error": content["evalue"]})]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        print("".join(printed))
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
        manager.cleanup_resources()


main()
