"""What may watch the sandbox in use: told of its life and of each cell, asked at its own times what is due."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.files_process import FilesProcess


class Keeper:
    """Watches the sandbox in use; each method does nothing unless a kind of keeper has something to do there."""

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Take note of a worker that is there and has run no cell yet; ``generation`` counts them from 1."""

    def sandbox_gone(self, cause: dict[str, Any]) -> None:
        """Take note that the worker is gone for ``cause``, which is empty where it was ended on purpose."""

    def give_up_files(self, current: Current) -> FilesProcess | None:  # noqa: ARG002 - one of them alone has one
        """Take note that the sandbox has ended; return its files process, which is the caller's then."""
        return None

    @property
    def busy(self) -> bool:
        """Whether a cell's end is still under way here: what comes after it waits."""
        return False

    def begin_cell(self, message: dict[str, Any]) -> None:
        """Take note of a cell that begins once this returns; ``message`` is the host's."""

    def end_cell(self, message: dict[str, Any]) -> None:
        """Take note that a cell has ended; ``message`` is the host's."""

    def asking(self, violation: Violation) -> None:
        """Take note that a person is asked about a held call: a note of the answer will be wanted soon."""

    def answering(self, violation: Violation, answer: str) -> bool:  # noqa: ARG002 - for those who keep notes
        """Make a lasting note of a held call that a person was asked about, before it is answered; False: it failed.

        ``answer`` is once, session, no, or why there is none (policy/asking.py). What can't be noted is refused.
        """
        return True

    def due_seconds(self) -> float | None:
        """Return in how many seconds :meth:`catch_up` wants to be called; None: not by the clock."""
        return None

    def catch_up(self) -> dict[str, Any] | None:
        """Do what is due; return a cause where the worker must be killed for it."""
        return None

    def descriptors(self) -> Iterable[int]:
        """Return what has to be watched for input, asked again after each turn."""
        return ()

    def serve(self, ready: dict[int, int]) -> None:
        """Serve those of :meth:`descriptors` that are in ``ready``."""

    def close(self) -> None:
        """Release all; the supervisor ends."""
