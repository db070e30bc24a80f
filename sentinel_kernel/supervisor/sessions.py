"""Sets the weight of the sessions of one sandbox (autogroups, sched(7)): those in which something computes."""

from __future__ import annotations

import errno
import os
import time

from sentinel_kernel.linux.autogroup import group_of, set_nice
from sentinel_kernel.supervisor.processes import processes_below, same_sandbox
from sentinel_kernel.supervisor.processor_time import own_seconds, stat_fields

TYPE_CHECKING = False

_LEAST_SECONDS = 0.1
"""Of processor time: sessions in which nothing has computed are left alone. Without privileges ten a second are set on
the whole machine, which those would use up."""

_LOOK_SECONDS = 0.005
"""A look at many processes goes on at the next one."""


class Sessions:
    """Those of the sandbox whose init is ``first``."""

    def __init__(self, first: int) -> None:
        """Know nothing yet of what they were born with."""
        self._first = first
        self._nice = 0
        self._walk = processes_below(first)
        self._is_done = False

    def weigh(self, nice: int, worker: int) -> bool:
        """Have them weigh as much as a process of this nice value, that of ``worker`` first.

        Return False where the rest comes at the next look. What is not dumpable can't be set without privileges, as
        init, which computes nothing once it runs.
        """
        if nice != self._nice:
            self._nice, self._is_done, self._walk = nice, False, processes_below(self._first)
        if self._is_done and not nice:
            return True
        until = time.monotonic() + _LOOK_SECONDS
        own = group_of("self")
        try:
            self._set(worker, own)
            for pid in self._walk:
                self._set(pid, own)
                if time.monotonic() > until:
                    return False
        except BlockingIOError:
            return False
        self._is_done, self._walk = True, processes_below(self._first)
        return True

    def _set(self, pid: int, own: tuple[str, int] | None) -> None:
        """Set the session of a process, if it is to be. Raises BlockingIOError: not so soon."""
        fields, nice = stat_fields(pid), self._nice
        if not fields or (nice and own_seconds(fields) < _LEAST_SECONDS):
            return
        try:
            folder = os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            found = group_of(folder)
            # What had the number when the folder was opened has it still, or the folder leads nowhere.
            if found and own and found[0] != own[0] and found[1] != nice and same_sandbox(pid, self._first):
                set_nice(folder, nice)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                raise
        finally:
            os.close(folder)
