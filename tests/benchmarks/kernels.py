"""A live kernel to measure: started from its kernelspec, driven by plain jupyter_client."""

from __future__ import annotations

import queue
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import zmq
from jupyter_client.manager import KernelManager

if TYPE_CHECKING:
    from pathlib import Path

_REPLY_SECONDS = 120


class LiveKernel:
    """One kernel and one client; times are seconds."""

    def __init__(self, name: str, folder: Path, profile: str = "strict") -> None:
        """Start the kernelspec ``name`` in ``folder`` and note how long the first kernel_info reply took."""
        import os

        self.name = name
        self.manager = KernelManager(kernel_name=name)
        started = time.perf_counter()
        self.manager.start_kernel(
            cwd=str(folder), env={**os.environ, "SENTINEL_PROFILE": profile}, stderr=subprocess.DEVNULL
        )
        self.client = self.manager.blocking_client()
        # 100 ms, libzmq's default, would be most of what is measured.
        self.client.context.setsockopt(zmq.RECONNECT_IVL, 2)
        self.client.start_channels()
        self.client.shell_channel.send(self.client.session.msg("kernel_info_request"))
        self.client.shell_channel.get_msg(timeout=_REPLY_SECONDS)
        self.start_seconds = time.perf_counter() - started

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def round_trip(self, code: str) -> float:
        """Execute ``code`` silently stored nowhere and return the time until its reply; wait for its idle too."""
        started = time.perf_counter()
        message_id = self.client.execute(code, store_history=False)
        while (
            self.client.shell_channel.get_msg(timeout=_REPLY_SECONDS)["parent_header"].get("msg_id")
            != message_id
        ):
            pass
        taken = time.perf_counter() - started
        self._wait_idle(message_id)
        return taken

    def value(self, code: str, expression: str) -> Any:
        """Execute ``code`` and return ``expression``, a number, as the kernel computed it.

        Raises:
            AssertionError: the cell failed.

        """
        message_id = self.client.execute(code, store_history=False, user_expressions={"value": expression})
        while True:
            reply = self.client.shell_channel.get_msg(timeout=_REPLY_SECONDS)
            if reply["parent_header"].get("msg_id") == message_id:
                break
        self._wait_idle(message_id)
        content = reply["content"]
        if content["status"] != "ok":
            raise AssertionError(f"{self.name}: {content.get('ename')}: {content.get('evalue')}")
        return float(content["user_expressions"]["value"]["data"]["text/plain"])

    def _wait_idle(self, message_id: str) -> None:
        while True:
            try:
                message = self.client.iopub_channel.get_msg(timeout=_REPLY_SECONDS)
            except queue.Empty:
                raise AssertionError(f"{self.name} never became idle") from None
            if (
                message["msg_type"] == "status"
                and message["content"]["execution_state"] == "idle"
                and message["parent_header"].get("msg_id") == message_id
            ):
                return
