"""Calls that the supervisor holds for the person: shown and asked about in the cell that runs, answered back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.policy.asking import INTERRUPTED, NO, NOBODY, ONCE, SESSION, TIMEOUT
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.questions import Question
    from sentinel_kernel.kernel.wire import Json

_ANSWERS = {
    "y": ONCE,
    "yes": ONCE,
    "once": ONCE,
    "是": ONCE,
    "s": SESSION,
    "session": SESSION,
    "始终": SESSION,
    "n": NO,
    "no": NO,
    "否": NO,
}

OUTCOMES = {
    ONCE: ("allowed once", "已允许一次"),
    SESSION: ("allowed for this session", "本次会话内均允许"),
    NO: ("refused: the answer was no", "已拒绝：回答为否"),
    TIMEOUT: ("refused: nobody answered in time", "已拒绝：未在时限内回答"),
    NOBODY: ("refused: nobody could be asked", "已拒绝：无人可以询问"),
    INTERRUPTED: ("the cell was interrupted", "单元格已被中断"),
    "gone": ("the code that asked has ended", "发出请求的代码已结束"),
}


class _Shown(MutableRecord):
    """A question as it is shown in its cell."""

    cell: Cell
    question: Question
    display_id: str
    title: str
    rows: list[tuple[str, str]]


class HeldCalls:
    """Asks about each held call in the newest running cell."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._shown: dict[str, _Shown] = {}

    def told(self, event: Json) -> None:
        """Take one EVENT_ASK: a call that is held, or one that is not held any more."""
        closed = event.get("closed")
        if isinstance(closed, str):
            shown = self._shown.pop(closed, None)
            if shown is not None:
                why = str(event.get("why") or "gone")
                self._host.questions.close(shown.question, why if why == INTERRUPTED else TIMEOUT)
                self._show_outcome(shown, why)
            return
        ask = event.get("ask")
        if isinstance(ask, dict):
            self._ask(str(ask.get("id") or ""), ask, str(event.get("why") or ""))

    def _ask(self, identifier: str, ask: Json, why: str) -> None:
        host = self._host
        running = host.execution.running
        cell = next(reversed(running.values())) if running else None
        if cell is None or not host.questions.reaches(cell):
            self._reply(identifier, NOBODY)
            return
        chinese = host.settings.language == "zh"
        call = rendering.printable(rendering.call_text(ask), 200)
        title = f"Sentinel 询问：是否允许 {call}？" if chinese else f"Sentinel asks: allow {call}?"
        rows = self._rows(cell, ask, why, chinese=chinese)
        line = ask.get("line")
        where = ""
        if isinstance(line, int):
            where = f"（第 {line} 行）" if chinese else f" at line {line}"
        prompt = (
            f"询问：是否允许 {call}{where}？[y] 允许一次，[s] 本次会话内允许，[n] 拒绝："
            if chinese
            else f"asks: allow {call}{where}? [y] once, [s] for this session, [n] no: "
        )

        def done(answer: str) -> None:
            self._reply(identifier, answer)
            shown = self._shown.pop(identifier, None)
            if shown is not None:
                self._show_outcome(shown, answer)

        display_id = host.displays.new_id()
        self._show(cell, display_id, title, rows)
        question = host.questions.ask(cell, prompt, _ANSWERS, done, seconds=0.0)
        if host.questions.waits(question):
            self._shown[identifier] = _Shown(cell, question, display_id, title, rows)
        else:  # its client is gone already
            self._show(cell, display_id, title, [*rows, self._outcome(NOBODY)], update=True)

    def _rows(self, cell: Cell, ask: Json, why: str, *, chinese: bool) -> list[tuple[str, str]]:
        process = ask.get("process")
        process = process if isinstance(process, dict) else {}
        who = "此单元格的 Python" if chinese else "the Python of this notebook"
        if not process.get("is_worker"):
            command = rendering.printable(str(process.get("command") or "?"), 120)
            who = (
                f"进程 {process.get('pid')}：{command}"
                if chinese
                else f"process {process.get('pid')}: {command}"
            )
        rows = [("谁" if chinese else "who", who)]
        line = ask.get("line")
        lines = cell.code.split("\n")
        if isinstance(line, int) and 1 <= line <= len(lines):
            source = rendering.printable(lines[line - 1].strip(), 200)
            where = f"第 {line} 行：{source}" if chinese else f"line {line}: {source}"
        else:
            where = "行号未知" if chinese else "the line can't be told"
        rows.append(("位置" if chinese else "where", where))
        rows.append(("规则" if chinese else "rule", f"{ask.get('profile')}: {ask.get('rule')}"))
        default = (
            "配置规定：只有您同意，此调用才会生效。"
            if chinese
            else "by its profile it takes effect only if you agree."
        )
        rows.append(("为何询问" if chinese else "why it matters", why or default))
        return rows

    def _reply(self, identifier: str, answer: str) -> None:
        link = self._host.lifecycle.link
        if link is not None and answer != INTERRUPTED:  # the supervisor sees to that itself
            fields = {"ask": identifier, "answer": answer}
            link.request(protocol.OP_ANSWER, fields, lambda _reply: None, CELL_SECONDS)

    def _outcome(self, answer: str) -> tuple[str, str]:
        chinese = self._host.settings.language == "zh"
        english, zh = OUTCOMES.get(answer, OUTCOMES["gone"])
        return ("回答" if chinese else "answer", zh if chinese else english)

    def _show_outcome(self, shown: _Shown, answer: str) -> None:
        rows = [*shown.rows, self._outcome(answer)]
        self._show(shown.cell, shown.display_id, shown.title, rows, update=True)

    def _show(
        self, cell: Cell, display_id: str, title: str, rows: list[tuple[str, str]], *, update: bool = False
    ) -> None:
        bundle = rendering.table_bundle(title, rows)
        self._host.outbox.display(bundle, cell.request.header, display_id, update=update)
