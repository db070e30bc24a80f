"""The worker's life as the host sees it: start, answer, switch, death, unavailability and the end."""

from __future__ import annotations

import time
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.inner import Inner, close_all
from sentinel_kernel.kernel.kept import Kept
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.problems import dies_at_start, forbidden, no_answer, no_supervisor, refused_start
from sentinel_kernel.kernel.supervisor_link import SupervisorLink
from sentinel_kernel.kernel.supervisor_process import (
    PersonsOwn,
    SupervisorProcess,
    start_request,
    start_supervisor,
)
from sentinel_kernel.kernel.unavailable import Problem
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.large_frame import Ledger
    from sentinel_kernel.kernel.life_listener import Listener
    from sentinel_kernel.kernel.loop import Loop, Timer
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.wire import Json

START_SECONDS = 150.0
ANSWER_SECONDS = 60.0
"""How long a sandbox that is up may take until its worker answers."""

STOP_SECONDS = 2.0
"""How long the end of the supervisor is awaited; it goes on saving files when the host has left."""

STARTS = 3
"""How many supervisors may end before one gets a sandbox up; after that it is this machine's fault."""

DEATHS, DEATH_SECONDS = 5, 60.0
"""After so many deaths within this time the kernel exits, so that the server's own limit applies."""

_END_SECONDS = 2.0
"""How long a worker may have closed its channels without the supervisor telling of its death."""


class State(Enum):
    """Where the worker is."""

    STARTING = "starting"
    READY = "ready"
    UNAVAILABLE = "unavailable"
    STOPPING = "stopping"


class Lifecycle:
    """Owns the supervisor's link and the channels to the worker."""

    def __init__(self, loop: Loop, settings: Settings, ledger: Ledger, listener: Listener) -> None:
        self.state = State.STARTING
        self.profile = settings.profile
        self.own_limits: dict[str, float | None] = {}
        """Limits that the person has set (policy/own_limits.py); every sandbox gets them."""

        self.granted_limits: tuple[str, ...] = ()
        """Those that the person was asked about, because they go beyond the ceiling."""

        self.granted_hosts: tuple[str, ...] = ()
        """Rules of hosts that the person has allowed; every sandbox can reach them, where its profile has a network."""

        self.generation = 0
        self.ready: Json = {}
        """The supervisor's last ``ready`` event."""

        self.problem: Problem | None = None
        self.inner: Inner | None = None
        self.link: SupervisorLink | None = None
        self.told: dict[str, Callable[[Json], None]] = {}
        """Event -> who is told of it; for events about the worker of this generation that change nothing here."""

        self._loop = loop
        self._settings = settings
        self._ledger = ledger
        self._listener = listener
        self._after_death = False
        self._dead_generation = 0
        self._was_ready = False
        self._failed_starts = 0
        self._silent_deaths = 0
        """How many workers in a row died before they answered."""

        self._start_pending = True
        """The answer to the last start request is out: what is ready before it is an older sandbox."""

        self._starts = 0
        """How many sandboxes were asked for."""

        self._deaths: deque[float] = deque()
        self._answer_timer: Timer | None = None
        self._end_timer: Timer | None = None
        self.kept = Kept()
        """The sandbox's changed files: if the supervisor is killed, the next one saves them from here."""

        self._switched: Callable[[bool], None] | None = None

    # --- the supervisor

    def attach(self, supervisor: SupervisorProcess | Exception) -> None:
        """Take over the supervisor that was started, or the error that kept it from starting."""
        if isinstance(supervisor, Exception):
            self._not_started(supervisor)
            return
        self.link = SupervisorLink(self._loop, supervisor, self._on_event, self._supervisor_gone)
        self.link.expect_first(self._newest_start(), START_SECONDS)

    def _start_sandbox(self, reason: str, first_execution_count: int = 1) -> None:
        """Ask for a fresh sandbox, of a fresh supervisor where the old one is gone."""
        self.state = State.STARTING
        self._start_pending = True
        own = PersonsOwn(dict(self.own_limits), self.granted_limits, self.granted_hosts)
        extra: tuple[str, ...] = ()
        if first_execution_count > 1:
            extra = (f"--SentinelKernel.first_execution_count={first_execution_count}",)
        if self.link is not None and not self.link.gone:
            request = start_request(
                self._settings,
                0,
                self.profile,
                reason,
                extra,
                own=own,
                generation=self.generation,
            )
            self.link.request(protocol.OP_START, request, self._newest_start(), START_SECONDS)
            return
        self._was_ready = False
        kept, self.kept = self.kept, Kept()
        try:
            process = start_supervisor(
                self._settings,
                self.profile,
                reason,
                extra_arguments=extra,
                orphans=kept,
                own=own,
                generation=self.generation,
            )
        except (OSError, SentinelError) as error:
            self._not_started(error)
        else:
            self.attach(process)
        finally:
            kept.close()

    def _not_started(self, error: Exception) -> None:
        fault = self._settings.fault
        self._unavailable(forbidden(fault) if error is fault else no_supervisor(str(error)))

    def _newest_start(self) -> Callable[[Json], None]:
        """Return who is told of the answer to a start request; nobody is, once another sandbox was asked for."""
        self._starts += 1
        number = self._starts
        return lambda reply: self._on_started(reply) if number == self._starts else None

    def _on_started(self, reply: Json) -> None:
        self._start_pending = False
        if reply.get("ok") is True:
            self._maybe_ready()
        elif self.state is State.STARTING:
            message = str(reply.get("message") or "The supervisor refused to start a sandbox.")
            self._unavailable(refused_start(message))

    def _supervisor_gone(self, reason: str) -> None:
        """Tell of it, then start a new supervisor, unless this one never got a sandbox up."""
        if self.state is State.STOPPING:
            self._loop.stop()
            return
        log(reason)
        self._close_inner()
        if not self._was_ready:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                self._unavailable(no_supervisor(reason))
            else:
                self._start_sandbox("start")
            return
        self._died({"kind": "supervisor_error", "detail": reason}, restart=True)

    # --- events

    def _on_event(self, event: Json, fds: list[int]) -> None:
        name = event.get("event")
        if name == protocol.EVENT_CHANNELS and len(fds) == 4:
            self._open_channels(int(event.get("generation") or 0), fds)
            return
        if name == protocol.EVENT_READY and fds:
            self.kept.close()
            self.kept = Kept(event.get("held"), fds)
        else:
            close_all(fds)
        if name == protocol.EVENT_READY:
            self.ready = event
            self.problem = None
            self._was_ready = True
            self._failed_starts = 0
            self._maybe_ready()
        elif name == protocol.EVENT_VIOLATION and isinstance(event.get("violation"), dict):
            self._listener.violation_reported(event["violation"])
        elif name == protocol.EVENT_AUDIT and isinstance(event.get("audit"), dict):
            self._listener.audit_changed(event["audit"])
        elif name == protocol.EVENT_WORKER_DIED:
            self._worker_died(event)
        elif name == protocol.EVENT_ARTIFACTS:
            files, left_out = int(event.get("files") or 0), int(event.get("left_out") or 0)
            self._listener.files_saved(str(event.get("path") or ""), files, left_out)
        elif name == protocol.EVENT_UNAVAILABLE:
            self._unavailable(Problem.from_event(event))
        elif (told := self.told.get(str(name))) is not None and event.get("generation") == self.generation:
            told(event)

    def _open_channels(self, generation: int, fds: list[int]) -> None:
        if self.state is State.READY:
            # Whatever kept its death from being told: what it had is answered, and its cells don't wait for good.
            cause = {"kind": "supervisor_error", "detail": "another worker is in its place"}
            self._died(cause, restart=False)
        self._cancel_timers()  # an end that was seen was that of the worker before
        self._close_inner()
        self.generation = generation
        self.ready = {}
        if self.state is State.STOPPING:
            close_all(fds)
            return
        self.state = State.STARTING
        self.inner = Inner(self._loop, generation, fds, self._ledger, self._channel_ended, self.broken)
        for channel in ("shell", "control", "stdin", "iopub"):
            self.inner.watch(channel, reading=True)

    def worker_welcomes(self) -> None:
        """Take note that the worker confirmed the subscription."""
        if self.inner is not None:
            self.inner.answered = True
            self._maybe_ready()

    def _maybe_ready(self) -> None:
        if self.state is not State.STARTING or self._start_pending or self.inner is None or not self.ready:
            return
        if not self.inner.answered:
            if self._answer_timer is None:
                self._answer_timer = self._loop.call_later(ANSWER_SECONDS, self._no_answer)
            return
        self._cancel_timers()
        self._silent_deaths = 0
        self.state = State.READY
        after_death, self._after_death = self._after_death, False
        self._listener.worker_answers(after_death=after_death)
        self._tell_switched(succeeded=True)

    def _no_answer(self) -> None:
        self._answer_timer = None
        self._unavailable(no_answer(ANSWER_SECONDS))

    def _unavailable(self, problem: Problem) -> None:
        if self.state is State.STOPPING:
            return
        self._cancel_timers()
        self._close_inner()
        self.problem = problem
        self.state = State.UNAVAILABLE
        self._after_death = False
        log(problem.error("en")["evalue"])
        self._listener.sandbox_unavailable()
        self._tell_switched(succeeded=False)

    # --- deaths

    def _worker_died(self, event: Json) -> None:
        generation = int(event.get("generation") or 0)
        if generation <= self._dead_generation:
            return  # the host had given this one up already
        cause = event.get("cause")
        self._died(cause if isinstance(cause, dict) else {}, restart=event.get("replaced") is not True)

    def _channel_ended(self) -> None:
        if self._end_timer is None and self.state is not State.STOPPING:
            self._end_timer = self._loop.call_later(_END_SECONDS, self._ended_unexplained)

    def _ended_unexplained(self) -> None:
        self._end_timer = None
        self.broken("The worker closed its channels.")

    def broken(self, reason: str) -> None:
        """The worker broke the protocol: it is given up, and a fresh sandbox asked for."""
        if self.state is State.STOPPING or self.inner is None:
            return
        log(reason)
        self._died({"kind": "protocol", "detail": reason}, restart=True)

    def _died(self, cause: Json, *, restart: bool) -> None:
        if self.state is State.STOPPING:
            return
        self._cancel_timers()
        self._dead_generation = max(self._dead_generation, self.generation)
        self._silent_deaths += 1
        self.state = State.STARTING
        self._after_death = True
        self._listener.worker_gone(cause)
        if self.state is State.STOPPING:  # the listener may have ended it all
            return
        self._close_inner()
        if self._silent_deaths > STARTS:
            # No cell did this, and the next worker would do the same: the supervisor ends when its socket closes.
            if self.link is not None:
                self.link.close()
            self._unavailable(dies_at_start(cause, self._silent_deaths))
        elif cause.get("kind") != "rule_kill" and not cause.get("left") and self._dies_often():
            self._listener.died_too_often()
        elif restart:
            self._start_sandbox("restart")

    def _dies_often(self) -> bool:
        """Count a death. One by a KILL rule, or by exit(), is not counted: it was a cell's doing, and explained."""
        now = time.monotonic()
        self._deaths.append(now)
        while now - self._deaths[0] > DEATH_SECONDS:
            self._deaths.popleft()
        return len(self._deaths) >= DEATHS

    # --- what the rest of the host asks for

    def switch(
        self, profile: str, reason: str, first_execution_count: int, done: Callable[[bool], None]
    ) -> None:
        """Replace the sandbox by a fresh one under ``profile``; ``done`` is told whether that worked."""
        self.profile = profile
        self._dead_generation = max(self._dead_generation, self.generation)
        self._close_inner()
        self.problem = None
        self._switched = done
        self._start_sandbox(reason, first_execution_count)

    def stop(self, *, restart: bool = False) -> None:
        """End the sandbox, wait a little for it, then let the loop end.

        The supervisor ends too, save where a client restarts the kernel: then it awaits the next host.
        """
        self.state = State.STOPPING
        self._cancel_timers()
        self._close_inner()
        if self.link is None or self.link.gone:
            self._loop.stop()
            return
        self._loop.call_later(STOP_SECONDS, self._loop.stop)
        self.link.request(
            protocol.OP_STOP, {"restart": restart}, lambda _reply: self._loop.stop(), 2 * STOP_SECONDS
        )

    def close(self) -> None:
        """Close what is still open; a supervisor that is not done yet ends by itself."""
        if self.link is not None:
            self.link.close()
        self._close_inner()
        self.kept.close()

    # --- small parts

    def _tell_switched(self, *, succeeded: bool) -> None:
        if self._switched is not None:
            done, self._switched = self._switched, None
            done(succeeded)

    def _close_inner(self) -> None:
        if self.inner is not None:
            self.inner.close()
            self.inner = None

    def _cancel_timers(self) -> None:
        for timer in (self._answer_timer, self._end_timer):
            if timer is not None:
                timer.cancel()
        self._answer_timer = self._end_timer = None
