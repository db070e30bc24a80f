"""What the host keeps of its sandbox's changed files: the next supervisor saves them, should this one be killed."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence


class Kept:
    """The upper folders of one sandbox, and behind them that of former versions, with their names."""

    def __init__(self, named: object = None, descriptors: Sequence[int] = ()) -> None:
        """Own ``descriptors``; ``named`` is what the supervisor calls them (supervisor/leftovers.py)."""
        self.named = named
        self.descriptors = list(descriptors)
        self._seen: tuple[int, int, int] | None = None

    def begin(self) -> None:
        """Take note of how the layers are before a cell."""
        self._seen = self._look()

    def changed(self) -> bool:
        """Tell whether files may have changed since :meth:`begin`: two calls, some microseconds."""
        return self._look() != self._seen

    def close(self) -> None:
        """Let go of them."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def _look(self) -> tuple[int, int, int] | None:
        if not self.descriptors:
            return None
        space = os.fstatvfs(self.descriptors[0])
        return space.f_bfree, space.f_ffree, os.fstat(self.descriptors[0]).st_mtime_ns
