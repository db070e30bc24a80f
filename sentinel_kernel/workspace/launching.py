"""Looks into new files that look like data by their names, for what programs of the host would follow."""

from __future__ import annotations

import os

from sentinel_kernel.policy import committable
from sentinel_kernel.policy.launch_keys import HINT_BYTES, may_say, says_what_to_run
from sentinel_kernel.workspace.layer import open_plain

_WHOLE_BYTES = 16 << 20
"""What is longer is not read key by key: this process has little memory."""


def why_new_waits(folder: int, path: str, status: os.stat_result) -> str:
    """Return why a new file of ``folder``, at ``path`` in the layer, is not committed by itself; empty where it is."""
    why = committable.why_waiting(path, status.st_size, status.st_blocks * 512)
    if why or not committable.may_be_settings(path):
        return why
    try:
        file, _ = open_plain(folder, path.rpartition("/")[2])
    except OSError:
        return committable.SETTINGS
    try:
        return committable.SETTINGS if are_settings(file) else ""
    finally:
        os.close(file)


def are_settings(file: int) -> bool:
    """Tell whether the file says what a program is to run or load; also where that can't be told."""
    size = os.fstat(file).st_size
    try:
        # Not mapped: whoever cuts the file short meanwhile would end this process.
        if size <= _WHOLE_BYTES:
            return says_what_to_run(os.pread(file, size, 0))
        step = _WHOLE_BYTES - HINT_BYTES
        return any(may_say(os.pread(file, _WHOLE_BYTES, start)) for start in range(0, size, step))
    except OSError:
        return True
