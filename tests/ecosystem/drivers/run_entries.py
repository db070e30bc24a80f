"""Run entries of the list in one kernel, and write what each printed: ``run_entries.py KERNEL ENTRIES RESULTS``."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

from jupyter_client.manager import KernelManager

CELL_SECONDS = 90
FOLDER = "notebook folder ü"
VIOLATION = "application/vnd.sentinel.violation+json"
NOTICE = "application/vnd.sentinel.notice+json"
# Of several forms the first is what a notebook shows.
SHOWN = ("application/vnd.jupyter.widget-view+json", "image/png", "text/plain")
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def shown(data: dict[str, Any]) -> str:
    kind = next((kind for kind in SHOWN if kind in data), "")
    return data[kind] + "\n" if kind == "text/plain" else f"<{kind}>"


class Run:
    """One entry: what it printed, and what was refused."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.text: list[str] = []
        self.violations: list[str] = []
        self.errors: list[str] = []

    def cell(self, source: str, answers: list[str]) -> bool:
        """Run a cell to its end; False where it does not come."""
        client = self.client
        client.allow_stdin = True
        asked = client.execute(source, allow_stdin=True, store_history=True)
        end = time.monotonic() + CELL_SECONDS
        replied = idle = False
        while not (replied and idle):
            if time.monotonic() > end:
                self.text.append("<no end>")
                return False
            if client.stdin_channel.msg_ready():
                client.stdin_channel.get_msg()
                client.input(answers.pop(0) if answers else "q")
            if client.shell_channel.msg_ready():
                reply = client.shell_channel.get_msg()
                replied = replied or reply["parent_header"]["msg_id"] == asked
                pages = [page for page in reply["content"].get("payload", ()) if page["source"] == "page"]
                self.text += [page["data"]["text/plain"] + "\n" for page in pages]
            if client.iopub_channel.socket.poll(20):
                message = client.get_iopub_msg()
                if message["parent_header"].get("msg_id") == asked:
                    self.output(message["msg_type"], message["content"])
                    idle = idle or message["content"].get("execution_state") == "idle"
        return True

    def output(self, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            self.text.append(content["text"])
        elif kind == "error":
            self.text.append(f"<{content['ename']}>")
            self.errors.append(COLOURS.sub("", "\n".join(content["traceback"])))
        elif kind in ("display_data", "execute_result") and VIOLATION in content["data"]:
            self.violations.append(content["data"]["text/plain"])
        elif kind in ("display_data", "execute_result") and NOTICE not in content["data"]:
            self.text.append(
                shown(content["data"])
            )  # what becomes of files is said once, and is no output of theirs


def run(manager: Any, client: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    this = Run(client)
    answers = list(wanted["answers"])
    began = time.monotonic()
    for source in wanted["sources"]:
        if not this.cell(source, answers):  # it hangs or is dead: the next entries get a fresh kernel
            manager.restart_kernel(now=True)
            client.wait_for_ready(timeout=60)
            break
    return {
        "text": COLOURS.sub("", "".join(this.text)),
        "violations": this.violations,
        "errors": this.errors,
        "seconds": round(time.monotonic() - began, 2),
    }


def main(kernel: str, entries: str, results: str) -> None:
    with open(entries, encoding="utf-8") as file:
        wanted = json.load(file)
    os.makedirs(FOLDER, exist_ok=True)
    manager = KernelManager(kernel_name=kernel, transport="ipc", ip=f"{results}-k")
    manager.start_kernel(cwd=FOLDER)
    try:
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        found = {entry["name"]: run(manager, client, entry) for entry in wanted}
        client.stop_channels()
    finally:
        manager.shutdown_kernel(now=False)
    with open(results, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
