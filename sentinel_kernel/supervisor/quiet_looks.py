"""When held files are looked at behind cells that show no sign of having changed any.

A file that was written over in place shows none, so that somebody has to look; where many are held, that takes the
processor from the next cell if it comes at once. Then the look waits for a pause, and is for all cells since the last.
"""

from __future__ import annotations

import time

MANY = 200
"""So many held files are looked at between any two cells."""

_PAUSE_SECONDS = 0.025
_MOST_SECONDS = 2.0
"""How long looks are put off where cells leave no pause."""


class QuietLooks:
    """The looks that were put off, if any."""

    def __init__(self) -> None:
        """Put off none yet."""
        self._first = self._last = ""
        self._named = True
        self._since: float | None = None
        self._due = 0.0

    @property
    def wait(self) -> bool:
        """Whether one was put off."""
        return self._since is not None

    def put_off(self, cell: str) -> bool:
        """Put off the look behind ``cell``; False where it has to be now."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._first = now, cell
        self._last, self._due = cell, now + _PAUSE_SECONDS
        self._named = self._named and bool(cell)
        return now < self._since + _MOST_SECONDS

    def due_seconds(self) -> float | None:
        """Return when the pause is long enough; None: nothing was put off."""
        return None if self._since is None else max(0.0, self._due - time.monotonic())

    def take(self, cell: str | None = None) -> str:
        """Return which cells a look is for that is done now, behind ``cell`` too; none is put off any more.

        Nothing where one of them has no number: nobody could tell what is that one's doing.
        """
        if cell is not None:
            self.put_off(cell)
        first, last, named = self._first, self._last, self._named
        self.forget()
        if not named:
            return ""
        return first if first == last else f"{first}-{last}"

    def forget(self) -> None:
        """There is nothing to look at any more."""
        self._first = self._last = ""
        self._named = True
        self._since = None
