"""Faults of the host itself, met over what others sent: told in the log, survived, and not without end.

Whatever a worker or a client sends, it must not end the host. A fault that was met nowhere better ends the sandbox
whose messages caused it: its cells are answered, and the next sandbox begins with a state that is right.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.log import log

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 50
"""After so many something is wrong that no new sandbox mends: the kernel ends, and its server starts another."""


class Faults:
    """Counts faults, and writes where the first one was met."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, what: str, fault: Exception) -> None:
        """Write a fault to the log; ``what`` was being done."""
        self.count += 1
        log(f"{what}, which is a fault of the host: {fault!r}")
        if self.count == 1:
            import traceback  # noqa: PLC0415 - never, if all is well

            for line in traceback.format_exception(fault):
                log(line)

    @contextlib.contextmanager
    def survived(self, what: str) -> Iterator[None]:
        """Note a fault in what is done inside, and go on: what follows is owed to somebody."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - whatever it is, those who wait must be answered
            self.note(what, fault)

    @property
    def too_many(self) -> bool:
        """Whether to give up."""
        return self.count > MOST
