"""What the host asks of the supervisor around a cell: to begin, to end, to interrupt, and in the quiet a spare."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.lifecycle import Lifecycle
    from sentinel_kernel.kernel.loop import Loop, Timer
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.wire import Json

CELL_SECONDS = 30.0
INTERRUPT_SECONDS = 30.0

SPARE_SECONDS = 1.0
"""How long no cell must have run before a spare is made: it takes a processor for a fifth of a second."""


class CellCalls:
    """Asks the supervisor that the lifecycle has just now."""

    def __init__(self, loop: Loop, settings: Settings, lifecycle: Lifecycle) -> None:
        self._loop = loop
        self._settings = settings
        self._lifecycle = lifecycle
        self._quiet_since: float | None = None
        self._spare_timer: Timer | None = None
        self._interrupting: list[Callable[[], None]] = []
        """Whom to tell that the worker was interrupted."""

    def begin_cell(self, fields: Json, begun: Callable[[], None]) -> None:
        """Have the workspace refreshed for a cell, which ``fields`` describe; then call ``begun``."""
        self._quiet_since = None

        def begins() -> None:
            self._lifecycle.kept.begin()
            begun()

        self._ask(protocol.OP_BEGIN_CELL, fields, begins)

    def end_cell(self, fields: Json, ended: Callable[[], None]) -> None:
        """Have the final counts of a cell's violations sent; then call ``ended``."""
        self._ask(protocol.OP_END_CELL, fields, ended)

    def answered(self, fields: Json) -> None:
        """Tell of a cell that the host answered itself, which ``fields`` describe, for the audit."""
        link = self._lifecycle.link
        if link is not None and not link.gone:
            link.request(protocol.OP_ANSWERED, fields, lambda _reply: None, CELL_SECONDS)

    def interrupt(self, done: Callable[[], None]) -> None:
        """Send SIGINT to the worker and its children, from outside; then call ``done``."""
        link = self._lifecycle.link
        if link is None or link.gone or self._lifecycle.state is not State.READY:
            done()
            return
        self._interrupting.append(done)
        link.request(protocol.OP_INTERRUPT, {}, lambda _reply: self._interrupted(done), INTERRUPT_SECONDS)

    def worker_gone(self) -> None:
        """Tell who waits for the worker's interruption, which a supervisor that is gone does not answer."""
        for done in list(self._interrupting):
            self._interrupted(done)

    def _interrupted(self, done: Callable[[], None]) -> None:
        if done in self._interrupting:
            self._interrupting.remove(done)
            done()

    def end_worker(self) -> None:
        """Have the worker ended that has said it leaves; its death is told as its own."""
        link = self._lifecycle.link
        if link is not None and not link.gone:
            fields: Json = {"leave": True, "generation": self._lifecycle.generation}
            link.request(protocol.OP_INTERRUPT, fields, lambda _reply: None, INTERRUPT_SECONDS)

    def quiet(self) -> None:
        """Take note that no cell runs or waits: before long is the time to make a spare."""
        self._quiet_since = time.monotonic()
        if self._settings.spare and self._spare_timer is None:
            self._spare_timer = self._loop.call_later(SPARE_SECONDS, self._ask_for_spare)

    def _ask_for_spare(self) -> None:
        self._spare_timer = None
        if self._quiet_since is None or self._lifecycle.state is not State.READY:
            return
        rest = SPARE_SECONDS - (time.monotonic() - self._quiet_since)
        if rest > 0:
            self._spare_timer = self._loop.call_later(rest, self._ask_for_spare)
        else:
            self._ask(protocol.OP_SPARE, {}, lambda: None)

    def _ask(self, operation: str, fields: Json, done: Callable[[], None]) -> None:
        if self._lifecycle.link is not None:
            self._lifecycle.link.request(operation, fields, lambda _reply: done(), CELL_SECONDS)
