"""Who is told of the worker's life: the host, as :mod:`~sentinel_kernel.kernel.lifecycle` knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json


class Listener(Protocol):
    """Who is told of the worker's life (host.py)."""

    def worker_answers(self, *, after_death: bool) -> None:
        """A worker is there."""

    def worker_gone(self, cause: Json) -> None:
        """The worker died; its channels can still be read until this returns."""

    def sandbox_unavailable(self) -> None:
        """No sandbox can be set up."""

    def violation_reported(self, violation: Json) -> None:
        """The supervisor refused a call."""

    def audit_changed(self, state: Json) -> None:
        """The audit's state is another one."""

    def files_saved(self, path: str, files: int, left_out: int = 0) -> None:
        """Files of a sandbox that ended were saved."""

    def died_too_often(self) -> None:
        """The kernel must give up."""
