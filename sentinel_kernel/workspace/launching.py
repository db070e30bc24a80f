"""Looks into new files that look like data by their names, for what programs of the host would follow; bounded."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from sentinel_kernel.policy import committable
from sentinel_kernel.policy.launch_keys import HINT_BYTES, may_say, says_what_to_run
from sentinel_kernel.policy.plain_yaml import is_numbers
from sentinel_kernel.record import MutableRecord, fresh, replace
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace.layer import folder_of, open_plain
from sentinel_kernel.workspace.marks import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.change import Change

_WHOLE_BYTES = 16 << 20
"""What is longer is not read key by key: this process has little memory."""

_MOST_KNOWN = 50_000
_LOOK_SECONDS = 10.0
LOOKS_SECONDS = 30.0
"""Processor time that one file, and all of one walk or commit, are looked at for; what is left then counts as settings.

Of what is no attack a GiB takes less.
"""


class Looks(MutableRecord):
    """What files were found to be, and how long others may still be looked at.

    A file is another once its key is. Who writes by a mapping leaves that as it was: a copy is looked at in any case
    before it gets its name on the host (staging.py).
    """

    seconds: float = LOOKS_SECONDS
    known: dict[tuple[str | int, ...], bool] = fresh(default_factory=dict)
    """Form, device and key of a file -> whether it is settings; the oldest go first."""

    def at(self, status: os.stat_result, form: str) -> bool | None:
        """Return what is known without a look; None where there has to be one."""
        known = self.known.get((form, status.st_dev, *key_of(status)))
        return True if known is None and self.seconds <= 0 else known

    def are_settings(self, file: int, form: str) -> bool:
        """Tell whether the file, of a form of its name, may be settings; also where that can't be told in time."""
        status = os.fstat(file)
        known = self.at(status, form)
        if known is not None:
            return known
        begun = time.process_time()
        found = _in_time(file, status.st_size, form)
        self.seconds -= time.process_time() - begun
        if len(self.known) >= _MOST_KNOWN:
            del self.known[next(iter(self.known))]
        self.known[form, status.st_dev, *key_of(status)] = found
        return found


class _LateError(Exception):
    pass


def why_new_waits(folder: int, path: str, status: os.stat_result, looks: Looks) -> str:
    """Return why a new file of ``folder``, at ``path`` in the layer, is not committed by itself; empty where it is."""
    why = committable.why_waiting(path, status.st_size, status.st_blocks * 512)
    form = committable.form_of(path)
    if why or not form:
        return why
    why = committable.WAITS if form == committable.YAML else committable.SETTINGS
    known = looks.at(status, form)
    if known is None:
        try:
            file, _ = open_plain(folder, path.rpartition("/")[2])
        except OSError:
            return why
        try:
            known = looks.are_settings(file, form)
        finally:
            os.close(file)
    return why if known else ""


def with_reason(change: Change, upper: int, looks: Looks) -> Change:
    """Return a later version of a file that was committed by itself as one that waits where it has a reason to."""
    if not change.autocommit or change.kind != kinds.CHANGED or change.is_folder:
        return change
    waits = committable.SETTINGS
    with contextlib.suppress(OSError), folder_of(upper, change.path) as (folder, name):
        waits = why_new_waits(folder, change.path, os.stat(name, dir_fd=folder, follow_symlinks=False), looks)
    return replace(change, autocommit=False, waits=waits) if waits else change


def _in_time(file: int, size: int, form: str) -> bool:
    """Tell what :func:`_are_settings` does, and True where that takes longer: a search is ended in its middle."""
    armed = True

    def late(*_: object) -> None:
        if armed:
            raise _LateError

    former = signal.signal(signal.SIGVTALRM, late)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, _LOOK_SECONDS)
        found = _are_settings(file, size, form)
        armed = False
    except _LateError:
        found = True
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    return found


def _are_settings(file: int, size: int, form: str) -> bool:
    try:
        if form == committable.YAML:
            return size > _WHOLE_BYTES or not is_numbers(os.pread(file, size, 0))
        # Not mapped: whoever cuts the file short meanwhile would end this process.
        if size <= _WHOLE_BYTES:
            return says_what_to_run(os.pread(file, size, 0))
        step = _WHOLE_BYTES - HINT_BYTES
        return any(may_say(os.pread(file, _WHOLE_BYTES, start)) for start in range(0, size, step))
    except (OSError, MemoryError):
        return True
