"""Counting refusals: each kind is told once at once, repeats as a count, a flood as one line."""

from __future__ import annotations

import os
import time

from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current

_DISTINCT_PER_CELL = 64
"""Kinds that are told apart in one cell; beyond it the arguments no longer count, only the call's name."""
_UPDATE_SECONDS = 0.25
_FAMILIES = frozenset(("AF_INET", "AF_INET6"))
_USUAL = frozenset(("SOCK_STREAM", "SOCK_DGRAM"))

Key = tuple[object, ...]


def stamp(current: Current) -> dict[str, Any]:
    """Return what each record has of a sandbox and of now: an id of its own, the profile and the time."""
    profile = current.preparation.profile.name
    return {"id": os.urandom(8).hex(), "profile": profile, "time_ms": int(time.time() * 1000)}


class Ledger:
    """The violations of the running cell; ``send`` gives one to the host."""

    def __init__(self, send: Callable[[Violation], bool]) -> None:
        """Start empty; ``send`` returns False where the host can't take one now."""
        self._send = send
        self._entries: dict[Key, Violation] = {}
        self._dirty: set[Key] = set()
        self._next_update = 0.0
        # A count is a number beside its violation: a repeat is then an addition, not a new object.
        self._repeats: dict[Key, tuple[int, int]] = {}
        self._registers: dict[Key, Key] = {}
        self._by_line: dict[Key, Key] = {}
        """Which entry a kind has on a line of the cell."""
        self._coarse: set[Key] = set()
        """Entries that repeats were counted for whose line is another one, or not known."""
        self.total = 0

    def repeat(self, registers: Key) -> bool:
        """Count once more the refusal that was recorded with the same ``registers``; False where there is none.

        ``registers`` is all that a verdict and its words came from: not for calls whose memory was looked at.
        """
        key = self._registers.get(registers)
        if key is None:
            return False
        self.total += 1
        self._coarse.add(key)
        self._again(key, int(time.time() * 1000))
        return True

    def record(self, violation: Violation, registers: Key | None = None) -> Violation:
        """Add one refusal and return it as it stands now; :meth:`repeat` finds it by ``registers``."""
        self.total += 1
        key = _key(violation, with_arguments=True)
        if key not in self._entries and len(self._entries) >= _DISTINCT_PER_CELL:
            key = _key(violation, with_arguments=False)
        key = self._of_line(key, violation)
        if registers is not None and len(self._registers) < _DISTINCT_PER_CELL:
            self._registers[registers] = key
        if key in self._entries:
            if violation.line is None or violation.line != self._entries[key].line:
                self._coarse.add(key)
            self._again(key, violation.last_time_ms)
            return self._now(key)
        self._entries[key] = violation
        if violation.line is not None:
            self._by_line.setdefault(_at(key, violation), key)
        if not self._send(violation):
            self._dirty.add(key)
        return violation

    def _of_line(self, key: Key, violation: Violation) -> Key:
        """Return under which key a repeat of ``key`` counts: on another line of the cell it is told on its own."""
        if key not in self._entries or violation.line is None:
            return key
        line = _at(key, violation)
        known = self._by_line.get(line)
        if known is None and len(self._entries) < _DISTINCT_PER_CELL:
            known = self._by_line[line] = line
        return known or key

    def _again(self, key: Key, time_ms: int) -> None:
        self._repeats[key] = (self._repeats.get(key, (0, 0))[0] + 1, time_ms)
        self._dirty.add(key)
        now = time.monotonic()
        if now >= self._next_update:
            self._next_update = now + _UPDATE_SECONDS
            self.flush()

    def _now(self, key: Key) -> Violation:
        entry = self._entries[key]
        repeats, time_ms = self._repeats.get(key, (0, entry.last_time_ms))
        return replace(entry, count=entry.count + repeats, last_time_ms=time_ms)

    def change(self, identifier: str, change: Callable[[Violation], Violation]) -> None:
        """Add something, its line, to a violation that was told already, and tell it again."""
        for key, entry in list(self._entries.items()):
            if entry.id == identifier:
                self._entries[key] = change(entry)
                self._by_line[_at(key, self._entries[key])] = key
                self._dirty.add(key)
                break
        self.flush()

    def kind(self, violation: Violation) -> Key:
        """Return what is one kind with ``violation`` to who looks for lines: by every argument."""
        return (*_key(violation, with_arguments=True), *((one.name, one.text) for one in violation.arguments))

    def knows(self, violation: Violation) -> bool:
        """Tell whether ``violation`` would count as a repeat of what was recorded in this cell, on some line."""
        return _key(violation, with_arguments=True) in self._entries

    def violations(self) -> list[Violation]:
        """Return all that was refused since the cell began, as it stands now."""
        return [self._now(key) for key in self._entries]

    def coarse(self) -> frozenset[str]:
        """Return the ids of violations that repeats were counted for whose line is another one, or not known."""
        return frozenset(self._entries[key].id for key in self._coarse)

    def flush(self) -> bool:
        """Tell the host every count that changed; True when nothing is left to tell."""
        for key in list(self._dirty):
            if not self._send(self._now(key)):
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
        self._repeats.clear()
        self._registers.clear()
        self._by_line.clear()
        self._coarse.clear()
        self._dirty.clear()
        self._next_update = 0.0


def _key(violation: Violation, *, with_arguments: bool) -> Key:
    what = (violation.cause, violation.syscall, violation.action)
    if not with_arguments:
        return what
    arguments: tuple[object, ...] = tuple((one.name, one.text) for one in violation.arguments)
    if _opens_connection(violation):
        arguments = (violation.rule, violation.errno)
    if violation.cause == "host_refused":  # a library tries each address of it, and again
        arguments = (violation.values.get("host"), violation.values.get("port"))
    is_worker = violation.process is None or violation.process.is_worker
    return (*what, violation.resource, is_worker, violation.started_line, arguments)


def _opens_connection(violation: Violation) -> bool:
    """Tell whether a socket to the network was refused, as it is opened for a look-up and for a connection.

    A library that is refused one tries the other family, and each address: that is one mistake, by one rule.
    """
    if violation.syscall != "socket" or violation.values.get("family") not in _FAMILIES:
        return False
    return any(one.name == "type" and one.text.partition("|")[0] in _USUAL for one in violation.arguments)


def _at(key: Key, violation: Violation) -> Key:
    return (key, violation.cell, violation.line)
