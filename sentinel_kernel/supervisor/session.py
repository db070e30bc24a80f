"""What the host asks of the supervisor about the sandbox in use, and who watches that sandbox."""

from __future__ import annotations

import contextlib
import select
from functools import partial

from sentinel_kernel.record import replace
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.current import (
    Phase,
    begin_places,
    end_places,
    interrupt,
    watch_dump,
)
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.lifetime import Lifetime
from sentinel_kernel.supervisor.switching import change_profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.files import Files
    from sentinel_kernel.supervisor.host_changes import HostChanges
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.keeper import Keeper
    from sentinel_kernel.supervisor.preparation import StartRequest
    from sentinel_kernel.supervisor.watchers import Watchers


class Session:
    """A kernel's supervision, from one host to its next one."""

    def __init__(self, host: HostLink, poll: select.poll, package_directory: str) -> None:
        """Speak to ``host``, watch through ``poll``; ``package_directory`` is the folder of sentinel_kernel."""
        self._host = host
        self._poll = poll
        self._ledger = Ledger(self._send_violation)
        self._keepers: list[Keeper] = []
        self._kept_descriptors: set[int] = set()
        self._waiting: list[Callable[[], None]] = []  # ends and begins of cells, for when no keeper is busy
        self._watchers: Watchers | None = None
        self._files: Files | None = None
        self._host_changes: HostChanges | None = None
        self._first: StartRequest | None = None  # what the host began with
        self.life = Lifetime(host, poll, package_directory, self._ledger, self._keepers)

    @property
    def watchers(self) -> Watchers:
        """Who watches the sandbox."""
        if self._watchers is None:
            from sentinel_kernel.supervisor.files import Files  # noqa: PLC0415 - as told of watchers
            from sentinel_kernel.supervisor.home_files import HomeFiles  # noqa: PLC0415 - as told there
            from sentinel_kernel.supervisor.host_changes import HostChanges  # noqa: PLC0415 - as told there
            from sentinel_kernel.supervisor.watchers import Watchers  # noqa: PLC0415 - as told there

            host_pid, backends = lambda: self._host.pid, self.life.backends
            self._watchers = Watchers(
                self._event, self._interrupt, self._ledger, self._keepers, host_pid, backends
            )
            self._files = Files(self._event, lambda: self.life.request)
            self._host_changes = HostChanges()
            self._keepers += [self._files, HomeFiles(self._event), self._host_changes]
        return self._watchers

    @property
    def kernel(self) -> str:
        """What stays the same when the server restarts the kernel; empty before the first start."""
        return self.life.request.kernel if self.life.request is not None else ""

    def meet(self, host: HostLink) -> None:
        """Speak to the kernel's next host from here on; it starts its sandbox itself."""
        self._host = self.life.host = host
        self.watchers.questions.forget()
        if self.watchers.way_out is not None:
            self.watchers.way_out.forget()
        self._waiting.clear()  # nobody waits for an answer any more
        self.life.request = None
        self.life.ending = False

    def close(self) -> None:
        """Leave nothing behind."""
        self.life.close()
        for keeper in self._keepers:
            keeper.close()

    def serve(self, ready: dict[int, int]) -> bool:
        """Serve what sandboxes have to say; False where the one in use is another one, or none, afterwards."""
        if not self.is_held_call(ready):
            for keeper in self._keepers:
                keeper.serve(ready)
            self._watch_keepers()  # a sandbox that is made now may get the number of what they have closed
        return self.life.serve(ready)

    def is_held_call(self, ready: dict[int, int]) -> bool:
        """Tell whether nothing is ready but calls that are held."""
        current = self.life.current
        return (
            current is not None
            and len(ready) == 1
            and ready.get(current.sandbox.listener.descriptor, 0) == select.POLLIN
        )

    @property
    def as_it_was(self) -> bool:
        """Whether the calls answered last were connections made at once: nothing else is to be watched, or due."""
        current = self.life.current
        return current is not None and current.handler.unsettled == 0

    def catch_up(self) -> None:
        """Do what is due by the clock."""
        if self._ledger.next_flush_seconds() == 0.0:
            self._ledger.flush()
        self.life.catch_up()
        for keeper in self._keepers:
            cause = keeper.catch_up()
            if cause is not None:
                self._watch_keepers()  # as in serve
                self.life.kill_worker(cause)
        while self._waiting and not self._is_busy():
            self._waiting.pop(0)()
        self._watch_keepers()

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
        if self._waiting and not self._is_busy():
            dues.append(0.0)
        return [due for due in dues if due is not None]

    def _is_busy(self) -> bool:
        return any(keeper.busy for keeper in self._keepers)

    def _watch_keepers(self) -> None:
        """Watch what the keepers want watched; at once where they may have closed one, before its number is reused."""
        wanted = {descriptor for keeper in self._keepers for descriptor in keeper.descriptors()}
        for descriptor in wanted - self._kept_descriptors:
            self._poll.register(descriptor, select.POLLIN)
        for descriptor in self._kept_descriptors - wanted:
            with contextlib.suppress(KeyError):
                self._poll.unregister(descriptor)
        self._kept_descriptors = wanted

    def start(self, identifier: object, message: dict[str, Any]) -> None:
        """Replace the sandbox, if any, by one that ``message`` asks for; answered once it is up or has failed."""
        self.life.answer_start({"message": "another sandbox was asked for"})
        # No number comes twice while a host lives, whichever supervisor it has: a death is told by it, once.
        self.life.generation = max(self.life.generation, int(message.get("generation") or 0))
        if self._watchers is not None or message.get("payload"):
            self._configure(message)
            self._watch_keepers()
            self.life.start(message, identifier)
        else:
            self.life.start(message, identifier)
            self._configure(message)  # while the interpreter in the sandbox starts
        if message.get("reason") == "start":
            self._first = self.life.request

    def _configure(self, message: dict[str, Any]) -> None:
        self.watchers.configure(message)
        if self._files is not None:
            self._files.configure(message)

    def begin_cell(self, identifier: object, message: dict[str, Any]) -> None:
        """Refresh the workspace and forget the last cell's violations, then answer; not before the last one's end."""
        if self._files is not None:
            self._files.cell_waits(message)
        if self.life.current is not None and self.life.current.sandbox.live:
            self.watchers.refresh([mount.context for mount in self.life.current.sandbox.live])
        self._in_turn(partial(self._begin_cell, identifier, message))

    def _begin_cell(self, identifier: object, message: dict[str, Any]) -> None:
        self.life.spare.used()
        self._ledger.begin_cell()
        if self.life.current is not None:
            begin_places(self.life.current, message)
        fault: dict[str, Any] = {}
        try:
            if (current := self.life.current) is not None:
                changes = self._host_changes
                current.sandbox.refresh_workspace(beside=changes is not None and changes.unchanged(current))
        except OSError as error:
            if self._host_changes is not None:
                self._host_changes.forget()
            fault = {"message": f"refresh_workspace: {error}"}
        for keeper in self._keepers:
            keeper.begin_cell(message)
        self._host.reply(identifier, ok=not fault, fields=fault)

    def end_cell(self, identifier: object, message: dict[str, Any]) -> None:
        """Send the final counts of a cell's violations, then answer."""
        self._in_turn(partial(self._end_cell, identifier, message))

    def _in_turn(self, call: Callable[[], None]) -> None:
        if self._waiting or self._is_busy():
            self._waiting.append(call)
        else:
            call()

    def _end_cell(self, identifier: object, message: dict[str, Any]) -> None:
        if self.life.current is not None:
            end_places(self.life.current, message)
        self._ledger.flush()
        self._end_keepers(identifier, message, list(self._keepers))

    def _end_keepers(self, identifier: object, message: dict[str, Any], keepers: list[Keeper]) -> None:
        """Tell ``keepers``, in their order; the answer comes when all are done."""
        while keepers:
            keeper = keepers.pop(0)
            keeper.end_cell(message)
            if keeper.busy:
                self._waiting.insert(0, partial(self._end_keepers, identifier, message, keepers))
                return
        self._host.reply(identifier, ok=True)

    def explain(self, identifier: object, message: dict[str, Any]) -> None:
        """Answer whether the sandbox caused an error, which may take a moment; no error of ours is in its way."""
        host, current = self._host, self.life.running

        def done(found: dict[str, Any]) -> None:
            host.reply(identifier, ok=True, fields=found)
            if found:
                self.watchers.recorder.explained(message, found)

        if current is None:
            done({})
            return
        if current.held_line is not None:
            current.held_line.settle(now=True)
        try:
            self.watchers.explaining.explain(current, self.life.generation, message, done)
        except OSError:
            done({})  # no descriptor or process was to be had: the error is shown as it is

    def interrupt(self, identifier: object, message: dict[str, Any]) -> None:
        """Interrupt what runs in the worker, or end one that should have left and is still the one that is there."""
        current = self.life.running
        if message.get("leave") is True:
            if message.get("generation") == self.life.generation:
                self.life.kill_worker({"kind": "exit", "status": 0})
            self._host.reply(identifier, ok=True)
            return
        self._host.reply(identifier, ok=current is not None and self._interrupt(current))

    def _interrupt(self, current: Current) -> bool:
        self.watchers.share.resume()
        done = interrupt(current)
        self.watchers.questions.interrupt()
        if self.watchers.way_out is not None:
            self.watchers.way_out.interrupt()
        return done

    def files(self, identifier: object, message: dict[str, Any]) -> None:
        """List, compare, commit or discard what cells wrote; answered once that is done."""
        host = self._host

        def reply(fields: dict[str, Any]) -> None:
            host.reply(identifier, ok=fields.pop("ok", False) is True, fields=fields)

        way_out = self._watchers.way_out if self._watchers is not None else None
        if self._files is None:
            reply({"code": "no_sandbox", "message": ""})
        elif message.get("do") == "trial_begin" and way_out is not None and way_out.connected:
            # What is connected before can be written to by the copy, and nobody could tell the two apart.
            reply({"code": "connected", "message": ""})
        else:
            self._files.request(identifier, message, reply)

    def watch(self, identifier: object, message: dict[str, Any]) -> None:
        """Send samples of what is used from here on, or no more."""
        self.watchers.meter.watch(on=message.get("on") is True)
        self._host.reply(identifier, ok=True)

    def answer(self, identifier: object, message: dict[str, Any]) -> None:
        """Answer a held call as the person did."""
        known = self.watchers.questions.answer(
            str(message.get("ask") or ""), str(message.get("answer") or "")
        )
        self._host.reply(identifier, ok=known)

    def change_profile(self, identifier: object, message: dict[str, Any]) -> None:
        """Change the running sandbox to another profile; answered with whether that can be done in place."""
        name, told = str(message.get("profile") or ""), {"live": False, "obstacles": []}
        running, request = self.life.running, self.life.request
        if running is not None and request is not None:
            rules = self._files is not None and self._files.profile_changes()
            used = self.watchers.meter.used_bytes
            self.life.request, told = change_profile(running, request, name, used, rules_on_files=rules)
            self.watchers.recorder.changed("profile", name, told, self.life.current)
            self.catch_up()  # the next request may be here: what the change takes away is gone before it is served
        self._host.reply(identifier, ok=True, fields=told)

    def limit(self, identifier: object, message: dict[str, Any]) -> None:
        """Set limits of the person's own, or tell those in force; answered with what came of it."""
        from sentinel_kernel.supervisor.own_limits import change_limits, limits_in_force  # noqa: PLC0415 - seldom

        told: dict[str, Any] = {"live": False}
        if self.life.running is not None and self.life.request is not None:
            running, request, meter = self.life.running, self.life.request, self.watchers.meter
            if message.get("limits") or message.get("drop"):
                self.life.request, told = change_limits(running, request, message, meter.used_bytes)
                self.watchers.recorder.changed("limits", "", told, self.life.current)
            else:
                told = limits_in_force(running, request, meter)
        self._host.reply(identifier, ok=True, fields=told)

    def network(self, identifier: object, message: dict[str, Any]) -> None:
        """Allow hosts that the person has agreed to, or tell what was tried."""
        way_out, running, request = self.watchers.way_out, self.life.running, self.life.request
        told: dict[str, Any] = {"serves": False}
        if running is not None and way_out is not None and way_out.serves:
            if message.get("do") == "allow" and request is not None:
                rule = str(message.get("rule") or "")
                way_out.allow(rule)
                # What takes the sandbox's place has a way out too, whatever the profile is by then.
                self.life.request = replace(request, hosts=tuple(dict.fromkeys((*request.hosts, rule))))
                self.watchers.recorder.note("allow", rule, {"rule": rule})
            told = way_out.told()
        elif running is not None:
            from sentinel_kernel.supervisor.network.fence import is_possible  # noqa: PLC0415 - few ask for it

            told |= {"allow": running.preparation.profile.network.allow, "possible": is_possible()}
        self._host.reply(identifier, ok=True, fields=told)

    def mount(self, identifier: object, message: dict[str, Any]) -> None:
        """Show a folder of the host in the running sandbox, or tell which there are; answered once that is done."""
        host = self._host
        self.watchers.live_mounts.request(
            self.life.running, message, lambda told: host.reply(identifier, ok=True, fields=told)
        )

    def person(self, identifier: object, message: dict[str, Any]) -> None:
        """Take note that a cell waits for the person, or no longer."""
        self.watchers.clock.person_asked(message)
        self._host.reply(identifier, ok=True)

    def spare(self, identifier: object, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are served alike
        """Make a spare, and answer."""
        self.make_spare()
        self._host.reply(identifier, ok=True)

    def make_spare(self, *, for_next_host: bool = False) -> None:
        """Make a spare, if there is memory for it; in the place of a sandbox that has just ended, there is.

        The next host begins as this one did: without what the person has changed or allowed meanwhile.
        """
        request = self._first if for_next_host and self._first is not None else self.life.request
        if request is not None and self.life.phase in (Phase.RUNNING, Phase.NONE):
            scarce = self.life.phase is Phase.RUNNING
            self.life.spare.make(request, scarce=scarce, lesser=self.life.lesser)

    def audit(self, identifier: object, message: dict[str, Any]) -> None:  # noqa: ARG002 - all are served alike
        """Answer with the audit's state once all that was reported is written."""
        self.watchers.recorder.sync(
            lambda state: self._host.reply(identifier, ok=True, fields={"audit": state})
        )

    def answered(self, identifier: object, message: dict[str, Any]) -> None:
        """Have a cell in the audit that no worker ever had."""
        self.watchers.recorder.begin_cell(message)
        self.watchers.recorder.end_cell(message)
        self._host.reply(identifier, ok=True)

    def words(self, identifier: object, message: dict[str, Any]) -> None:
        """Take the words that the person was shown for a refusal."""
        self.watchers.recorder.words(message)
        self._host.reply(identifier, ok=True)

    def _event(self, name: str, fields: dict[str, Any]) -> None:
        line = self.life.current.held_line if self.life.current is not None else None
        if name == protocol.EVENT_LIMIT and line is not None and line.expected:
            line.afterwards(lambda: self._host.event(name, fields))  # it may tell where this was
        else:
            self._host.event(name, fields)

    def _send_violation(self, violation: Violation) -> bool:
        self.watchers.recorder.violation(violation)
        told = {"generation": self.life.generation, "violation": violation.to_json()}
        return self._host.violation(told)
