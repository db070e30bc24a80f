"""From the fork to the kernel's event loop."""

from __future__ import annotations

import faulthandler
import importlib.util
import os
import random
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any

from sentinel_kernel.worker.app import IPKernelApp
from sentinel_kernel.worker.failed_threads import report_threads
from sentinel_kernel.worker.inert_magics import register_inert_magics
from sentinel_kernel.worker.last_words import write_last_words
from sentinel_kernel.worker.recursion import bound_recursion
from sentinel_kernel.worker.soft_memory import raise_at
from sentinel_kernel.worker.started import note_starts

if TYPE_CHECKING:
    from collections.abc import Sequence


def run_worker(request: dict[str, Any], listening: Sequence[int]) -> None:
    """Run the kernel until it is shut down; in the process that init has just forked.

    ``request`` is the supervisor's ``fork``: argv, cwd, magics, and the signals for a stack, for all stacks, and
    for MemoryError. Of the last four descriptors stacks are written to the first, the words of the exception are read
    from the second, what is started is noted in the third, and the stacks of writes beyond the largest size of a file
    are written to the fourth. Returns to the end of the interpreter, which runs the
    cells' own exit handlers.
    """
    complaints = os.dup(2)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    *listening, stack_pipe, word_pipe, started, size_pipe = listening
    try:
        os.chdir(request["cwd"])
        os.environ.pop("GLIBC_TUNABLES", None)  # was for the interpreter that this process is a copy of
        _look_freshly_started(request["argv"])
        app = IPKernelApp.instance()
        if os.environ.get("SENTINEL_RUNG") == "landlock":
            from sentinel_kernel.worker import shared_names  # noqa: PLC0415 - seldom

            shared_names.install()
        app.listening = listening
        app.initialize(request["argv"])
        register_inert_magics(app, request["magics"])
        shell: Any = app.shell
        report_threads(shell)
        faulthandler.register(request["stack_signal"], file=stack_pipe, all_threads=False)
        faulthandler.register(request["stacks_signal"], file=stack_pipe, all_threads=True)
        # Python ignores it (the call fails with EFBIG), and so do those who ask Python; the call fails all the same.
        faulthandler.register(signal.SIGXFSZ, file=size_pipe, all_threads=False)
        write_last_words(stack_pipe)
        raise_at(request["memory_signal"], word_pipe)
        note_starts(started)
        bound_recursion()
    except BaseException:  # noqa: BLE001 - whatever it is, only the supervisor can still be told
        with os.fdopen(complaints, "w") as stream:
            traceback.print_exc(file=stream)
        os._exit(1)
    os.close(complaints)  # before the first cell: what it writes must not reach the supervisor
    app.start()


def _look_freshly_started(arguments: Sequence[str]) -> None:
    """Correct what the interpreter noted before it was this worker; a cell finds it as under plain ipykernel."""
    launcher = importlib.util.find_spec("ipykernel_launcher")
    sys.argv = [
        launcher.origin if launcher is not None and launcher.origin else "ipykernel_launcher",
        *arguments,
    ]
    sys.orig_argv = [sys.executable, "-m", "ipykernel_launcher", *arguments]
    # Where spawned processes of multiprocessing find what the parent imported by a relative path.
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None:
        vars(processes)["ORIGINAL_DIR"] = os.getcwd()
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
