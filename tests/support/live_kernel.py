"""A notebook on the real kernel, or on plain ipykernel beside it: starts it from a kernelspec and runs cells."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ensure_event_loop()  # jupyter_client keeps one for the whole process: no leftover of a test

SPEC = Path(__file__).resolve().parents[2] / "kernelspec" / "kernel.json"
SECONDS = 60.0


class Result:
    """What a cell gave: its reply and its outputs, with statuses as their state."""

    def __init__(self, reply: dict[str, Any], outputs: list[tuple[str, dict[str, Any]]]) -> None:
        self.reply = reply
        self.outputs = outputs

    @property
    def kinds(self) -> list[str]:
        """Return the types of the outputs, without busy, execute_input and idle."""
        return [kind for kind, _ in self.outputs]

    @property
    def text(self) -> str:
        """Return what was printed."""
        return "".join(content["text"] for kind, content in self.outputs if kind == "stream")

    def bundles(self, mime_type: str) -> list[Any]:
        """Return every display of a MIME type."""
        displays = [
            content["data"] for kind, content in self.outputs if kind in ("display_data", "execute_result")
        ]
        return [data[mime_type] for data in displays if mime_type in data]


class Notebook:
    """A client of one running kernel."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the client's sockets: what a failed test leaves fails the next one."""
        self.client.stop_channels()
        self.client.context.destroy(linger=0)

    def send(self, code: str, **options: Any) -> str:
        """Ask for a cell and do not wait for it."""
        return self.client.execute(code, **options)

    def collect(self, *msg_ids: str) -> list[Result]:
        """Return the results of cells that were sent, in this order."""
        replies: dict[str, Any] = {}
        while not replies.keys() >= set(msg_ids):
            message = self.client.get_shell_msg(timeout=SECONDS)
            replies[message["parent_header"]["msg_id"]] = message["content"]
        outputs: dict[str, Any] = {msg_id: [] for msg_id in msg_ids}
        waiting = set(msg_ids)
        while waiting:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            parent = message["parent_header"].get("msg_id")
            if parent not in outputs:
                continue
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    waiting.discard(parent)
            elif message["msg_type"] != "execute_input":
                outputs[parent].append((message["msg_type"], message["content"]))
        return [Result(replies[msg_id], outputs[msg_id]) for msg_id in msg_ids]

    def run(self, code: str, **options: Any) -> Result:
        """Run one cell to its end."""
        return self.collect(self.send(code, **options))[0]

    @property
    def host_pid(self) -> int:
        """Return the process id of the host."""
        return int(self.manager.provisioner.pid)

    def host_bytes(self) -> int:
        """Return how much memory the host has in use."""
        return int(Path(f"/proc/{self.host_pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


PLAIN = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3 (plain)",
    "language": "python",
    "metadata": {"debugger": True, "supported_encryption": ["curve"]},
}
"""ipykernel as it is: what a test of the protocol compares with."""


def kernelspecs(folder: Path) -> KernelSpecManager:
    """Return a manager that knows ``sentinel``, as it is shipped, and ``python3``, which is plain ipykernel."""
    ours = json.loads(SPEC.read_text())
    ours["argv"][0] = sys.executable
    for name, spec in (("sentinel", ours), ("python3", PLAIN)):
        place = folder / "kernels" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "kernel.json").write_text(json.dumps(spec))
    return KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)


@contextlib.contextmanager
def notebook(
    folder: Path,
    kernel: str = "sentinel",
    extra_arguments: Sequence[str] = (),
    transport: str = "ipc",
    **environment: str,
) -> Iterator[Notebook]:
    """Start a kernel whose notebook lies in ``folder``/work, with these arguments added and variables set.

    Its sockets have names, not ports: a port that is found free may be taken by any other program before it is bound.
    """
    work = folder / "work"
    work.mkdir(exist_ok=True)
    manager = KernelManager(kernel_name=kernel, kernel_spec_manager=kernelspecs(folder), transport=transport)
    manager.connection_file = str(folder / "kernel.json")
    # A restart opens it again: the log stays open until the end.
    with (folder / "kernel.log").open("wb") as log:
        manager.start_kernel(
            cwd=str(work),
            env={**os.environ, "SENTINEL_LANG": "en", **environment},
            extra_arguments=list(extra_arguments),
            stderr=log,
            stdout=log,
        )
        try:
            book = Notebook(manager)
            try:
                yield book
            finally:
                book.close()
        finally:
            if manager.is_alive():
                manager.shutdown_kernel()
            manager.cleanup_resources()
