"""Compares what the notebook said of a program with what a person would say of it, and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corpus import Program
    from corpus_kernel import Outcome

SAYS = ("Sentinel", "[SEMANTIC]", "HINT")
RIGHT, WRONG, MISSING = "right", "wrong", "missing"


@dataclass
class Verdict:
    """What was right of what was said of one program; ``remedy``: worked, failed, missing, none or not needed."""

    program: Program
    cause: str = MISSING
    rule: str = MISSING
    line: str = MISSING
    error: str = RIGHT
    """Whether the error that ended the cell says so itself."""
    false: str = ""
    """For failures of the program's own: what was said of the sandbox all the same."""
    got: str = ""
    remedies: list[dict[str, Any]] = field(default_factory=list)
    remedy: str = ""
    remedy_text: str = ""
    remedy_problem: str = ""
    seconds: float = 0.0

    @property
    def explained(self) -> bool:
        """Tell whether cause, rule, line and error are right."""
        return {self.cause, self.rule, self.line, self.error} == {RIGHT}

    @property
    def tried(self) -> bool:
        """Tell whether the program needed a remedy, and one can exist."""
        return self.remedy in ("worked", "failed", "missing")

    def row(self) -> str:
        """Return one line of the table."""
        if self.program.owned:
            return f"{self.program.name:38} {'FALSE: ' + self.false if self.false else 'left alone'}"
        marks = " ".join(f"{one:7}" for one in (self.cause, self.rule, self.line, self.error))
        remedy = f"{self.remedy:10} {self.remedy_text[:60]}"
        return f"{self.program.name:38} {self.program.where:9} {marks} {remedy} {self.seconds:.1f} s"


def judge(program: Program, outcome: Outcome) -> Verdict:
    """Return what is right of the records that ``program`` gave."""
    verdict = Verdict(program)
    records = list(outcome.records.values())
    verdict.got = f"{outcome.ename}: {outcome.evalue[:120]!r}; records: {[_short(one) for one in records]}"
    fitting = [one for one in records if one["cause"] in program.cause]
    # Of several true records the one that the program stands for counts: its rule is the one expected.
    fitting.sort(key=lambda one: not _names_rule(program, one))
    strange = [one for one in records if one["cause"] not in (*program.cause, *program.also)]
    if records:
        verdict.cause = RIGHT if fitting and not strange else WRONG
    if fitting:
        main = fitting[0]
        verdict.rule = RIGHT if _names_rule(program, main) else WRONG
        verdict.line = _line(program, main)
        verdict.remedies = next((one["remedies"] for one in fitting if one["remedies"]), [])
    ended = outcome.reply.get("status") == "error" and outcome.ename != "SandboxDied"
    if ended and program.where in ("main", "library") and not any(word in outcome.evalue for word in SAYS):
        verdict.error = MISSING
    return verdict


def judge_own(program: Program, outcome: Outcome) -> Verdict:
    """Return whether a failure of the program's own was left alone."""
    verdict = Verdict(program)
    said = f"{outcome.ename}: {outcome.evalue}"
    verdict.got = f"{said!r}; records: {[_short(one) for one in outcome.records.values()]}"
    traceback = "\n".join(outcome.error.get("traceback", []))
    if outcome.records:
        verdict.false = "a record"
    elif not _same_words(said, program.error):
        verdict.false = f"the error is {said[:100]!r}"
    elif any(word in traceback for word in SAYS):
        verdict.false = "words in the traceback"
    return verdict


def _same_words(said: str, expected: str) -> bool:
    """Compare with an error as plain Python words it; "..." stands for what differs between versions of it."""
    start, dots, _ = expected.partition("...")
    return said.startswith(start) and not any(word in said for word in SAYS) if dots else said == expected


def _names_rule(program: Program, record: dict[str, Any]) -> bool:
    limit, subject = record.get("limit") or {}, record.get("values") or {}
    named = f"{record.get('syscall')} {limit.get('name')} {record.get('resource')} {record['rule']} {subject}".lower()
    return not program.rule or any(word.lower() in named for word in program.rule)


def _line(program: Program, record: dict[str, Any]) -> str:
    named = [line for line in (record.get("started_line"), record.get("line")) if line is not None]
    if program.where != "child":
        named = [line for line in (record.get("line"),) if line is not None]
    if program.line_known == "no":
        return WRONG if named else RIGHT
    excused = program.line_known == "likely" and record["confidence"] != "certain"
    if any(line in program.lines for line in named):
        return RIGHT
    return RIGHT if excused else WRONG if named else MISSING


def _short(record: dict[str, Any]) -> str:
    """Return a record in a few words."""
    limit = record.get("limit") or {}
    names = [record["cause"], record.get("syscall") or limit.get("name"), record["rule"]]
    place = f"line {record.get('line')}, started {record.get('started_line')}, {record['confidence']}"
    remedies = [f"{one['kind']}: {one['text'][:60]}" for one in record["remedies"][:2]]
    return f"{' / '.join(map(str, names))} / {place} / {remedies}"


def failures(verdicts: Sequence[Verdict]) -> str:
    """Return what was not as expected, two or three lines for each program."""
    told = []
    for one in verdicts:
        program = one.program
        if program.owned:
            if one.false:
                told.append(f"{program.name} [{program.profile}]: FALSE {one.false}\n    got {one.got}")
            continue
        if not one.explained:
            expected = f"{'|'.join(program.cause)} / {'|'.join(program.rule)} / lines {program.lines}"
            marks = f"cause {one.cause}, rule {one.rule}, line {one.line}, error {one.error}"
            told.append(
                f"{program.name} [{program.profile}, {program.where}]: {marks}\n    expected {expected}"
            )
            told.append(f"    got {one.got}")
        if one.remedy in ("failed", "missing") or one.remedy_problem:
            told.append(f"{program.name}: REMEDY {one.remedy} {one.remedy_text}: {one.remedy_problem}")
    return "\n".join(told)


@dataclass(frozen=True)
class Figures:
    """What the whole corpus came to."""

    programs: int
    causes: int
    rules: int
    lines: int
    errors: int
    wrong: int
    worked: int
    tried: int
    none: int
    own: int
    false: int


def figures(verdicts: Sequence[Verdict]) -> Figures:
    """Count."""
    theirs = [one for one in verdicts if not one.program.owned]
    own = [one for one in verdicts if one.program.owned]
    tried = [one for one in theirs if one.tried]
    return Figures(
        programs=len(theirs),
        causes=sum(one.cause == RIGHT for one in theirs),
        rules=sum(one.rule == RIGHT for one in theirs),
        lines=sum(one.line == RIGHT for one in theirs),
        errors=sum(one.error == RIGHT for one in theirs),
        wrong=sum(WRONG in (one.cause, one.rule, one.line) for one in theirs),
        worked=sum(one.remedy == "worked" for one in tried),
        tried=len(tried),
        none=sum(one.remedy == "none" for one in theirs),
        own=len(own),
        false=sum(bool(one.false) for one in own),
    )


def totals(verdicts: Sequence[Verdict]) -> str:
    """Return the figures in words."""
    found = figures(verdicts)
    theirs = (
        f"{found.programs} programs: cause right {found.causes}, rule {found.rules}, line {found.lines},"
        f" said in the error {found.errors}, wrong {found.wrong}; first remedy worked {found.worked} of"
        f" {found.tried}, none exists {found.none}"
    )
    own = f"{found.own} failures of their own, blamed on the sandbox {found.false}"
    return "; ".join([theirs] * bool(found.programs) + [own] * bool(found.own))


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the table: how many of each file were right."""
    rows = [f"{'':18} programs  cause  rule  line  error  remedy worked/tried  none"]
    for group in dict.fromkeys(one.program.group for one in verdicts if not one.program.owned):
        found = figures([one for one in verdicts if one.program.group == group])
        rows.append(
            f"{group:18} {found.programs:8} {found.causes:6} {found.rules:5} {found.lines:5} {found.errors:6}"
            f" {found.worked:14}/{found.tried:<5} {found.none:4}"
        )
    return "\n".join(rows)
