"""Runs its arguments as cells of one kernel, in the folder it is started in, and prints what came of each as JSON."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

RECORD = "application/vnd.sentinel.violation+json"
SECONDS = 120


def take(said: dict[str, Any], message: dict[str, Any]) -> None:
    content = message["content"]
    if message["msg_type"] == "stream":
        said["text"] += content["text"]
    elif message["msg_type"] == "error":
        said["error"] = {name: content[name] for name in ("ename", "evalue")}
    elif RECORD in content.get("data", {}):
        said["violations"].append(content["data"][RECORD])


def main() -> None:
    folder = Path(os.environ["HOME"]) / "specs" / "sentinel"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Sentinel", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    specs = KernelSpecManager(kernel_dirs=[str(folder.parent)], ensure_native_kernel=False)
    manager = KernelManager(kernel_name="sentinel", kernel_spec_manager=specs, transport="ipc")
    manager.connection_file = os.path.join(os.environ["HOME"], "k.json")
    manager.start_kernel()
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS)
        found = []
        for cell in sys.argv[1:]:
            said: dict[str, Any] = {"text": "", "error": None, "violations": []}

            client.execute_interactive(
                cell, output_hook=functools.partial(take, said), timeout=SECONDS, allow_stdin=False
            )
            found.append(said)
        print(json.dumps(found))
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


if __name__ == "__main__":
    main()
