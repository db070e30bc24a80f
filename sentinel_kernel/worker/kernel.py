"""ipykernel's kernel as the worker runs it."""

from __future__ import annotations

from ipykernel.ipkernel import IPythonKernel
from traitlets import Int, Type

from sentinel_kernel.worker import late_debugger
from sentinel_kernel.worker.late_debugger import LateDebugger
from sentinel_kernel.worker.output import OutputThread
from sentinel_kernel.worker.shell import ZMQInteractiveShell


class SentinelKernel(IPythonKernel):
    """Counts cells on from an earlier worker's, and spares a cell what it does not need."""

    shell_class = Type(ZMQInteractiveShell)
    debugger_class = Type(LateDebugger)
    first_execution_count = Int(1, help="The number of the first cell.").tag(config=True)

    def __init__(self, **kwargs: object) -> None:
        self._spared_sleep = 0.0
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
        """Execute a cell.

        Before it replies ipykernel sleeps half a millisecond (``_execute_sleep``), so that outputs reach clients
        before the reply does. A cell that has put nothing out does not need it.
        """
        if self._spared_sleep:
            self._execute_sleep, self._spared_sleep = self._spared_sleep, 0.0
        if isinstance(self.shell, ZMQInteractiveShell):
            self.shell.expect(code)
        thread = self.iopub_thread
        before = thread.outputs if isinstance(thread, OutputThread) else -1
        reply = await super().do_execute(code, *args, **kwargs)
        if isinstance(thread, OutputThread) and thread.outputs == before and self._execute_sleep:
            self._spared_sleep, self._execute_sleep = self._execute_sleep, 0.0
        return reply
