"""ipykernel's kernel as the worker runs it."""

from __future__ import annotations

import sys

from ipykernel.ipkernel import IPythonKernel
from traitlets import Float, Int, Type

from sentinel_kernel.worker import late_debugger
from sentinel_kernel.worker.late_debugger import LateDebugger
from sentinel_kernel.worker.output import OutStream
from sentinel_kernel.worker.shell import ZMQInteractiveShell


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

    async def do_debug_request(self, msg: dict[str, object]) -> object:
        """Load the debugger before it is asked: only then is it known whether it can be had."""
        late_debugger.load()
        return await super().do_debug_request(msg)

    async def do_execute(self, code: str, *args: object, **kwargs: object) -> object:
        """Execute a cell, and send what it has written and not flushed."""
        if isinstance(self.shell, ZMQInteractiveShell):
            self.shell.expect(code)
        reply = await super().do_execute(code, *args, **kwargs)
        # ipykernel does so next, by a round trip to IOPub's thread. The cell's code is done: no interrupt comes now.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, OutStream):
                stream.flush_here()
        return reply
