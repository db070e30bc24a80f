"""Counting refusals: each kind is told once at once, repeats as a count, a flood as one line."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.violation import Violation

_DISTINCT_PER_CELL = 64
"""Kinds that are told apart in one cell; beyond it the arguments no longer count, only the call's name."""
_UPDATE_SECONDS = 0.25

Key = tuple[object, ...]


class Ledger:
    """The violations of the running cell; ``send`` gives one to the host."""

    def __init__(self, send: Callable[[Violation], bool]) -> None:
        """Start empty; ``send`` returns False where the host can't take one now."""
        self._send = send
        self._entries: dict[Key, Violation] = {}
        self._dirty: set[Key] = set()
        self._next_update = 0.0
        self.total = 0

    def record(self, violation: Violation) -> Violation:
        """Add one refusal and return it as it stands now, with its id and count."""
        self.total += 1
        key = _key(violation, with_arguments=True)
        if key not in self._entries and len(self._entries) >= _DISTINCT_PER_CELL:
            key = _key(violation, with_arguments=False)
        known = self._entries.get(key)
        if known is None:
            entry = replace(violation, id=secrets.token_hex(8))
            self._entries[key] = entry
            if not self._send(entry):
                self._dirty.add(key)
            return entry
        entry = replace(known, count=known.count + violation.count, last_time_ms=violation.last_time_ms)
        self._entries[key] = entry
        self._dirty.add(key)
        now = time.monotonic()
        if now >= self._next_update:
            self._next_update = now + _UPDATE_SECONDS
            self.flush()
        return entry

    def flush(self) -> bool:
        """Tell the host every count that changed; True when nothing is left to tell."""
        for key in list(self._dirty):
            if not self._send(self._entries[key]):
                return False
            self._dirty.discard(key)
        return True

    def next_flush_seconds(self) -> float | None:
        """Return in how many seconds :meth:`flush` is due, or None while there is nothing to tell."""
        return max(0.0, self._next_update - time.monotonic()) if self._dirty else None

    def begin_cell(self) -> None:
        """Start a new cell: what it repeats is told anew."""
        self.flush()
        self._entries.clear()
        self._dirty.clear()
        self._next_update = 0.0


def _key(violation: Violation, *, with_arguments: bool) -> Key:
    if not with_arguments:
        return (violation.syscall, violation.action)
    arguments = tuple((argument.name, argument.text) for argument in violation.arguments)
    return (violation.syscall, violation.action, violation.resource, violation.process.is_worker, arguments)
