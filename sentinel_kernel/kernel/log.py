"""The host's few lines in the server's log: printable, cut, and bounded, as the worker may cause them."""

from __future__ import annotations

import sys

_LINES = 200
_CHARACTERS = 500


class _Log:
    """Counts the lines that were written."""

    def __init__(self) -> None:
        self._written = 0

    def __call__(self, text: str) -> None:
        """Write one line to the standard error stream; after 200 lines nothing more."""
        self._written += 1
        if self._written <= _LINES:
            line = "".join(character if character.isprintable() else "?" for character in text[:_CHARACTERS])
            print(f"sentinel_kernel: {line}", file=sys.stderr, flush=True)  # noqa: T201 - this is the log


log = _Log()
