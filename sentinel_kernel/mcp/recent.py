"""The violations that this server has seen, newest first, bounded."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

Json = dict[str, Any]

_MOST = 500


class Recent:
    """Remembers violations with the kernel that they came from."""

    def __init__(self) -> None:
        self._seen: deque[Json] = deque(maxlen=_MOST)

    def add(self, kernel: str, violations: list[Json]) -> None:
        """Take the violations of one cell."""
        now = int(time.time() * 1000)
        self._seen.extend(
            {"kernel": kernel, "time_ms": now, "violation": violation} for violation in violations
        )

    def find(self, identifier: str) -> Json | None:
        """Return the newest record with an id, None where there is none."""
        found: Json | None = next(
            (
                entry["violation"]
                for entry in reversed(self._seen)
                if entry["violation"].get("id") == identifier
            ),
            None,
        )
        return found

    def newest(self, limit: int, kernel: str | None = None) -> list[Json]:
        """Return the newest, of one kernel or of all."""
        found = [entry for entry in reversed(self._seen) if kernel in (None, entry["kernel"])]
        return found[:limit]
