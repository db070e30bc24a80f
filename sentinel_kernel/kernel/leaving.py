"""What becomes of cells behind one that said exit() or quit(): they wait for the next worker, and run there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.lifecycle import State

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json

LEAVE_SECONDS = 3.0
"""So long a worker may take to leave; then it is ended. Threads that go on would keep it for ever, and deaf."""


class Leaving:
    """Holds what clients ask for from the reply in which a worker says that it leaves to its death.

    The reply itself goes out at once: consoles end by what is in it. A tenth of a second later the worker's loop
    stops (ipykernel), and what was sent to it meanwhile would be lost.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._generation = -1

    def replied(self, content: Json) -> None:
        """Take note of a cell's reply that has a payload."""
        payload = content.get("payload")
        if not isinstance(payload, list) or self.under_way:
            return
        if not any(_leaves(one) for one in payload):
            return
        self._generation = self._host.lifecycle.generation
        self._host.execution.held = True
        self._host.loop.call_later(LEAVE_SECONDS, self._overdue)

    @property
    def under_way(self) -> bool:
        """Tell whether the worker that is there has said that it leaves."""
        return self._generation == self._host.lifecycle.generation

    def _overdue(self) -> None:
        if self.under_way and self._host.lifecycle.state is State.READY:
            self._host.cell_calls.end_worker()


def _leaves(payload: object) -> bool:
    return isinstance(payload, dict) and payload.get("source") == "ask_exit" and not payload.get("keepkernel")
