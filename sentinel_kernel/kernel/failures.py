"""Errors that the sandbox caused say so themselves: the worker's report is taken off, the supervisor asked.

What comes behind an error waits until that is known, two seconds at most; an error that is the program's own goes on as
it came. The report is hostile: it says where to look, and no word of it is shown but in fields of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.cell_record import words_fields
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.rendering import printable, said
from sentinel_kernel.kernel.violation_card import first_command
from sentinel_kernel.kernel.well_formed import METADATA_BYTES
from sentinel_kernel.kernel.wire import CONTENT, HEADER_BYTES, METADATA, PARENT, decode, encode, text_of
from sentinel_kernel.policy.failure_report import METADATA_KEY, REPORT_BYTES, read_report, to_json
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json, Part

SECONDS = 2.0
"""How long an error waits for the supervisor's word."""

QUESTIONS_A_CELL = 8
"""So many different errors of a cell are asked about; a cell that shows more of them is told of these."""

_REMEMBERED = 64
_ERROR_BYTES = 16 * 1024 * 1024
_WORDS_CHARACTERS = 2000
_PROBABLY = ("Probably: ", "很可能：")
_DID_YOU_MEAN = ("Did you mean `{}`?", "您是否想写 `{}`？")
_NAME_CHARACTERS = 64
MEANT = "meant"
"""In place of a violation: the module that a person meant who mistyped its name."""
"""What is likely says so in the error too, as its card does."""


class Failures:
    """Takes reports off the worker's messages, and holds its channels while a question is open."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.waiting = False
        """Whether an error waits; what is behind it must not be forwarded."""

        self._question = 0
        self._known: dict[tuple[str, bytes], Json | None] = {}
        """The violation that explains an error of a cell (None: it is not the sandbox's), by its report."""

        self._asked: dict[str, int] = {}

    def must_wait(self, channel: str, msg_type: str, parts: list[Part], *, ask: bool) -> bool:
        """Take the report off a message; True where the message has to come again, once it is explained.

        A message that can go on has the words in it, where its error is the sandbox's doing. Only errors of running
        cells and their replies are asked about, and nothing where ``ask`` is False.
        """
        report = _take_off(parts)
        told_on = ("error", METADATA_KEY) if channel == "iopub" else ("execute_reply",)
        if report is None or msg_type not in told_on:
            return False
        parent = text_of(decode(parts[PARENT], HEADER_BYTES), "msg_id")
        cell = self._host.execution.running.get(parent)
        if cell is None:
            return False
        if msg_type == "error":
            cell.explained = False  # until this one is, whatever was of those before
        try:
            document = to_json(read_report(report))
        except ProtocolError as error:
            log(f"A report on an error was not read: {error}")
            return False
        if msg_type == "error":
            cell.reports = True
        ask = ask and channel != "control"  # which never waits
        key = (cell.request.msg_id, encode(document))
        if key not in self._known:
            if ask and self._ask(cell, key, document):
                return True
            self._remember(key, None)
        violation = self._known[key]
        if msg_type == "error":
            cell.explained = violation is not None and MEANT not in violation
        if violation is not None and msg_type != METADATA_KEY:
            self._say(violation, parts)
        return False

    def give_up(self) -> None:
        """Wait for no answer any more: the worker is gone, or the supervisor is late."""
        self._question += 1
        self.waiting = False

    def _ask(self, cell: Cell, key: tuple[str, bytes], document: object) -> bool:
        """Ask the supervisor; False where that can't be done, or was done often enough."""
        link = self._host.lifecycle.link
        asked = self._asked.get(key[0], 0)
        if link is None or link.gone or asked >= QUESTIONS_A_CELL or len(key[1]) > REPORT_BYTES:
            return False
        self._asked.pop(key[0], None)
        self._asked[key[0]] = asked + 1
        while len(self._asked) > _REMEMBERED:
            del self._asked[next(iter(self._asked))]
        self._question += 1
        question = self._question
        self.waiting = True

        def answered(answer: Json) -> None:
            if question != self._question:
                return
            timer.cancel()
            self.waiting = False
            violation = None
            try:
                violation = self._shown(answer, cell)
            except (KeyError, TypeError, ValueError, ProtocolError) as error:
                log(f"An error could not be explained: {error!r}")
            self._remember(key, violation)

        def late() -> None:
            if question == self._question:
                log(f"The supervisor did not explain an error within {SECONDS:g} s.")
                self._remember(key, None)
                self.give_up()

        timer = self._host.loop.call_later(SECONDS, late)
        fields: Json = {
            "report": document,
            "msg_id": cell.request.msg_id[:200],
            "suspects": list(cell.suspects),
        }
        link.request(protocol.OP_EXPLAIN, fields, answered, CELL_SECONDS)
        return True

    def _remember(self, key: tuple[str, bytes], violation: Json | None) -> None:
        self._known[key] = violation
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _shown(self, answer: Json, cell: Cell) -> Json | None:
        """Show what explains an error in its cell, once, and return it; None where nothing does.

        A slip of the keys is no violation: what was meant is said behind the person's own error, and shown nowhere.
        """
        host = self._host
        violation, limit = answer.get("violation"), answer.get("limit")
        if MEANT in answer:
            return {MEANT: printable(answer[MEANT], _NAME_CHARACTERS)}
        if isinstance(violation, dict):
            identifier = str(violation.get("id") or "")
            if identifier in host.displays.last_violations:
                host.displays.add(identifier, _added(violation), cell)
            else:
                host.displays.violation(violation, cell)
            known, link = host.displays.last_violations.get(identifier), host.lifecycle.link
            if known is not None and link is not None:
                link.request(protocol.OP_WORDS, words_fields(known), lambda _reply: None, CELL_SECONDS)
            likely = known is not None and answer.get("likely") is True
            return {**known, "confidence": "likely"} if known and likely else known
        if not isinstance(limit, dict):
            return None
        place = answer.get("place")
        return host.limits.explained(limit, place if isinstance(place, dict) else {}, cell)

    def _say(self, violation: Json, parts: list[Part]) -> None:
        """Add the words to the error in a message."""
        try:
            content = decode(parts[CONTENT], _ERROR_BYTES)
        except ProtocolError as error:
            # The program's own words may be too long or too many to be read here: they go on as they came.
            log(f"An error was left without its explanation: {error}")
            return
        value, trace = content.get("evalue"), content.get("traceback")
        if not isinstance(value, str) or not isinstance(trace, list):
            return
        language = self._host.settings.language
        if MEANT in violation:
            question = _DID_YOU_MEAN[language == "zh"].format(violation[MEANT])
            content["evalue"] = f"{value}{'。' if language == 'zh' else '. '}{question}"
            content["traceback"] = [*trace, question]
            parts[CONTENT] = encode(content)
            return
        message = printable(said(violation, "message", language), _WORDS_CHARACTERS)
        hint = printable(said(violation, "hint", language), _WORDS_CHARACTERS)
        lead, hint_lead = ("[Sentinel：", "提示：") if language == "zh" else (" [Sentinel: ", " HINT: ")
        if violation.get("confidence") == "likely":
            message = f"{_PROBABLY[language == 'zh']}{message}"
        command = first_command(violation)
        tried, tried_below = (f" TRY: {command}", f"\nTRY → {command}") if command else ("", "")
        content["evalue"] = f"{value}{lead}{message}{hint_lead}{hint}{tried}]"
        content["traceback"] = [*trace, f"\n[SEMANTIC] {message}\nHINT → {hint}{tried_below}"]
        parts[CONTENT] = encode(content)


def _take_off(parts: list[Part]) -> object:
    """Remove the report from a message's metadata and return it; None where there is none."""
    metadata = decode(parts[METADATA], METADATA_BYTES)
    report = metadata.pop(METADATA_KEY, None)
    parts[METADATA] = encode(metadata)
    return report


def _added(violation: Json) -> Json:
    """Return what an error adds to a violation that is shown already: what it meant, and where that was not known."""
    names = ["cause", "syscall", "number", "architecture", "arguments", "action", "subject", "error"]
    if violation.get("line"):
        names += ["cell", "line", "function", "library", "started_line", "confidence"]
    return {name: violation[name] for name in names if name in violation}
