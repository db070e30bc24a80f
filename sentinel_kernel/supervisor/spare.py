"""The warm spare: a second sandbox with a warm interpreter, in which nobody's code ever ran."""

from __future__ import annotations

import contextlib
import os
import select
import time

from sentinel_kernel.errors import BootError, ProtocolError, SentinelError
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.record import replace
from sentinel_kernel.supervisor.current import (
    make_sandbox,
    read_error_output,
    release,
    unwatch,
    watch,
)
from sentinel_kernel.supervisor.facts import available_memory_bytes
from sentinel_kernel.supervisor.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.backend import Backends
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.identities import Identities
    from sentinel_kernel.supervisor.preparation import StartRequest

AMPLE_BYTES = 2 << 30
"""A spare is only made where the machine has this much memory available; it costs some fiftieth of that."""

IDLE_SECONDS = 600.0
"""A spare goes when no cell has begun for this long; the next cell brings another."""

_WARM_SECONDS = 60.0


class Spare:
    """At most one spare, watched through the supervisor's own poll object."""

    def __init__(
        self, poll: select.poll, identities: Identities, backends: Backends, package_directory: str
    ) -> None:
        """Start without one."""
        self._poll = poll
        self._identities = identities
        self._backends = backends
        self._package_directory = package_directory
        self._current: Current | None = None
        self._request: StartRequest | None = None
        self._workspace: tuple[int, int] | None = None
        self._warm = False
        self._deadline = 0.0

    @property
    def there(self) -> bool:
        """Whether there is one, warm or on its way."""
        return self._current is not None

    def make(self, request: StartRequest, *, scarce: bool = True, lesser: bool = False) -> None:
        """Make one that could answer ``request``, unless there is one, or (if ``scarce``) memory is not ample.

        Nor on a ``lesser`` rung, where a sandbox has a folder on the disk.

        A spare is a convenience: where it can't be made there is none, and a start takes its usual time.
        """
        request = _likeness(request)
        if self._current is not None and self._request == request:
            self._deadline = time.monotonic() + (IDLE_SECONDS if self._warm else _WARM_SECONDS)
            return
        self.drop()
        if lesser or request.payload or request.fault or (scarce and available_memory_bytes() < AMPLE_BYTES):
            return
        quiet = Ledger(lambda _violation: True)
        try:
            self._workspace = _identity(request.workspace)
            current = make_sandbox(
                request,
                self._identities,
                self._backends,
                quiet,
                self._package_directory,
                lambda _channels: None,
            )
        except (SentinelError, OSError):
            return  # its cause is told when the sandbox that is really wanted can't be made either
        self._current, self._request, self._warm = current, request, False
        self._deadline = time.monotonic() + _WARM_SECONDS
        watch(current, self._poll)

    def take(self, request: StartRequest, ledger: Ledger) -> tuple[Current, bool] | None:
        """Give away the spare, and whether it is warm yet, if it is what a start would make now.

        Its descriptors stay registered. What is refused in it is counted in ``ledger`` from here on.
        """
        current = self._current
        if current is None:
            return None
        if self._request != _likeness(request) or not self._still_fits(current):
            self.drop()
            return None
        from sentinel_kernel.supervisor.notifications import NotificationHandler  # noqa: PLC0415 - as current.py

        warm, rung, self._current, self._request = self._warm, current.handler.rung, None, None
        current.handler = NotificationHandler(
            current.sandbox.listener, current.switching.policy, ledger, current.sandbox.pid
        )
        current.handler.rung = rung
        return current, warm

    def _still_fits(self, current: Current) -> bool:
        request = self._request
        if request is None:
            return False
        try:
            if self._workspace != _identity(request.workspace):
                return False  # the folder was replaced; the spare shows the old one
            return load_profile(request.profile, request.profile_directories) == current.preparation.profile
        except (SentinelError, OSError):
            return False

    def serve(self, ready: dict[int, int]) -> None:
        """Serve what the spare has to say; it is dropped at the first sign of trouble."""
        current = self._current
        if current is None:
            return
        sandbox = current.sandbox
        if sandbox.error_output in ready and not read_error_output(current):
            unwatch(current, self._poll, sandbox.error_output)
        trouble = sandbox.pidfd in ready or time.monotonic() >= self._deadline
        if not trouble and sandbox.listener.descriptor in ready:
            trouble = (
                not ready[sandbox.listener.descriptor] & select.POLLIN or current.handler.serve_waiting()
            )
        if not trouble and sandbox.control.fileno() in ready:
            trouble = not self._hear(current)
        if trouble:
            self.drop()

    def _hear(self, current: Current) -> bool:
        try:
            event = current.link.receive()
        except ProtocolError:
            return False
        if event is None or event.name != "warm":
            return False
        self._warm = True
        self._deadline = time.monotonic() + IDLE_SECONDS
        return True

    def due_seconds(self) -> float | None:
        """Return in how many seconds :meth:`serve` has to drop it, or None where there is none."""
        return max(0.0, self._deadline - time.monotonic()) if self._current is not None else None

    def used(self) -> None:
        """Take note that a cell begins: the kernel is not idle."""
        if self._warm:
            self._deadline = time.monotonic() + IDLE_SECONDS

    def drop(self) -> None:
        """End the spare, if there is one, and release all that belongs to it."""
        current, self._current, self._request, self._warm = self._current, None, None, False
        if current is None:
            return
        with contextlib.suppress(BootError):
            current.sandbox.end()
        release(current, self._poll)


def _likeness(request: StartRequest) -> StartRequest:
    """Return what two requests must share: all but what the worker is told when it is forked."""
    return replace(request, argv=(), argv_once=())


def _identity(folder: str) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino
