"""A profile compiled for one machine: for each call, ordered rules; deciding by them; the filter's rules."""

from __future__ import annotations

import errno

from sentinel_kernel.abi.architecture import X32_SYSCALL_BIT, architecture_of
from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import ALLOW, KILL, Action, ActionKind
from sentinel_kernel.policy.asking import is_askable
from sentinel_kernel.policy.floor import FLOOR, WORKER_NEEDS, FixedRule, is_never_held
from sentinel_kernel.policy.regions import (
    EVERYTHING,
    ArgumentTest,
    Region,
    TooManyRegionsError,
    differences,
    holds,
    intersection,
)
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sentinel_kernel.abi.architecture import Architecture
    from sentinel_kernel.policy.profile import Profile

__all__ = ["ArgumentTest", "CompiledPolicy", "CompiledRule", "Decision", "Override", "compile_policy"]

_FORMAT = "1"
"""Raised whenever the same rules would give another filter."""

_MAXIMUM_PIECES = 512

ORIGIN_PROFILE = "profile"
ORIGIN_DEFAULT = "default"
ORIGIN_FLOOR = "floor"
ORIGIN_WORKER = "worker"
ORIGIN_RUNG = "rung"
ORIGIN_FOREIGN = "foreign"
ORIGIN_UNKNOWN = "unknown"
ORIGIN_SHARED = "shared"


class CompiledRule(Record):
    """One rule of one call; ``tests`` () holds for all arguments.

    ``origin`` is profile, default, floor (never allowed), worker (never refused), rung (refused on this one),
    foreign (another machine's call), unknown (a number without a name) or shared (left to the profile in force).
    ``place`` is where the profile says it.
    """

    syscall: str
    number: int
    tests: Region
    action: Action
    origin: str
    reason: str
    place: str = ""


class Override(Record):
    """A profile's rule that the floor or the worker's needs win over."""

    overridden: CompiledRule
    by: CompiledRule


class Decision(Record):
    """What happens to a call, and the rule that says so."""

    action: Action
    rule: CompiledRule


class CompiledPolicy(Record):
    """The rules of every call of one machine, and what is behind them."""

    profile: Profile
    architecture: Architecture
    rules: Mapping[int, tuple[CompiledRule, ...]]
    """Number -> rules in order; the first that matches wins, the last matches everything."""
    overrides: tuple[Override, ...]
    """Where the floor or the worker's needs changed what a rule of the profile does."""

    @property
    def profile_name(self) -> str:
        """The name of the profile this was compiled from."""
        return self.profile.name

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) over everything that shapes the filter."""
        return _digest(self)

    def decide(self, arch: int, number: int, args: Sequence[int]) -> Decision:
        """Return what happens to one call; total and pure, by register values alone.

        ``arch`` is its AUDIT_ARCH, ``number`` the signed call number, ``args`` six unsigned 64-bit values.
        """
        if arch & 0xFFFFFFFF != self.architecture.audit_arch:
            return _foreign(
                "foreign_architecture", number, "code for another machine has calls of its own numbers"
            )
        if self.architecture.has_x32 and number >= X32_SYSCALL_BIT:
            return _foreign("x32_call", number, "the x32 interface goes round rules that are made for x86_64")
        for rule in self.rules.get(number, ()):
            if holds(rule.tests, args):
                return Decision(rule.action, rule)
        return Decision(_UNKNOWN_ACTION, _unknown_rule(number))

    def filter_rules(self) -> list[CompiledRule]:
        """Return disjoint rules that ALLOW or ERRNO; all else is the filter's default, a notification.

        Raises:
            ProfileError: the argument tests of a call are too many to be told apart.

        """
        return [rule for number in sorted(self.rules) for rule in decided_alone(self.rules[number])]


_UNKNOWN_ACTION = Action(ActionKind.ERRNO, errno.ENOSYS)


def _unknown_rule(number: int) -> CompiledRule:
    reason = "newer than this version of Sentinel knows: the C library falls back where it gets ENOSYS"
    return CompiledRule(f"syscall_{number}", number, EVERYTHING, _UNKNOWN_ACTION, ORIGIN_UNKNOWN, reason)


def _foreign(name: str, number: int, reason: str) -> Decision:
    return Decision(KILL, CompiledRule(name, number, EVERYTHING, KILL, ORIGIN_FOREIGN, reason))


def compile_policy(profile: Profile, machine: str, of_rung: Sequence[FixedRule] = ()) -> CompiledPolicy:
    """Return the policy of ``profile`` on ``machine`` (as uname(2) names it).

    Rules for calls that the machine lacks are dropped. ``of_rung`` holds whatever the profile says, as the
    sandbox is on a rung that can't do without (policy/rung.py).

    Raises:
        UnsupportedHost: there is no system call table for the machine.

    """
    architecture = architecture_of(machine)
    written: dict[str, list[CompiledRule]] = {}
    for rule in profile.syscall_rules:
        for name in rule.syscalls:
            if name in architecture.syscalls:
                compiled = CompiledRule(
                    name,
                    architecture.syscalls[name],
                    rule.region,
                    _answerable(rule.action, name),
                    ORIGIN_PROFILE,
                    rule.comment,
                    rule.place,
                )
                written.setdefault(name, []).append(compiled)
    floor, needs, rung = _by_call(FLOOR), _by_call(WORKER_NEEDS), _by_call(of_rung)
    rules: dict[int, tuple[CompiledRule, ...]] = {}
    overrides: list[Override] = []
    for name, number in architecture.syscalls.items():
        ordered = [*written.get(name, ()), _default_rule(profile, name, number)]
        for fixed in floor.get(name, ()):
            ordered = _with_fixed(ordered, fixed, ORIGIN_FLOOR, overrides)
        for fixed in needs.get(name, ()):
            ordered = _with_fixed(ordered, fixed, ORIGIN_WORKER, overrides)
        for fixed in rung.get(name, ()):
            ordered = _with_fixed(ordered, fixed, ORIGIN_RUNG, overrides)
        rules[number] = reachable(ordered)
    told = tuple(item for item in overrides if item.by in rules[item.by.number])
    return CompiledPolicy(profile, architecture, rules, told)


def _default_rule(profile: Profile, name: str, number: int) -> CompiledRule:
    action, reason = profile.default_action, "no rule of the profile names it"
    if is_never_held(name) and action.kind not in (ActionKind.ALLOW, ActionKind.ERRNO):
        action, reason = (
            Action(ActionKind.ERRNO, errno.EPERM),
            "no rule names it, and it can't be held for an answer",
        )
    action = _answerable(action, name)
    return CompiledRule(
        name, number, EVERYTHING, action, ORIGIN_DEFAULT, reason, f"{profile.name}: $.default_action"
    )


def _answerable(action: Action, name: str) -> Action:
    """Return NOTIFY in place of an ASK that could not be answered with more than no (asking.py)."""
    if action.kind is ActionKind.ASK and not is_askable(name):
        return Action(ActionKind.NOTIFY, action.errno)
    return action


def _by_call(fixed_rules: Sequence[FixedRule]) -> dict[str, list[FixedRule]]:
    result: dict[str, list[FixedRule]] = {}
    for fixed in fixed_rules:
        for name in fixed.syscalls:
            result.setdefault(name, []).append(fixed)
    return result


def _with_fixed(
    ordered: list[CompiledRule], fixed: FixedRule, origin: str, overrides: list[Override]
) -> list[CompiledRule]:
    """Put ``fixed`` before each rule that says otherwise, in the regions where it holds."""
    result: list[CompiledRule] = []
    for rule in ordered:
        if _agrees(rule, fixed, origin):
            result.append(rule)
            continue
        by = replace(rule, action=fixed.action, origin=origin, reason=fixed.reason, place="")
        if fixed.only_in:
            shared = [
                region for only in fixed.only_in if (region := intersection(rule.tests, only)) is not None
            ]
            result += [replace(by, tests=region) for region in shared]
            result.append(rule)
        else:
            shared = [rule.tests]
            kept = [
                region for out in fixed.except_in if (region := intersection(rule.tests, out)) is not None
            ]
            result += [replace(rule, tests=region) for region in kept]
            result.append(by)
        if rule.origin in (ORIGIN_PROFILE, ORIGIN_DEFAULT):
            overrides.extend(Override(rule, replace(by, tests=region)) for region in shared)
    return result


def _agrees(rule: CompiledRule, fixed: FixedRule, origin: str) -> bool:
    """Tell whether ``rule`` may stay as it is beside ``fixed``."""
    if origin == ORIGIN_WORKER:
        return rule.action.kind is ActionKind.ALLOW
    if not rule.action.refuses:
        return False
    # Refused either way. How, is the profile's to say; but libraries fall back only on their errno.
    return not fixed.exact and (rule.origin == ORIGIN_PROFILE or fixed.action.errno is None)


def reachable(ordered: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    """Drop what an earlier rule covers whole, and all behind the first rule without tests."""
    result: list[CompiledRule] = []
    for rule in ordered:
        if any(intersection(rule.tests, earlier.tests) == rule.tests for earlier in result):
            continue
        result.append(rule)
        if not rule.tests:
            break
    return tuple(result)


def _in_filter(action: Action) -> Action | None:
    """Return the action if the filter carries it out alone, None where the supervisor must."""
    return action if action.kind in (ActionKind.ALLOW, ActionKind.ERRNO) else None


def decided_alone(ordered: Sequence[CompiledRule]) -> list[CompiledRule]:
    """Return what the filter decides alone, in rules for any order: each without what earlier, other rules take.

    libseccomp sorts rules as it likes and lets an unconditional rule win over conditional ones.
    """
    if all(_in_filter(rule.action) == ALLOW for rule in ordered):
        return [replace(ordered[-1], tests=EVERYTHING)]
    result: list[CompiledRule] = []
    for position, rule in enumerate(ordered):
        action = _in_filter(rule.action)
        if action is None:
            continue
        others = [earlier.tests for earlier in ordered[:position] if _in_filter(earlier.action) != action]
        try:
            pieces = differences(rule.tests, others, _MAXIMUM_PIECES - len(result))
        except TooManyRegionsError:
            raise ProfileError(
                f"The argument tests of {rule.syscall} are too many to be told apart.",
                rule.place or "$.syscall_rules",
                "Use fewer rules with arguments for one call.",
            ) from None
        result += [replace(rule, tests=piece) for piece in pieces]
    return result


def _digest(policy: CompiledPolicy) -> str:
    import hashlib  # noqa: PLC0415 - OpenSSL takes long to load, and the sandbox is being made meanwhile

    # The ordered rules give the filter's rules; how they do is part of the format.
    lines = [_FORMAT, policy.architecture.machine]
    for number in sorted(policy.rules):
        for rule in policy.rules[number]:
            tests = " ".join(f"{test.index}:{test.mask:x}:{test.value:x}" for test in rule.tests)
            lines.append(f"{number} {rule.action.kind.value} {rule.action.errno} {tests}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
