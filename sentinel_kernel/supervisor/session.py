"""What the host asks of the supervisor about the sandbox in use, and who watches that sandbox."""

from __future__ import annotations

import select

from sentinel_kernel.supervisor.current import Phase, interrupt, watch_dump
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.lifetime import Lifetime
from sentinel_kernel.supervisor.switching import change_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.keeper import Keeper


class Session:
    """A kernel's supervision, from one host to its next one."""

    def __init__(self, host: HostLink, poll: select.poll, package_directory: str) -> None:
        """Speak to ``host``, watch through ``poll``; ``package_directory`` is the folder of sentinel_kernel."""
        self._host = host
        self._poll = poll
        self._ledger = Ledger(self._send_violation)
        self._keepers: list[Keeper] = []
        self._kept_descriptors: set[int] = set()
        self.life = Lifetime(host, poll, package_directory, self._ledger, self._keepers)

    @property
    def kernel(self) -> str:
        """What stays the same when the server restarts the kernel; empty before the first start."""
        return self.life.request.kernel if self.life.request is not None else ""

    def meet(self, host: HostLink) -> None:
        """Speak to the kernel's next host from here on; it starts its sandbox itself."""
        self._host = self.life.host = host
        self.life.request = None
        self.life.ending = False

    def close(self) -> None:
        """Leave nothing behind."""
        self.life.close()
        for keeper in self._keepers:
            keeper.close()

    def serve(self, ready: dict[int, int]) -> bool:
        """Serve what sandboxes have to say; False where the one in use is another one, or none, afterwards."""
        for keeper in self._keepers:
            keeper.serve(ready)
        return self.life.serve(ready)

    def catch_up(self) -> None:
        """Do what is due by the clock."""
        if self._ledger.next_flush_seconds() == 0.0:
            self._ledger.flush()
        self.life.catch_up()
        for keeper in self._keepers:
            cause = keeper.catch_up()
            if cause is not None:
                self.life.kill_worker(cause)

    def waits(self) -> list[float]:
        """Return in how many seconds something is due; called before each wait."""
        self._watch_keepers()
        flush = self._ledger.next_flush_seconds()
        dues = [
            self.life.spare.due_seconds(),
            self.life.due_seconds(),
            None if flush is None else max(flush, 0.01),
            *(keeper.due_seconds() for keeper in self._keepers),
        ]
        current = self.life.current
        if current is not None:
            watch_dump(current, self._poll)
            if current.held_line is not None:
                dues.append(current.held_line.due_seconds())
        return [due for due in dues if due is not None]

    def _watch_keepers(self) -> None:
        wanted = {descriptor for keeper in self._keepers for descriptor in keeper.descriptors()}
        for descriptor in wanted - self._kept_descriptors:
            self._poll.register(descriptor, select.POLLIN)
        for descriptor in self._kept_descriptors - wanted:
            self._poll.unregister(descriptor)
        self._kept_descriptors = wanted

    def begin_cell(self, identifier: object, message: dict[str, Any]) -> None:
        """Refresh the workspace and forget the last cell's violations, then answer."""
        self.life.spare.used()
        self._ledger.begin_cell()
        fault: dict[str, Any] = {}
        try:
            if self.life.current is not None:
                self.life.current.sandbox.refresh_workspace()
        except OSError as error:
            fault = {"message": f"refresh_workspace: {error}"}
        for keeper in self._keepers:
            keeper.begin_cell(message)
        self._host.reply(identifier, ok=not fault, fields=fault)

    def end_cell(self, identifier: object, message: dict[str, Any]) -> None:
        """Send the final counts of a cell's violations, then answer."""
        if self.life.current is not None:
            self.life.place_line(self.life.current, now=True)
        self._ledger.flush()
        for keeper in self._keepers:
            keeper.end_cell(message)
        self._host.reply(identifier, ok=True)

    def interrupt(self, identifier: object) -> None:
        """Interrupt what runs in the worker."""
        current = self.life.running
        self._host.reply(identifier, ok=current is not None and interrupt(current))

    def change_profile(self, identifier: object, name: str) -> None:
        """Change the running sandbox to another profile; answered with whether that can be done in place."""
        told: dict[str, Any] = {"live": False, "obstacles": []}
        if self.life.running is not None and self.life.request is not None:
            self.life.request, told = change_profile(self.life.running, self.life.request, name)
        self._host.reply(identifier, ok=True, fields=told)

    def make_spare(self) -> None:
        """Make a spare, if there is memory for it; in the place of a sandbox that has just ended, there is."""
        if self.life.request is not None and self.life.phase in (Phase.RUNNING, Phase.NONE):
            self.life.spare.make(self.life.request, scarce=self.life.phase is Phase.RUNNING)

    def _send_violation(self, violation: Violation) -> bool:
        told = {"generation": self.life.generation, "violation": violation.to_json()}
        return self._host.violation(told)
