"""Runs its arguments as cells of one kernel, in the folder it is started in, and prints what came of each as JSON."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any, Self

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


class Kernel:
    """One kernel, as long as the context lasts."""

    def __enter__(self) -> Self:
        folder = Path(os.environ["HOME"]) / "specs" / "sentinel"
        folder.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": "Sentinel", "language": "python"}
        (folder / "kernel.json").write_text(json.dumps(spec))
        specs = KernelSpecManager(kernel_dirs=[str(folder.parent)], ensure_native_kernel=False)
        self.manager = KernelManager(kernel_name="sentinel", kernel_spec_manager=specs, transport="ipc")
        self.manager.connection_file = os.path.join(os.environ["HOME"], "k.json")
        self.manager.start_kernel()
        self.client = self.manager.client()
        try:
            self.client.start_channels()
            self.client.wait_for_ready(timeout=SECONDS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    @property
    def host(self) -> int:
        """Return the process id of the host."""
        return int(self.manager.provisioner.pid)

    def run(self, cell: str) -> dict[str, Any]:
        """Return what came of a cell."""
        said: dict[str, Any] = {"text": "", "error": None, "violations": []}
        self.client.execute_interactive(
            cell, output_hook=functools.partial(take, said), timeout=SECONDS, allow_stdin=False
        )
        return said


def main() -> None:
    with Kernel() as kernel:
        print(json.dumps([kernel.run(cell) for cell in sys.argv[1:]]))


if __name__ == "__main__":
    main()
