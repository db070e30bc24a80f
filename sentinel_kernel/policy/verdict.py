"""Judging a held call: what to answer, and whether to tell about it; pure and total."""

from __future__ import annotations

import errno

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.asking import is_askable
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP, OUTSIDE, read_address
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule
    from sentinel_kernel.policy.request import Request

REFUSE = "refuse"
CONTINUE = "continue"
KILL = "kill"
ASK = "ask"

_CONNECT_ADDRESS = 1


class Verdict(Record):
    """The answer to one call.

    ``kind`` is refuse (with ``errno``), continue, kill (while the call is still held), or ask (refuse, with
    ``errno``, unless the person lets it continue). ``report`` tells whether it becomes a violation. ``errno`` of a
    continued call is what the Linux kernel will answer, or 0.
    """

    kind: str
    errno: int
    rule: CompiledRule
    report: bool

    @property
    def silent(self) -> bool:
        """Whether nobody is told."""
        return not self.report


def judge(request: Request, policy: CompiledPolicy) -> Verdict:
    """Return the verdict on ``request``.

    What is refused or continued depends on registers alone; the bytes that were copied only decide whether a
    call that continues anyway is worth telling about.
    """
    decision = policy.decide(request.architecture, request.number, request.arguments)
    action, rule = decision.action, decision.rule
    match action.kind:
        case ActionKind.ALLOW:
            return Verdict(CONTINUE, 0, rule, report=False)
        case ActionKind.LOG:
            report, number = _log(request, rule)
            return Verdict(CONTINUE, number, rule, report=report)
        case ActionKind.ERRNO:
            return Verdict(REFUSE, action.errno_seen, rule, report=False)
        case ActionKind.KILL:
            return Verdict(KILL, errno.EPERM, rule, report=True)
        case ActionKind.NOTIFY | ActionKind.ASK:
            # Compiling leaves no ASK on a call with pointers; should one come all the same, it is refused.
            asks = action.kind is ActionKind.ASK and is_askable(rule.syscall) and not request.copied
            return Verdict(ASK if asks else REFUSE, action.errno_seen, rule, report=True)
    return Verdict(REFUSE, errno.EPERM, rule, report=True)  # type: ignore[unreachable] # fails closed


def _log(request: Request, rule: CompiledRule) -> tuple[bool, int]:
    """Return whether a logged call is worth telling, and what the Linux kernel will answer (0: unknown)."""
    if rule.syscall != "connect":
        return True, 0
    reach = read_address(request.copied.get(_CONNECT_ADDRESS, b"")).reach
    if reach == OUTSIDE:
        return True, errno.ENETUNREACH
    if reach == NAME_LOOKUP:
        return True, errno.ECONNREFUSED
    return False, 0
