"""What preflight says of a line before it runs, and what it has to know of the sandbox to say so."""

from __future__ import annotations

from sentinel_kernel.policy.text import shown
from sentinel_kernel.record import Record, as_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.violation import Remedy, Text

CERTAIN = "certain"
LIKELY = "likely"
"""The line may not be reached, or what it does depends on what can't be seen in the text."""

PROFILE_RULES = "profile"
DANGEROUS_RULES = "dangerous"


class Facts(Record):
    """What preflight knows of a sandbox. It does no I/O: what must be looked up is asked of functions.

    ``writable`` are the folders that can be written, by absolute paths; ``workspace_writable`` False makes the
    notebook's own folder read-only. ``installed`` returns the version of a distribution in the kernel's environment
    ("" where there is none), ``has_program`` tells whether a program is there, and ``is_own_module`` whether a module
    of the notebook's folder stands before one of the environment. None: not known.
    """

    policy: CompiledPolicy
    writable: tuple[str, ...] = ()
    workspace_writable: bool = True
    installed: Callable[[str], str] | None = None
    has_program: Callable[[str], bool] | None = None
    is_own_module: Callable[[str], bool] | None = None
    granted: tuple[str, ...] = ()
    """Hosts that the person has allowed for the session."""
    has_wheels: bool = False
    """Whether there is a folder of wheels that pip finds packages in without an index."""


class Finding(Record):
    """One line that will not do what it says, or (``rules`` dangerous) should not be run unseen.

    ``cause`` is a violation's (policy/cause.py), or the name of a dangerous rule. ``line`` and ``column`` count from 1,
    as the cell was typed, in characters. ``what`` names the call or command in our own words; what comes from the cell
    is in ``subject`` (kind, text) alone, cut and escaped, and never in message or hint.
    """

    cause: str
    line: int
    column: int
    what: str
    rule: str
    confidence: str
    message: Text
    hint: Text
    rules: str = PROFILE_RULES
    subject: tuple[str, str] | None = None
    syscall: str | None = None
    """The system call that a rule refuses."""
    registers: tuple[int, ...] = ()
    """The call's six arguments, 0 where they are not known; they are looked at where a rule does."""
    kills: bool = False
    """The sandbox would be ended."""
    raises: bool = True
    """Python meets an exception there; a shell line only prints its error."""
    after_effects: bool = False
    """Lines before it will have written files or worked for long by then."""
    source: str = ""
    """The line's text: untrusted, cut and escaped."""
    remedies: tuple[Remedy, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        subject = None if self.subject is None else {"kind": self.subject[0], "text": self.subject[1]}
        return {
            "rules": self.rules,
            "cause": self.cause,
            "line": self.line,
            "column": self.column,
            "source": self.source,
            "what": self.what,
            "subject": subject,
            "rule": self.rule,
            "syscall": self.syscall,
            "confidence": self.confidence,
            "kills": self.kills,
            "raises": self.raises,
            "after_effects": self.after_effects,
            "message": {"en": self.message.en, "zh": self.message.zh},
            "hint": {"en": self.hint.en, "zh": self.hint.zh},
            "remedies": [
                {**as_dict(remedy), "why": None if remedy.why is None else as_dict(remedy.why)}
                for remedy in self.remedies
            ],
        }


class Judged(Record):
    """What a rule says of one call, before it is known where and how certainly the call is made."""

    cause: str
    kind: str
    """Which words tell of it (preflight_words.py)."""
    what: str
    rule: str
    subject: tuple[str, str] | None = None
    syscall: str | None = None
    registers: tuple[int, ...] = ()
    kills: bool = False
    raises: bool = True
    likely: bool = False


def subject(kind: str, text: str) -> tuple[str, str]:
    """Return a text of the cell's for display: cut, and escaped."""
    return (kind, shown(text))
