"""What a rule does with a system call."""

from __future__ import annotations

import errno as errno_numbers
from enum import StrEnum

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.record import Record

_HIGHEST_ERRNO = 133  # EHWPOISON, the last of <asm-generic/errno.h>
_EXAMPLE = 'Write "ALLOW", "ERRNO(13)", "NOTIFY", "KILL", "LOG" or "ASK".'


class ActionKind(StrEnum):
    """The kinds of actions, by their names in profiles."""

    ALLOW = "ALLOW"
    ERRNO = "ERRNO"
    """Refuse with an error number, without a word: for probing calls that have a harmless fallback."""
    NOTIFY = "NOTIFY"
    """Refuse, record and explain."""
    KILL = "KILL"
    """Record and explain, then end the sandbox while the call is still held."""
    LOG = "LOG"
    """Allow and record."""
    ASK = "ASK"
    """Hold the call and ask the person; refuse, record and explain where the answer is no, or there is none."""


class Action(Record):
    """A kind, and the error number that the caller sees where the call is refused (None: EPERM)."""

    kind: ActionKind
    errno: int | None = None

    @property
    def refuses(self) -> bool:
        """Whether the call never takes effect under this action."""
        return self.kind not in (ActionKind.ALLOW, ActionKind.LOG, ActionKind.ASK)

    @property
    def errno_seen(self) -> int:
        """The error number that a refused caller gets."""
        return self.errno if self.errno is not None else errno_numbers.EPERM

    def __str__(self) -> str:
        """Return the action as profiles write it, with the name of the error number."""
        if self.errno is None:
            return self.kind.value
        return f"{self.kind.value}({errno_numbers.errorcode.get(self.errno, self.errno)})"


ALLOW = Action(ActionKind.ALLOW)
NOTIFY = Action(ActionKind.NOTIFY)
KILL = Action(ActionKind.KILL)


def parse_action(value: object, json_path: str, errno: object = None, errno_path: str = "") -> Action:
    """Return the action that a profile writes as ``value``, with ``errno`` beside it where there is one.

    Raises:
        ProfileError: it is none, or its error number is not one of Linux.

    """
    if not isinstance(value, str):
        raise ProfileError(f"An action is text, not {_kind_of(value)}.", json_path, _EXAMPLE)
    name, bracket, rest = value.partition("(")
    if bracket:
        digits = rest.removesuffix(")")
        if not rest.endswith(")") or not (digits.isascii() and digits.isdecimal()) or len(digits) > 4:
            raise ProfileError(f"{value[:60]!r} is no action.", json_path, _EXAMPLE)
        if errno is not None:
            raise ProfileError("The error number is given twice.", errno_path or json_path, "Give it once.")
        errno, errno_path = int(digits), json_path
    try:
        kind = ActionKind(name)
    except ValueError:
        raise ProfileError(f"{value[:60]!r} is no action.", json_path, _EXAMPLE) from None
    if errno is None:
        return Action(kind, errno_numbers.EPERM if kind is ActionKind.ERRNO else None)
    if kind not in (ActionKind.ERRNO, ActionKind.NOTIFY, ActionKind.ASK):
        raise ProfileError(f"{kind.value} has no error number.", errno_path or json_path, "Leave it out.")
    if isinstance(errno, bool) or not isinstance(errno, int) or not 1 <= errno <= _HIGHEST_ERRNO:
        raise ProfileError(
            f"{str(errno)[:40]} is no error number of Linux.",
            errno_path or json_path,
            f"Use one from 1 (EPERM) to {_HIGHEST_ERRNO}; errno(3) lists them.",
        )
    return Action(kind, errno)


def _kind_of(value: object) -> str:
    return {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )
