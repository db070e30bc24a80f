"""What the audit is told of connections: repeats by their count, and never so many rows that they push others out."""

from __future__ import annotations

import time

from sentinel_kernel.record import MutableRecord, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.supervisor.network.connections import Connection

_FIRST_WINDOW, _LONGEST_WINDOW = 1.0, 64.0
"""Repeats of what was refused or has failed are one row for a window of time that doubles up to this."""

_BURST, _A_SECOND = 500, 0.1
"""Rows of each verdict: so many at once, and so many a second from there on. The rest waits, and is added up."""

_MOST_KINDS = 256
_OTHERS = "(others)"
"""The host of a row that adds up what is of more kinds than are told apart."""

_Key = tuple[str, str, str, int, str, int]


class _Kind(MutableRecord):
    """One kind of connection; ``waiting`` is what is not noted of it, added up."""

    window: float
    next_at: float
    waiting: Connection | None = None


class Noted:
    """Passes connections that are over on to ``note``."""

    def __init__(self, note: Callable[[Connection], None]) -> None:
        """Start with nothing noted."""
        self._note = note
        self._kinds: dict[_Key, _Kind] = {}
        self._tokens: dict[str, tuple[float, float]] = {}

    def add(self, made: Connection) -> None:
        """Note ``made`` at once where it is the first of its kind in a while; else add it to what waits."""
        now = time.monotonic()
        made = replace(made)  # the caller goes on counting in its own
        key = (made.verdict, made.host, made.address, made.port, made.rule, made.error)
        kind = self._kinds.get(key)
        if kind is None and len(self._kinds) >= _MOST_KINDS:
            for one in [one for one, known in self._kinds.items() if known.waiting is None]:
                del self._kinds[one]
        is_single = made.verdict == "allowed"
        if (kind is None or (kind.waiting is None and (is_single or now >= kind.next_at))) and self._may(
            made.verdict, now
        ):
            kind = kind or self._kinds.setdefault(key, _Kind(_FIRST_WINDOW / 2, now))
            self._passed(kind, made, now)
            return
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                made = replace(made, host=_OTHERS, address="", port=0, rule="", error=0)
                key = (made.verdict, _OTHERS, "", 0, "", 0)
            kind = self._kinds.setdefault(key, _Kind(_FIRST_WINDOW, now + _FIRST_WINDOW))
        if kind.waiting is None:
            kind.waiting = made
        else:
            _add(kind.waiting, made)

    def due_seconds(self) -> float | None:
        """Return when something that waits may be noted."""
        now = time.monotonic()
        dues = [
            max(one.next_at - now, 0.0 if self._left(one.waiting.verdict, now) >= 1.0 else _FIRST_WINDOW)
            for one in self._kinds.values()
            if one.waiting is not None
        ]
        return max(0.0, min(dues)) if dues else None

    def flush(self, *, force: bool = False) -> None:
        """Note what waits and may be noted; ``force``: everything, for nothing comes any more."""
        now = time.monotonic()
        for kind in self._kinds.values():
            made = kind.waiting
            if made is not None and (force or (now >= kind.next_at and self._may(made.verdict, now))):
                self._passed(kind, made, now)
        if force:
            self._kinds.clear()

    def _passed(self, kind: _Kind, made: Connection, now: float) -> None:
        kind.waiting = None
        kind.window = min(kind.window * 2, _LONGEST_WINDOW)
        kind.next_at = now + kind.window
        self._note(made)

    def _left(self, verdict: str, now: float) -> float:
        left, counted = self._tokens.get(verdict, (float(_BURST), now))
        return min(float(_BURST), left + (now - counted) * _A_SECOND)

    def _may(self, verdict: str, now: float) -> bool:
        """Take one of the rows that are left of a verdict."""
        left = self._left(verdict, now)
        self._tokens[verdict] = (left - 1.0 if left >= 1.0 else left, now)
        return left >= 1.0


def _add(total: Connection, one: Connection) -> None:
    total.count += one.count
    total.bytes_out += one.bytes_out
    total.bytes_in += one.bytes_in
    total.ended_ms = one.ended_ms
