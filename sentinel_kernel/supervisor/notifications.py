"""Answering held system calls: copy once, judge, record, answer; any error refuses."""

from __future__ import annotations

import errno
import os
import select
import time
from collections import deque

from sentinel_kernel.linux.memory import read_memory
from sentinel_kernel.policy.action import ALLOW, ActionKind
from sentinel_kernel.policy.asking import NOBODY
from sentinel_kernel.policy.request import Request, pointer_copies
from sentinel_kernel.policy.resource import OUTSIDE_NETWORK
from sentinel_kernel.policy.verdict import ASK, CONTINUE, KILL, REFUSE, Verdict, judge
from sentinel_kernel.policy.violation import make_violation
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.linux.seccomp import Listener, Notification
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.policy.violation import Violation
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.network.connects import Connects
    from sentinel_kernel.supervisor.placing import Places
    from sentinel_kernel.supervisor.questions import Questions
    from sentinel_kernel.supervisor.rung_calls import RungCalls
    from sentinel_kernel.supervisor.shares import Shares

_COMMAND_BYTES = 200
_A_TURN = 64
_REMEMBERED = 256
_MOST_ADDRESSED = 32


class NotificationHandler:
    """Answers the notifications of one sandbox by one policy."""

    def __init__(self, listener: Listener, policy: CompiledPolicy, ledger: Ledger, first_pid: int) -> None:
        """Serve ``listener``; ``worker_pid`` is set once the worker is known, ``first_pid`` is pid 1 inside."""
        self._first_pid = first_pid
        self._commands: dict[int, str] = {}
        self._refusals: dict[tuple[object, ...], int] = {}
        self._going: dict[int, bool] = {}
        self._listener = listener
        self._poll = select.poll()
        self._poll.register(listener.descriptor, select.POLLIN)
        self._policy = policy
        self._ledger = ledger
        self.worker_pid = -1
        self.places: Places | None = None
        """Finds where refusals come from, once there is a worker."""
        self.addressed: deque[tuple[float, Request]] = deque(maxlen=_MOST_ADDRESSED)
        """The worker's last calls with an address or the like, and when they came (monotonic seconds)."""
        self.killed_by: Violation | None = None
        self.killed_at: Place | None = None
        self.must_kill = False
        """The sandbox is to be killed now: it is known, or can't be known, where the call came from."""
        self.unsettled = 0
        """How many of the last turn's calls were no connections made at once, for which nothing is to be watched."""

        self.shares: Shares | None = None
        """Counts the calls of policy/measured.py; before there is a worker nothing hostile makes any."""
        self.way_out: Connects | None = None
        """Makes the connections of a sandbox that may reach hosts."""
        self.rung: RungCalls | None = None
        """Makes the calls that Landlock does not see, on the landlock rung."""
        self.questions: Questions | None = None
        """Holds what the person is asked about, once there is a worker."""

    @property
    def policy(self) -> CompiledPolicy:
        """The policy in force."""
        return self._policy

    @policy.setter
    def policy(self, policy: CompiledPolicy) -> None:
        self._policy = policy
        self._refusals.clear()
        self._going.clear()

    def serve_waiting(self) -> bool:
        """Answer what waits; True where the sandbox must be killed, the call still held.

        A bounded number at a time: a flood must not keep the loop from its other work.
        """
        self.unsettled = 0
        for _ in range(_A_TURN):
            if self.killed_by is not None:
                return self.must_kill  # nothing else is answered any more
            if self.serve_one():
                return True
            if self.unsettled == 0:
                break  # a connection was made: the loop's own wait tells of the next call
            if not any(event & select.POLLIN for _, event in self._poll.poll(0)):
                break
        return False

    def serve_one(self) -> bool:
        """Take one notification and answer it; True where the sandbox must be killed instead, the call still held.

        Precondition: poll(2) said that there is one.
        """
        notification = self._listener.receive()
        if notification is None:
            return False
        self.unsettled += 1
        try:
            return self._serve(notification)
        except Exception:  # noqa: BLE001 - fail closed: whatever went wrong here, the call is refused
            self._listener.refuse(notification.id, errno.EPERM)
            return False

    def _serve(self, notification: Notification) -> bool:
        if self.rung is not None and self.rung.lists(notification.number) and self._allows(notification):
            # Nothing is copied: whose memory is closed to us may open folders all the same, as Landlock says.
            if not self.rung.list_folder(notification):
                self._listener.proceed(notification.id)
            return False
        if self.shares is not None and self.shares.starts_thread(notification) and self._allows(notification):
            self.shares.start_thread(self._listener, notification)
            return False
        copies = pointer_copies(notification.number, notification.architecture)
        pid = self._process_of(notification.thread)
        registers = None
        if not copies:
            registers = (notification.number, notification.architecture, notification.arguments, pid)
            refusal = self._refusals.get(registers)
            if (
                refusal is not None
                and self._listener.is_valid(notification.id)
                and self._ledger.repeat(registers)
            ):
                self._listener.refuse(notification.id, refusal)
                return False
        copied = {
            copy.argument: read_memory(
                notification.thread,
                notification.arguments[copy.argument],
                _copy_length(notification, copy.length_argument, copy.maximum_bytes),
            )
            for copy in copies
        }
        command = self._commands.get(pid)
        if command is None:
            command = self._command_of(pid)
            if pid in (self.worker_pid, self._first_pid):
                self._commands[pid] = command  # these two keep theirs; others come and go under one number
        fenced = self.way_out is not None and self.way_out.takes(notification.number)
        # Everything above was read by a number that another thread may have got meanwhile: only now it is known. Who
        # answers fenced calls reads more by that number, and asks then.
        if not fenced and not self._listener.is_valid(notification.id):
            return False
        request = Request(
            number=notification.number,
            architecture=notification.architecture,
            arguments=notification.arguments,
            tid=notification.thread,
            pid=pid,
            command=command,
            is_worker=pid == self.worker_pid,
            copied=copied,
        )
        return self._answer(notification, request, registers)

    def _allows(self, notification: Notification) -> bool:
        """Tell whether the policy in force lets a call go on without a word, by its registers."""
        decision = self._policy.decide(notification.architecture, notification.number, notification.arguments)
        return decision.action == ALLOW

    def _goes_on(self, request: Request) -> bool:
        """Tell whether the policy in force lets a call go on, with or without a word."""
        if request.number in self._going and request.architecture == self._policy.architecture.audit_arch:
            return self._going[request.number]
        decision = self._policy.decide(request.architecture, request.number, request.arguments)
        goes_on = decision.action.kind in (ActionKind.ALLOW, ActionKind.LOG)
        if self._policy.rules.get(request.number, ())[:1] == (decision.rule,) and not decision.rule.tests:
            self._going[request.number] = goes_on  # whatever its arguments are
        return goes_on

    def _answer(
        self, notification: Notification, request: Request, registers: tuple[object, ...] | None
    ) -> bool:
        way_out = self.way_out
        fenced = way_out is not None and way_out.takes(request.number)
        if way_out is not None and fenced and self._goes_on(request):
            answered = way_out.answer(notification, request)
            if way_out.was_there:
                self._note_address(request)
            if answered:
                self.unsettled -= way_out.at_once
                return False
            verdict = judge(request, self._policy)
            if way_out.is_of_look_up(request):
                verdict = replace(verdict, report=False)
            return self._carry_out(notification, request, registers, verdict)
        if fenced and not self._listener.is_valid(notification.id):
            return False
        self._note_address(request)
        verdict = judge(request, self._policy)
        rung = self.rung if verdict.kind == CONTINUE else None
        if rung is not None and rung.takes(request.number) and rung.answer(notification, request):
            return False
        return self._carry_out(notification, request, registers, verdict)

    def _note_address(self, request: Request) -> None:
        """Note a call of the worker's with an address or the like; precondition: it is known to be that one's."""
        if request.copied and request.is_worker:
            self.addressed.append((time.monotonic(), request))

    def _carry_out(
        self,
        notification: Notification,
        request: Request,
        registers: tuple[object, ...] | None,
        verdict: Verdict,
    ) -> bool:
        asks = verdict.kind == ASK
        if asks and self.questions is not None:
            self.questions.hold(notification, request, verdict)
            return False
        if asks:
            verdict = replace(verdict, kind=REFUSE)
        known = registers if verdict.kind == REFUSE and not asks else None
        violation = None
        if verdict.report:
            made = make_violation(
                request, verdict, self._policy, os.urandom(8).hex(), int(time.time() * 1000)
            )
            if asks:
                made = replace(made, values={**made.values, "answer": NOBODY})
            if self.places is not None:
                made = self.places.described(made, request)
            if verdict.kind == REFUSE and self.places is not None:
                again = self.places.refuse(
                    made, request, known, lambda: self._listener.refuse(notification.id, verdict.errno)
                )
                self._remember(None if again else known, verdict.errno)
                return False
            if verdict.kind == CONTINUE and verdict.errno and self.places is not None:
                made = _with_kind(made, notification, request)
                # It fails at once; one that waits would be interrupted by the signal for the stack.
                self.places.refuse(made, request, None, lambda: self._go_on(notification))
                return False
            violation = self._ledger.record(made, registers if verdict.kind == REFUSE else None)
        if verdict.kind == KILL:
            self.killed_by = violation
            return not self._places_death(request)
        if verdict.kind == CONTINUE:
            self._go_on(notification)
            return False
        self._remember(known if verdict.report else None, verdict.errno)
        self._listener.refuse(notification.id, verdict.errno)
        return False

    def _go_on(self, notification: Notification) -> None:
        """Let a call go on, unless it is one that is counted."""
        if self.shares is None or not self.shares.answer(self._listener, notification):
            self._listener.proceed(notification.id)

    def refuse(
        self,
        notification: Notification,
        request: Request,
        number: int,
        change: Callable[[Violation], Violation],
    ) -> None:
        """Refuse a call that the rules about calls allow, and tell of it as ``change`` says."""
        rule = self._policy.decide(request.architecture, request.number, request.arguments).rule
        verdict = Verdict(REFUSE, number, rule, report=True)
        made = make_violation(request, verdict, self._policy, os.urandom(8).hex(), int(time.time() * 1000))
        made = change(made)
        if self.places is None:
            self._ledger.record(made)
            self._listener.refuse(notification.id, number)
            return
        made = self.places.described(made, request)
        self.places.refuse(made, request, None, lambda: self._listener.refuse(notification.id, number))

    def _places_death(self, request: Request) -> bool:
        """Find where a call comes from that kills; until then it stays held, and so does all else that is held."""
        violation = self.killed_by
        if violation is None or self.places is None:
            return False

        def found(place: Place | None) -> None:
            self.killed_at, self.must_kill = place, True

        return self.places.kill(violation, request, found)

    def _remember(self, registers: tuple[object, ...] | None, number: int) -> None:
        """Have the next call with the same registers refused, and counted, without a look at it."""
        if registers is not None and len(self._refusals) < _REMEMBERED:
            self._refusals[registers] = number

    def _process_of(self, thread: int) -> int:
        """Return the process of a thread; the thread's own number where /proc no longer has it."""
        if thread in (self.worker_pid, self._first_pid):
            return thread
        for pid in (self.worker_pid, self._first_pid):
            if pid > 0 and os.path.exists(f"/proc/{pid}/task/{thread}"):
                return pid
        try:
            with open(f"/proc/{thread}/status", "rb") as file:
                for line in file:
                    if line.startswith(b"Tgid:"):
                        return int(line[5:])
        except (OSError, ValueError):
            pass  # it died meanwhile; its answer will not be wanted either
        return thread

    def _command_of(self, pid: int) -> str:
        try:
            file = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            return os.read(file, _COMMAND_BYTES).replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            return ""
        finally:
            os.close(file)


def _with_kind(made: Violation, notification: Notification, request: Request) -> Violation:
    """Add what kind of socket is to be connected to an address outside."""
    if made.resource != OUTSIDE_NETWORK:
        return made
    from sentinel_kernel.policy.host_remedy import DATAGRAM  # noqa: PLC0415 - few cells connect
    from sentinel_kernel.supervisor.network.datagrams import is_of_datagrams  # noqa: PLC0415 - as above

    if not is_of_datagrams(notification, request.pid):
        return made
    return replace(made, values={**made.values, "socket": DATAGRAM})


def _copy_length(notification: Notification, length_argument: int | None, maximum: int) -> int:
    if length_argument is None:
        return maximum
    return min(notification.arguments[length_argument] & 0xFFFFFFFF, maximum)
