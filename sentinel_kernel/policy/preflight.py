"""Preflight: which lines of a cell will be refused, before it runs; by the names that its code really calls."""

from __future__ import annotations

from sentinel_kernel.policy.preflight_calls import CallJudge
from sentinel_kernel.policy.preflight_cell import read_cell
from sentinel_kernel.policy.preflight_finding import CERTAIN, LIKELY, Facts, Finding
from sentinel_kernel.policy.preflight_names import Known, Names, Own, Unknown
from sentinel_kernel.policy.preflight_system import System
from sentinel_kernel.policy.preflight_tokens import PARTS, WORDS, may_matter
from sentinel_kernel.policy.preflight_walk import Walk
from sentinel_kernel.policy.preflight_words import words_for
from sentinel_kernel.policy.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.preflight_expressions import Seen

MOST_CHARACTERS = 256 * 1024
"""A longer cell is not looked at."""

MOST_FINDINGS = 100


class Notebook:
    """What preflight has read of a notebook's cells so far, for one worker's life."""

    def __init__(self, facts: Facts) -> None:
        self._names = Names(facts.is_own_module)
        self._facts = facts
        self._judge = CallJudge(System(facts))
        self._number = 0
        self._before: tuple[Names, frozenset[str]] | None = None
        self.skipped = False
        """Whether the cell that was read last is Python that could not be followed."""
        self.tokens: frozenset[str] = frozenset()
        """Names that the cells so far have bound to something that matters."""

    @property
    def policy(self) -> CompiledPolicy:
        """The policy of the profile in force."""
        return self._facts.policy

    def under(self, facts: Facts) -> None:
        """Go on with another profile in force."""
        self._facts = facts
        self._judge = CallJudge(System(facts))

    def may_matter(self, code: str) -> bool:
        """Tell, in microseconds, whether there can be anything to say of ``code``."""
        return may_matter(code, WORDS, PARTS, self.tokens) or not self._facts.workspace_writable

    def take_back(self) -> None:
        """Forget what the cell that was read last has bound: it is not run after all."""
        if self._before is not None:
            self._names, self.tokens = self._before

    def read(self, code: str) -> tuple[Finding, ...]:
        """Return the findings of one more cell, which is run after those that were read before. Never raises."""
        self._number += 1
        self._before = None
        self.skipped = False
        if len(code) > MOST_CHARACTERS:
            return ()
        names = self._names.copy()
        try:
            cell = read_cell(code)
            if cell is None:
                return ()
            self._judge.shell.begin_cell()
            seen = Walk(cell, names, self._judge, self._number).run()
            found = _findings(seen, code.split("\n"), cell.indentation, self._facts)
        except Exception:  # noqa: BLE001 - no text of a cell's may end who reads it; nothing is said of this one
            self.skipped = True  # most often deeper than any person writes
            return ()
        self.skipped = self._judge.shell.skipped
        self._before = (self._names, self.tokens)
        self._names = names
        self.tokens = frozenset(
            name for name, value in names.bound.items() if not isinstance(value, Unknown) and _matters(value)
        )
        return found


def check(code: str, facts: Facts, earlier: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Return what will be refused in a cell that is run after ``earlier`` ones under the profile of ``facts``.

    Pure, and total: any text has findings, most often none.
    """
    notebook = Notebook(facts)
    for one in earlier:
        notebook.read(one)
    return notebook.read(code)


def _matters(value: object) -> bool:
    """Tell whether a name may lead to something that ``WORDS`` do not show."""
    return (
        isinstance(value, Own)
        or (isinstance(value, Known) and "." in value.path)
        or not isinstance(value, Known)
    )


def _findings(seen: Iterable[Seen], lines: list[str], indentation: int, facts: Facts) -> tuple[Finding, ...]:
    found: dict[tuple[int, str, str], Finding] = {}
    for one in seen:
        # What is certain has places of its own: no number of guesses may crowd it out.
        if one.handled or len(found) >= MOST_FINDINGS * (2 if one.certain else 1):
            continue
        text = lines[one.line - 1] if 0 < one.line <= len(lines) else ""
        judged = one.judged
        message, hint = words_for(judged, facts.policy.profile_name)
        finding = Finding(
            cause=judged.cause,
            line=one.line,
            column=_column(text, one.column) + indentation,
            what=judged.what,
            rule=judged.rule,
            confidence=CERTAIN if one.certain else LIKELY,
            message=message,
            hint=hint,
            subject=judged.subject,
            syscall=judged.syscall,
            registers=judged.registers,
            kills=judged.kills,
            raises=judged.raises,
            after_effects=one.after_effects,
            source=shown(text.strip()),
        )
        key = (one.line, judged.cause, judged.what)
        known = found.get(key)
        if known is None or (known.confidence == LIKELY and finding.confidence == CERTAIN):
            found[key] = finding
    return tuple(sorted(found.values(), key=lambda finding: (finding.line, finding.column)))


def _column(line: str, offset: int) -> int:
    """Return the column in characters, from 1, of a byte's offset."""
    return len(line.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1
