"""IPython's shell, which transforms the source of a cell once."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any

from ipykernel import zmqshell
from ipykernel.jsonutil import json_clean

from sentinel_kernel.worker.failure_key import METADATA_KEY
from sentinel_kernel.worker.forked import end_if_forked
from sentinel_kernel.worker.leading_block import PREFIX, parse_leading_block
from sentinel_kernel.worker.own_frames import hide_own
from sentinel_kernel.worker.recursion import say_bound
from sentinel_kernel.worker.soft_memory import LONG_FRAMES, empty_frames, let_go, make_room, shorten
from sentinel_kernel.worker.spare_files import lend_files

_INSTALLERS = ("pip", "uv", "conda", "mamba", "micromamba")


class _Expected(threading.local):
    """The cell that this thread is about to execute, and what it was transformed into."""

    code: str | None = None
    transformed: str | None = None


class _Failed(threading.local):
    """The error that this thread has shown last, and what is reported of it (failure.py)."""

    error: object = None
    report: dict[str, Any] | None = None
    shown = False


class _Began:
    """The cell that began last. Kept by the class: the shell's own variables are ipykernel's."""

    code = ""


class ZMQInteractiveShell(zmqshell.ZMQInteractiveShell):
    """ipykernel transforms a cell to see whether it awaits something, IPython again to execute it.

    For a cell of some hundred lines each takes milliseconds. The second gets the first's result.
    """

    _expected = _Expected()
    _failed = _Failed()
    _began = _Began()

    if os.environ.get("SENTINEL_RUNG") == "landlock":
        # The terminals there are the machine's: commands speak through pipes.
        system = zmqshell.ZMQInteractiveShell.system_raw

    def expect(self, code: str) -> None:
        """Say that ``code`` is about to be transformed, and then perhaps again."""
        self._expected.code, self._expected.transformed = code, None
        self._failed.error = self._failed.report = None
        self._began.code = code

    @property
    def running_file(self) -> str:
        """The name that the cell which began last was compiled under."""
        return str(self.compile.get_code_name(self._began.code, self._began.code, self.execution_count))

    @property
    def failure(self) -> dict[str, Any] | None:
        """The report on the error that this thread's cell has shown last."""
        return self._failed.report

    def _look_at(self, error: object) -> dict[str, Any] | None:
        if self._failed.error is not error:
            self._failed.error, self._failed.report = error, None
            # Where the error is for want of files or memory, that may be missing too.
            with contextlib.suppress(ImportError, OSError, MemoryError):
                from sentinel_kernel.worker.failure import report_of  # noqa: PLC0415 - for cells that fail alone

                self._failed.report = report_of(error)
        return self._failed.report

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the base has it
        """Show the error of a cell; one about memory, or about open files, needs some to be shown."""
        end_if_forked(self.kernel.own_pid, sys.exc_info()[1])
        lend_files()
        error = sys.exc_info()[1]
        if isinstance(error, MemoryError):
            make_room()
        self._look_at(error)  # while the frames are there, and hold what was asked for
        hide_own(error)
        if isinstance(error, MemoryError):
            shorten(error.__traceback__)
            empty_frames(error)
        elif error is not None:
            say_bound(error)
            # Of a recursion that went far beyond the usual limit: IPython would take minutes for each frame's lines.
            shorten(error.__traceback__, LONG_FRAMES)
        self._failed.shown = False
        try:
            super().showtraceback(*args, **kwargs)
        except MemoryError:
            self.show_plainly(error)
        else:
            # What makes it readable may have found no room; IPython then prints that, and shows no error.
            if isinstance(error, MemoryError) and not self._failed.shown:
                self.show_plainly(error)

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> object:
        """Run a line magic; what is said behind one that installs packages is our own."""
        run = super().run_line_magic
        # Names are looked up in the cell's frame, beyond ours: this one, and where something is said two more.
        if magic_name not in _INSTALLERS:
            return run(magic_name, line, _stack_depth + 1)
        from sentinel_kernel.worker.package_note import noted  # noqa: PLC0415 - few cells install

        return noted(self, line, lambda: run(magic_name, line, _stack_depth + 3))

    def show_plainly(self, error: BaseException | None) -> list[str]:
        """Show an error by its name and its text alone, where there is no memory for more; return the lines."""
        let_go(error)
        shown = error if error is not None else MemoryError()
        lines = [f"{type(shown).__name__}: {shown}"]
        with contextlib.suppress(MemoryError):
            self._showtraceback(type(shown), shown, lines)
        return lines

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        """Send the error as ipykernel does, with the report beside it."""
        self._failed.shown = True
        report = self._look_at(evalue)
        self._failed.error = None  # it would keep the cell's variables alive
        if report is None:
            super()._showtraceback(etype, evalue, stb)
            return
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        hook: Any = self.displayhook
        if getattr(hook, "msg", None) is not None:
            self._last_traceback_during_displayhook = True
        hook.session.send(
            hook.pub_socket,
            "error",
            json_clean({"traceback": stb, "ename": str(etype.__name__), "evalue": str(evalue)}),
            hook.parent_header,
            ident=hook.topic.replace(b"execute_result", b"error") if hook.topic else None,
            metadata={METADATA_KEY: report},
        )
        self._last_traceback = stb

    def transform_cell(self, raw_cell: str) -> str:
        """Return the Python that the cell's source stands for."""
        expected = self._expected
        if raw_cell != expected.code:
            return self._transformed(raw_cell)
        if expected.transformed is None:
            expected.transformed = self._transformed(raw_cell)
            return expected.transformed
        expected.code = None  # for these two, no third time
        return expected.transformed

    def _transformed(self, raw_cell: str) -> str:
        """Transform a cell whose leading magics of ours may stand above a ``%%`` magic, which IPython wants first."""
        if raw_cell.startswith(PREFIX) and "\n%%" in raw_cell:
            end = parse_leading_block(raw_cell).end_offset
            rest = raw_cell[end:].lstrip("\n")
            if end and rest.startswith("%%"):
                return f"{super().transform_cell(raw_cell[:end])}{super().transform_cell(rest)}"
        return str(super().transform_cell(raw_cell))


# Libraries tell where they run by the shell's class.
ZMQInteractiveShell.__module__ = zmqshell.ZMQInteractiveShell.__module__
