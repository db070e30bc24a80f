"""IPython's shell, which transforms the source of a cell once."""

from __future__ import annotations

import sys
import threading
from typing import Any

from ipykernel import zmqshell

from sentinel_kernel.worker.forked import end_if_forked
from sentinel_kernel.worker.soft_memory import empty_frames, make_room, shorten
from sentinel_kernel.worker.spare_files import lend_files


class _Expected(threading.local):
    """The cell that this thread is about to execute, and what it was transformed into."""

    code: str | None = None
    transformed: str | None = None


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """ipykernel transforms a cell to see whether it awaits something, IPython again to execute it.

    For a cell of some hundred lines each takes milliseconds. The second gets the first's result.
    """

    _expected = _Expected()

    def expect(self, code: str) -> None:
        """Say that ``code`` is about to be transformed, and then perhaps again."""
        self._expected.code, self._expected.transformed = code, None

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the base has it
        """Show the error of a cell; one about memory, or about open files, needs some to be shown."""
        end_if_forked(self.kernel.own_pid, sys.exc_info()[1])
        lend_files()
        error = sys.exc_info()[1]
        if isinstance(error, MemoryError):
            make_room()
            shorten(error.__traceback__)
            empty_frames(error)
        super().showtraceback(*args, **kwargs)

    def transform_cell(self, raw_cell: str) -> str:
        """Return the Python that the cell's source stands for."""
        expected = self._expected
        if raw_cell != expected.code:
            return str(super().transform_cell(raw_cell))
        if expected.transformed is None:
            expected.transformed = str(super().transform_cell(raw_cell))
            return expected.transformed
        expected.code = None  # for these two, no third time
        return expected.transformed


# Libraries tell where they run by the shell's class.
ZMQInteractiveShell.__module__ = zmqshell.ZMQInteractiveShell.__module__
