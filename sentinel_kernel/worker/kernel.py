"""ipykernel's kernel as the worker runs it."""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel import ipkernel
from ipykernel.ipkernel import IPythonKernel
from traitlets import Float, Int, Type

from sentinel_kernel.worker import late_debugger
from sentinel_kernel.worker.failure_key import METADATA_KEY
from sentinel_kernel.worker.forked import end_if_forked
from sentinel_kernel.worker.late_debugger import LateDebugger
from sentinel_kernel.worker.output import OutputThread, OutStream
from sentinel_kernel.worker.shell import ZMQInteractiveShell
from sentinel_kernel.worker.soft_memory import after_cell, keep_room, make_room, wants_memory
from sentinel_kernel.worker.spare_files import lend_files, take_back_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _remember_parameters() -> None:
    """Let ipykernel look once at what a method of the shell takes, and not at every cell: that is a tenth of it."""
    look: Callable[[Any, list[str]], object] | None = getattr(ipkernel, "_accepts_parameters", None)
    if look is None:  # an older ipykernel
        return

    known: dict[object, object] = {}

    def accepts(method: Any, names: Sequence[str]) -> object:  # noqa: ANN401 - whatever a cell has put there
        key = (getattr(method, "__func__", method), *names)
        if key not in known:
            known.clear()  # the methods of one shell, or what a cell has put in their place
            known[key] = look(method, list(names))
        return known[key]

    vars(ipkernel)["_accepts_parameters"] = accepts


_remember_parameters()


class SentinelKernel(IPythonKernel):
    """Counts cells on from an earlier worker's, and spares a cell what it does not need."""

    shell_class = Type(ZMQInteractiveShell)
    debugger_class = Type(LateDebugger)
    # Before a reply ipykernel sleeps half a millisecond, to let outputs reach clients first. Here they are with the
    # host by then, which forwards them first.
    _execute_sleep = Float(0, help="Seconds to wait before a cell's reply.").tag(config=True)
    first_execution_count = Int(1, help="The number of the first cell.").tag(config=True)

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.own_pid = os.getpid()
        self.shell_handlers["sentinel_carry_request"] = self.sentinel_carry_request
        self._count_on()

    def _count_on(self) -> None:
        """Give the first cell its number, also where cells are looked up by it: In, %history, %rerun."""
        if self.shell is None or self.first_execution_count <= 1:
            return
        self.shell.execution_count = self.first_execution_count
        for lines in (
            self.shell.history_manager.input_hist_parsed,
            self.shell.history_manager.input_hist_raw,
        ):
            lines.extend([""] * (self.first_execution_count - len(lines)))

    def _publish_status(self, status: str, channel: str, parent: dict[str, Any] | None = None) -> None:
        """Publish the state. A cell's "busy" goes out with its execute_input, so that both take one turn of the host.

        What takes long comes behind ``do_execute``, which lets it go; every other way ends with "idle", behind it.
        """
        request = parent or self.get_parent(channel)
        thread = self.iopub_thread
        if (
            status == "busy"
            and isinstance(thread, OutputThread)
            and request.get("header", {}).get("msg_type") == "execute_request"
        ):
            session: Any = self.session
            content = {"execution_state": status}
            session.send(thread.holding, "status", content, parent=request, ident=self._topic("status"))
        else:
            super()._publish_status(status, channel, parent)

    async def sentinel_carry_request(self, stream: object, ident: object, parent: dict[str, Any]) -> None:
        """Save or load a variable for the host, which takes it from this worker to the next."""
        from sentinel_kernel.worker import carry  # noqa: PLC0415 - for who changes to another sandbox

        shell: Any = self.shell
        content, buffers = carry.answer(
            parent["content"], parent.get("buffers") or [], shell.user_ns, shell.user_ns_hidden
        )
        session: Any = self.session
        session.send(stream, "sentinel_carry_reply", content, parent, ident, buffers=buffers)

    def finish_metadata(
        self, parent: dict[str, Any], metadata: dict[str, Any], reply_content: dict[str, Any]
    ) -> dict[str, Any]:
        """Put the report on a cell's error beside its reply, too: it may reach the host before the error does."""
        finished: dict[str, Any] = super().finish_metadata(parent, metadata, reply_content)
        if reply_content.get("status") == "error" and isinstance(self.shell, ZMQInteractiveShell):
            report = self.shell.failure
            if report is not None:
                finished[METADATA_KEY] = report
        return finished

    async def do_debug_request(self, msg: dict[str, object]) -> object:
        """Load the debugger before it is asked: only then is it known whether it can be had."""
        late_debugger.load()
        try:
            if msg.get("command") == "initialize":
                # With debugpy loaded before, a refusal would meet libzmq alone, which tries again for ever.
                socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
            return await super().do_debug_request(msg)
        except (OSError, zmq.ZMQError) as error:
            # ipykernel would answer nothing, and the debugger's panel would wait for ever.
            return late_debugger.refused(msg, error)

    def _answer_without_memory(self, error: Exception, number: int) -> dict[str, Any]:
        """Return the reply to a cell where IPython itself had no memory left: ipykernel would send none."""
        make_room()
        shell: Any = self.shell
        lines = shell.show_plainly(error)
        return {
            "status": "error",
            "ename": type(error).__name__,
            "evalue": str(error),
            "traceback": lines,
            "execution_count": number,
            "user_expressions": {},
            "payload": [],
        }

    async def do_execute(self, code: str, *args: object, **kwargs: object) -> object:
        """Execute a cell, and send what it has written and not flushed."""
        if isinstance(self.iopub_thread, OutputThread):
            self.iopub_thread.release()
        if isinstance(self.shell, ZMQInteractiveShell):
            self.shell.expect(code)
        take_back_files()
        keep_room()
        number = self.execution_count
        try:
            reply: Any = await super().do_execute(code, *args, **kwargs)
        except Exception as error:
            if not wants_memory(error):
                raise
            reply = self._answer_without_memory(error, number)
        finally:
            end_if_forked(self.own_pid)
        lend_files()
        after_cell(str(reply.get("ename", "")))
        # ipykernel does so next, by a round trip to IOPub's thread. The cell's code is done: no interrupt comes now.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, OutStream):
                stream.flush_here()
        return reply
