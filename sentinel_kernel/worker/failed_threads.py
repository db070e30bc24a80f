"""Errors that end a thread: Python prints them, and no error message tells of them; their report is sent alone."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker.failure_key import METADATA_KEY
from sentinel_kernel.worker.own_frames import hide_own

if TYPE_CHECKING:
    from sentinel_kernel.worker.shell import ZMQInteractiveShell


def report_threads(shell: ZMQInteractiveShell) -> None:
    """Have the errors of threads reported, behind what they print."""
    printed = threading.excepthook

    def report(failed: threading.ExceptHookArgs) -> None:
        try:
            hide_own(failed.exc_value)
            printed(failed)
        finally:
            # Where the error is for want of files or memory, they may be missing here too; the thread ends anyway.
            with contextlib.suppress(Exception):
                _send(shell, failed.exc_value)

    threading.excepthook = report


def _send(shell: ZMQInteractiveShell, error: BaseException | None) -> None:
    from sentinel_kernel.worker.failure import report_of  # noqa: PLC0415 - for threads that fail alone

    report = report_of(error, shell.running_file)
    if report is not None:
        hook: Any = shell.displayhook
        # The cell that the thread belongs to, as its output has it.
        parent = getattr(sys.stderr, "parent_header", None) or hook.parent_header
        hook.session.send(hook.pub_socket, METADATA_KEY, {}, parent, metadata={METADATA_KEY: report})
