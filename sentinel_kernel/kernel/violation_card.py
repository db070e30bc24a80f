"""The card of a violation: what happened, where, by which rule, what to do, and what to try, compactly.

Everything but message, hint and remedies may be the sandbox's own words: it is cut and escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.kernel.rendering import (
    ERROR,
    TEXT_CHARACTERS,
    WARNING,
    box,
    call_text,
    escape,
    hint_row,
    inline_code,
    notice_data,
    paragraph,
    printable,
    remedy_text,
    said,
    small,
    source_block,
)
from sentinel_kernel.policy.sizes_in_words import amount

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

_LABELS: dict[str, tuple[str, str]] = {
    "refused": ("Refused by the sandbox", "被沙箱拒绝"),
    "killed": ("Ended by the sandbox", "被沙箱终止"),
    "logged": ("Recorded by the sandbox", "沙箱已记录"),
    "limit": ("A limit of the sandbox", "沙箱的限制"),
    "absent": ("Not there in the sandbox", "沙箱中不存在"),
    "died": ("The sandboxed Python ended", "沙箱中的 Python 已结束"),
    "rule": ("rule", "规则"),
    "limit_row": ("limit", "限制"),
    "line": ("line", "行"),
    "in": ("in", "位于"),
    "through": ("through", "经由"),
    "thread": ("thread", "线程"),
    "process": ("process", "进程"),
    "started": ("started at line", "启动于行"),
    "likely": ("likely", "很可能"),
    "of": ("of", "/"),
    "path": ("path", "路径"),
    "host": ("host", "主机"),
    "address": ("address", "地址"),
    "package": ("package", "软件包"),
    "program": ("program", "程序"),
    "error": ("seen as", "表现为"),
    "try": ("Try", "可尝试"),
    "host_terminal": ("in a terminal, outside", "在沙箱外的终端中"),
    "change": ("change the cell", "修改单元格"),
}
_MOST_REMEDIES = 4
_DOT = " &nbsp;·&nbsp; "


def violation_bundle(violation: Json, language: str, limit: Json | None = None) -> Json:
    """Return the bundle for a completed violation (policy/violation.py, as JSON).

    ``limit`` is what the supervisor told of the limit that it is about: such a bundle is a notice, too.
    """
    message, hint = said(violation, "message", language), said(violation, "hint", language)
    count = violation.get("count")
    repeated = count if isinstance(count, int) and count > 1 else 0
    plain = f"[SEMANTIC] {printable(message, TEXT_CHARACTERS)}"
    if repeated:
        plain += f" (×{repeated})"
    plain += f"\nHINT → {printable(hint, TEXT_CHARACTERS)}"
    if command := first_command(violation):
        plain += f"\nTRY → {command}"
    bundle: Json = {VIOLATION_TYPE: violation}
    if limit is not None:
        english, chinese = (
            (said(violation, "message", tongue), said(violation, "hint", tongue)) for tongue in ("en", "zh")
        )
        bundle[NOTICE_TYPE] = notice_data("limit", english, chinese) | {"limit": limit}
    html = _Card(violation, language).html(message, hint, repeated)
    return {**bundle, "text/html": html, "text/plain": plain}


def first_command(violation: Json) -> str:
    """Return the first remedy where it is a command for the host's terminal, "" otherwise: the hint only says so."""
    remedies = violation.get("remedies")
    first = remedies[0] if isinstance(remedies, list | tuple) and remedies else None
    if not isinstance(first, dict) or first.get("kind") != "command":
        return ""
    return printable(first.get("text", ""))


class _Card:
    """Makes the rows of one card."""

    def __init__(self, violation: Json, language: str) -> None:
        self._violation = violation
        self._chinese = language == "zh"
        self._language = language

    def html(self, message: str, hint: str, repeated: int) -> str:
        """Return the whole card."""
        violation = self._violation
        facts = [*self._tried(), *self._rule(), *self._place()]
        if repeated:
            facts.append(f"<strong>×{repeated}</strong>")
        rows = [paragraph(escape(message, TEXT_CHARACTERS))]
        if facts:
            rows.append(small(_DOT.join(facts)))
        if source := violation.get("source"):
            rows.append(source_block(escape(source)))
        rows.append(hint_row(hint, self._language))
        rows += self._remedies()
        title, accent = self._heading()
        return box(title, rows, accent)

    def _say(self, key: str) -> str:
        return _LABELS[key][self._chinese]

    def _fact(self, key: str, text: object) -> str:
        return f"{self._say(key)} {inline_code(text)}"

    def _heading(self) -> tuple[str, str]:
        violation = self._violation
        action, outcome = violation.get("action"), violation.get("outcome")
        if outcome == "killed" or action == "KILL":
            return self._say("killed"), ERROR
        if action == "DEATH":
            return self._say("died"), ERROR
        keys = {"LOG": "logged", "LIMIT": "limit", "ABSENT": "absent"}
        return self._say(keys.get(str(action), "refused")), WARNING

    def _tried(self) -> list[str]:
        """Return what was tried, and what came of it."""
        violation = self._violation
        facts = []
        if violation.get("syscall"):
            facts.append(inline_code(call_text(violation)))
        subject = violation.get("subject")
        if isinstance(subject, dict) and subject.get("kind") in _LABELS:
            facts.append(self._fact(str(subject["kind"]), subject.get("text", "")))
        if errno_name := violation.get("errno_name"):
            facts.append(f"→ {inline_code(errno_name)}")
        error = violation.get("error")
        if isinstance(error, dict) and error.get("ename"):
            facts.append(self._fact("error", error["ename"]))
        return facts

    def _rule(self) -> list[str]:
        """Return which rule or limit it was, and how sure that is."""
        violation = self._violation
        limit = violation.get("limit")
        facts = []
        if isinstance(limit, dict):
            unit = str(limit.get("unit"))
            allowed = amount(limit.get("allowed"), unit, chinese=self._chinese)
            used = limit.get("used")
            used_text = f"{amount(used, unit, chinese=self._chinese)} {self._say('of')} " if used else ""
            facts.append(f"{self._fact('limit_row', limit.get('name', ''))} {escape(used_text + allowed)}")
        elif violation.get("action") == "DEATH":
            pass  # the message says what it died of
        elif rule := violation.get("rule"):
            profile = violation.get("profile")
            facts.append(self._fact("rule", f"{profile}: {rule}" if profile else rule))
        if violation.get("confidence") == "likely":
            facts.append(f"<em>{self._say('likely')}</em>")
        return facts

    def _place(self) -> list[str]:
        """Return where it was: line and function, library, thread, process."""
        violation = self._violation
        facts = []
        if line := violation.get("line"):
            where = self._fact("line", line)
            function = violation.get("function")
            if function and function != "<module>":
                where += f" {self._fact('in', function)}"
            facts.append(where)
        library = violation.get("library")
        if isinstance(library, dict):
            frame = f"{library.get('file')}:{library.get('line')} {library.get('function')}"
            facts.append(self._fact("through", frame))
        if thread := violation.get("thread"):
            facts.append(self._fact("thread", thread))
        process = violation.get("process")
        if isinstance(process, dict) and not process.get("is_worker", True):
            facts.append(self._fact("process", process.get("command", "")))
        if started := violation.get("started_line"):
            facts.append(self._fact("started", started))
        return facts

    def _remedies(self) -> list[str]:
        """Return what to try, the one that gives least first."""
        rows = []
        for remedy in list(self._violation.get("remedies") or ())[:_MOST_REMEDIES]:
            text = remedy.get("text") if isinstance(remedy, dict) else None
            if not isinstance(text, str):
                continue
            why = said(remedy, "why", self._language)
            text = remedy_text(remedy, why, chinese=self._language == "zh")
            if remedy.get("kind") == "code":
                row = f"{self._say('change')}: {escape(text, TEXT_CHARACTERS)}"
            elif remedy.get("kind") == "command":
                row = f"{inline_code(text)} ({self._say('host_terminal')})"
            else:
                row = inline_code(text)
            rows.append(row + (f" – {escape(why, TEXT_CHARACTERS)}" if why and why != text else ""))
        if not rows:
            return []
        if len(rows) == 1:
            return [small(f"{self._say('try')}: {rows[0]}")]
        items = "".join(f"<li>{row}</li>" for row in rows)
        return [small(f'{self._say("try")}:<ol style="margin:0;padding-left:1.6em">{items}</ol>')]
