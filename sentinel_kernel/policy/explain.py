"""Tells a person what a policy does with a call and why, or sums up the whole policy."""

from __future__ import annotations

from sentinel_kernel.abi.architecture import is_known_anywhere
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.in_words import BY_ARGUMENTS, calls, counted, limits, network
from sentinel_kernel.policy.mapping import PSEUDO_CALLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule, Override

_WIDTH = 100
_MEANINGS = {
    ActionKind.ALLOW: "allowed",
    ActionKind.ERRNO: "refused without a word",
    ActionKind.NOTIFY: "refused, recorded and explained in the cell",
    ActionKind.KILL: "recorded and explained, then the sandbox is ended before the call takes effect",
    ActionKind.LOG: "allowed, and recorded where it is worth it",
    ActionKind.ASK: "held until the person has answered; refused and explained where the answer is no, or none",
}
_ORIGINS = {
    "default": "the profile's default",
    "floor": "fixed for every profile",
    "rung": "fixed for the landlock rung",
    "worker": "the worker needs it, whatever the profile says",
}


def explain(policy: CompiledPolicy, syscall: str | None = None) -> str:
    """Return what ``policy`` does with ``syscall``, or with everything.

    Raises:
        SentinelError: there is no such call on any machine.

    """
    return _summary(policy) if syscall is None else _call(policy, syscall)


def _call(policy: CompiledPolicy, syscall: str) -> str:
    if syscall in PSEUDO_CALLS:
        return f"{syscall} under {policy.profile_name}: KILL, in every profile."
    if not is_known_anywhere(syscall):
        raise SentinelError(
            f"'{syscall}' is no system call of Linux.", "syscalls(2) lists them: socket, connect, mount ..."
        )
    machine = policy.architecture.machine
    number = policy.architecture.syscalls.get(syscall)
    if number is None:
        return f"{syscall}: there is no such call on {machine}."
    lines = [f"{syscall} (number {number} on {machine}) under {policy.profile_name}:"]
    for rule in policy.rules[number]:
        lines += _rule_lines(rule)
    overrides = [item for item in policy.overrides if item.by.number == number]
    for item in overrides:
        lines += _override_lines(item)
    return "\n".join(lines)


def _rule_lines(rule: CompiledRule) -> list[str]:
    condition = " and ".join(map(str, rule.tests)) if rule.tests else "otherwise"
    lines = [f"  {condition}: {rule.action} ({_MEANINGS[rule.action.kind]})"]
    origin = _ORIGINS.get(rule.origin, f"rule {rule.place}")
    lines.append(f"    {origin}" + (f": {rule.reason}" if rule.reason else ""))
    return lines


def _override_lines(item: Override) -> list[str]:
    said, by = item.overridden, item.by
    where = f" where {' and '.join(map(str, by.tests))}" if by.tests else ""
    return [
        f"  {said.place} says {said.action}; {by.action} wins{where}:",
        f"    {_ORIGINS[by.origin]}: {by.reason}",
    ]


def _summary(policy: CompiledPolicy) -> str:
    profile = policy.profile
    lines = [f"{profile.name}: {profile.description}" if profile.description else profile.name]
    lines.append(f"What no rule names: {profile.default_action} ({_MEANINGS[profile.default_action.kind]}).")
    groups = calls(policy)
    for title in sorted(groups, key=lambda name: (name == BY_ARGUMENTS, name != "ALLOW", name)):
        lines.append(f"{title}: {counted(len(groups[title]))}")
        lines += _wrapped(groups[title])
    lines.append(
        "Numbers that this version does not know: ERRNO(ENOSYS). Calls of other machines and x32: KILL."
    )
    if found := list(limits(profile.resources)):
        lines.append("Limits:")
        lines += _wrapped(found, ", ")
    lines.append(f"Network: {network(policy)}.")
    lines += _overridden(policy)
    return "\n".join(lines)


def _still_there(policy: CompiledPolicy, rule: CompiledRule) -> bool:
    return any(kept.place == rule.place and kept.origin == rule.origin for kept in policy.rules[rule.number])


def _overridden(policy: CompiledPolicy) -> Iterable[str]:
    """Yield what of the profile's own rules does not hold."""
    written = [item for item in policy.overrides if item.overridden.origin == "profile"]
    if not written:
        return
    yield "Rules of the profile that do not hold, or not in full (explain PROFILE SYSCALL says more):"
    seen: set[tuple[str, str]] = set()
    for item in written:
        key = (item.overridden.syscall, item.overridden.place)
        if key not in seen:
            seen.add(key)
            part = " in part" if _still_there(policy, item.overridden) else ""
            yield (
                f"  {item.overridden.syscall}: {item.overridden.action} gives way{part} to {item.by.action}, "
                f"as {item.by.reason}"
            )


def _wrapped(words: Iterable[str], separator: str = " ") -> list[str]:
    lines, line = [], " "
    for word in words:
        if len(line) + len(word) + 1 > _WIDTH:
            lines.append(line)
            line = " "
        line += f" {word}" if line == " " or separator == " " else f"{separator}{word}"
    return [*lines, line]
