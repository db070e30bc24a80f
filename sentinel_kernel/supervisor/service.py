"""The supervisor's loop: hosts that come and go, what they ask for, and what the sandbox has to say."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.hostlink import HostLink
from sentinel_kernel.supervisor.rendezvous import Succession
from sentinel_kernel.supervisor.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_MOST_FAULTS = 20
"""After so many something is wrong that no fresh sandbox mends; the host starts another supervisor."""


_NEVER = float("inf")
_BEHIND_SECONDS = 0.02
"""So long held calls alone are answered: their callers wait for each step of ours. The rest of a turn comes then."""


class Service:
    """Serves one host at a time; when one has left, perhaps the next one of the same kernel."""

    def __init__(self, sock: socket.socket, package_directory: str) -> None:
        """Serve the host at the other end of ``sock``; ``package_directory`` is that of sentinel_kernel."""
        self._host = HostLink(sock)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._wake_reader, self._wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll.register(self._wake_reader, select.POLLIN)
        self._succession = Succession(self._poll)
        self._session = Session(self._host, self._poll, package_directory)
        self._package_directory = package_directory
        self._left = False
        self._goodbye: object = None
        self._stopping = False
        self._faults = 0
        self._due_at: float | None = None
        """When something is due; None: to be asked for (monotonic seconds, as below)."""
        self._behind_since = 0.0
        """When held calls alone began to be answered; 0: all else was done since."""
        session = self._session
        self._operations: dict[str, Callable[[object, dict[str, Any]], None]] = {
            protocol.OP_START: self._session.start,
            protocol.OP_TRY: self._try_start,
            protocol.OP_BEGIN_CELL: session.begin_cell,
            protocol.OP_END_CELL: session.end_cell,
            protocol.OP_EXPLAIN: session.explain,
            protocol.OP_INTERRUPT: session.interrupt,
            protocol.OP_WATCH: session.watch,
            protocol.OP_ANSWER: session.answer,
            protocol.OP_PROFILE: session.change_profile,
            protocol.OP_LIMIT: session.limit,
            protocol.OP_FILES: session.files,
            protocol.OP_MOUNT: session.mount,
            protocol.OP_NETWORK: session.network,
            protocol.OP_PERSON: session.person,
            protocol.OP_AUDIT: session.audit,
            protocol.OP_ANSWERED: session.answered,
            protocol.OP_WORDS: session.words,
            protocol.OP_SPARE: session.spare,
            protocol.OP_TOLD: session.life.leftovers.person_told,
            protocol.OP_STOP: self._stop,
        }

    def run(self) -> None:
        """Serve until the host stops us, goes away for good, or SIGTERM comes; then leave nothing behind."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        try:
            while not self._stopping and (not self._host.gone or self._awaits_next_host()):
                self._turn()
        finally:
            self._succession.close()
            self._session.close()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _awaits_next_host(self) -> bool:
        """Tell whether to go on without a host: the next one of this kernel may come, or has come.

        A host that was killed is perhaps restarted by its server; that is worth waiting for only with a spare.
        """
        if not self._left:
            self._left = True
            self._poll.unregister(self._host.sock)
            with contextlib.suppress(OSError):  # a host that only counts as gone starts another supervisor
                self._host.sock.shutdown(socket.SHUT_RDWR)
            if not self._session.life.ending and self._session.life.spare.there:
                self._succession.open(self._session.kernel)
            self._session.life.end()
        sock = self._succession.next_host()
        if sock is None:
            return self._succession.waiting
        self._host.sock.close()
        self._host = HostLink(sock)
        self._poll.register(sock, select.POLLIN)
        self._left = False
        self._session.meet(self._host)
        return True

    def _turn(self) -> None:
        if self._due_at is None:
            self._due_at = self._next_due()
        wait = self._due_at - time.monotonic()
        ready = dict(self._poll.poll(None if self._due_at == _NEVER else max(0.0, wait) * 1000 + 1))
        due_at, self._due_at = self._due_at, None
        try:
            if not self._session.serve(ready):
                return
            if self._session.is_held_call(ready) and not self._is_due(due_at):
                if self._session.as_it_was:
                    self._due_at = min(due_at, self._behind_since + _BEHIND_SECONDS)
                return
        except Exception as fault:  # noqa: BLE001 - whatever a sandbox says or does, its supervisor goes on
            self._stumbled(fault)
            return
        if self._host.sock.fileno() in ready:
            while not self._stopping and (message := self._host.receive()) is not None:
                self._serve_host(message)
        self._behind_since = 0.0
        try:
            self._session.catch_up()
        except Exception as fault:  # noqa: BLE001 - as above
            self._stumbled(fault)
        self._ends_when_saved()

    def _next_due(self) -> float:
        """Return when something is due (monotonic seconds)."""
        waits = self._session.waits()
        due = self._succession.due_seconds()
        if due is not None:
            waits.append(due)
        due_at = time.monotonic() + min(waits, default=_NEVER)
        return min(due_at, self._behind_since + _BEHIND_SECONDS) if self._behind_since else due_at

    def _is_due(self, due_at: float) -> bool:
        """Tell whether anything is due beside a held call, by the clock or as calls alone had turns."""
        now = time.monotonic()
        self._behind_since = self._behind_since or now
        return now >= min(due_at, self._behind_since + _BEHIND_SECONDS)

    def _stumbled(self, fault: Exception) -> None:
        """End the sandbox over which the supervisor stumbled, and go on with a fresh one. Raises what is too much.

        Fails closed: what is held is refused with the sandbox, and whoever is in a wrong state by now goes with it.
        """
        self._note(fault)
        if self._faults > _MOST_FAULTS:
            raise fault
        self._session.life.broken("the supervisor stumbled over what the sandbox did")

    def _note(self, fault: Exception) -> None:
        """Say in the log where a fault was met, for the first ones; not in its own words, which may be a cell's."""
        self._faults += 1
        if self._faults <= _MOST_FAULTS:
            import traceback  # noqa: PLC0415 - never, if all is well

            print(f"sentinel_kernel: supervisor: {type(fault).__name__}", file=sys.stderr)  # noqa: T201 - the log
            traceback.print_tb(fault.__traceback__, limit=-8)

    def _serve_host(self, message: dict[str, Any]) -> None:
        identifier, operation = message.get("id"), message.get("op")
        serve = self._operations.get(operation) if isinstance(operation, str) else None
        if serve is None:
            self._host.reply(identifier, ok=False, fields={"message": f"unknown op {operation!r}"})
            return
        try:
            serve(identifier, message)
        except Exception as fault:
            if operation == protocol.OP_START:  # nothing in it is a sandbox's
                raise
            self._note(fault)
            self._host.reply(
                identifier, ok=False, fields={"message": "the supervisor stumbled over the request"}
            )

    def _try_start(self, identifier: object, message: dict[str, Any]) -> None:
        """Answer what a start would fail by; where no sandbox is to be kept, the start itself tells."""
        host, current = self._host, self._session.life.running

        def done(problem: dict[str, Any]) -> None:
            host.reply(identifier, ok=True, fields={"problem": problem})

        if current is None:
            done({})
        else:
            self._session.watchers.start_trial.ask(current, message, self._package_directory, done)

    def _stop(self, identifier: object, message: dict[str, Any]) -> None:
        """End the sandbox; where a server starts the kernel again, have one ready for its next host."""
        restart = message.get("restart") is True
        self._session.life.ending = True
        if restart:
            self._succession.open(self._session.kernel)
        self._session.life.end()
        if self._succession.waiting:
            self._host.reply(identifier, ok=True)
            self._session.make_spare(for_next_host=True)
        else:
            # The host hears of it once what the sandbox left is saved; the supervisor goes then.
            self._goodbye = identifier
            self._ends_when_saved()

    def _ends_when_saved(self) -> None:
        if self._goodbye is not None and not self._session.life.leftovers.pending:
            self._host.reply(self._goodbye, ok=True)
            self._stopping = True
