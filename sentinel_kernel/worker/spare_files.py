"""Files to go on with where a cell holds all that it may open: without any no error is shown, and no cell answered."""

from __future__ import annotations

import contextlib
import errno
import os
import resource

LENT_FILES = 64
"""As policy/plan.py has it, by which the hard limit was set."""

_lent_beyond = -1
"""The soft limit that was in force before files were lent; -1: none are."""


def lend_files() -> None:
    """Raise this process's soft limit where not one more file can be opened."""
    global _lent_beyond  # noqa: PLW0603 - of the process, as the limit is
    try:
        os.close(os.dup(2))
    except OSError as error:
        if error.errno != errno.EMFILE:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + LENT_FILES, hard), hard))
            _lent_beyond = soft


def take_back_files() -> None:
    """Set the limit that was in force, before a cell begins, once there is room below it."""
    global _lent_beyond  # noqa: PLW0603 - as above
    if _lent_beyond < 0:
        return
    with contextlib.suppress(OSError, ValueError):
        lowest = os.dup(2)
        os.close(lowest)
        if lowest < _lent_beyond - LENT_FILES:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            if soft == _lent_beyond + LENT_FILES:  # else somebody has set another one meanwhile
                resource.setrlimit(resource.RLIMIT_NOFILE, (_lent_beyond, hard))
            _lent_beyond = -1
