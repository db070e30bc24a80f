"""The host's own questions to the person: one at a time through stdin, and answered by the client that ran the cell.

Only what comes from that client over the signed stdin channel is an answer. Nothing that a cell can do makes one: its
prompts and outputs go another way, and its prompts wait while a question of the host is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel import outer
from sentinel_kernel.kernel.cells import Stage
from sentinel_kernel.kernel.prompts import MARK
from sentinel_kernel.kernel.vanishing import Vanishing
from sentinel_kernel.kernel.wire import (
    CONTENT,
    HEADER,
    HEADER_BYTES,
    PARENT,
    decode,
    split,
    text_of,
)
from sentinel_kernel.policy.asking import INTERRUPTED, NO, NOBODY, TIMEOUT
from sentinel_kernel.record import MutableRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.loop import Timer
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Part

YES = {"y": "yes", "yes": "yes", "是": "yes"}
"""The words that count as a yes."""

HOW = {"c": "carry", "carry": "carry", "带": "carry", "f": "fresh", "fresh": "fresh", "新": "fresh"}
"""The words that say what becomes of the variables where it takes a fresh sandbox."""

_DELIVERIES, _DELIVERY_SECONDS = 20, 0.05
_VALUE_BYTES = 64 * 1024
_MOST_OPEN = 32
_MOST_STALE = 1000
_NO = frozenset(("", "n", "no", "否"))
_AGAIN = {
    "en": "That letter is none of these: nothing was changed.",
    "zh": "该字母不在选项之内：未作任何更改。",
}


class Question(MutableRecord):
    """One question. ``answers`` are the words that count; ``done`` is told what they stand for, or why none came."""

    cell: Cell
    prompt: str
    answers: Mapping[str, str]
    done: Callable[[str], None]
    msg_id: str = ""
    """The prompt that is with the client."""
    timer: Timer | None = None
    again: bool = False
    """Whether it was asked a second time: the first answer was none of its letters."""


class Questions:
    """Asks the person, one question after the other."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._open: list[Question] = []
        self._vanishing = Vanishing(host.loop, host.sockets.shell, self._client_gone)
        self._stale: dict[bytes, int] = {}
        """Client -> prompts that it may still answer though nobody waits for it."""

        self._over: dict[str, None] = {}
        """The same prompts, for clients that name the one they answer."""

    @property
    def open(self) -> bool:
        """Whether a question waits: then no prompt of a cell may come between."""
        return bool(self._open)

    def waits(self, question: Question) -> bool:
        """Tell whether a question has no answer yet."""
        return question in self._open

    def reaches(self, cell: Cell) -> bool:
        """Tell whether somebody can be asked in ``cell``: its client takes input, and asking is not turned off."""
        return self._host.settings.ask_seconds > 0 and cell.allow_stdin and len(self._open) < _MOST_OPEN

    def ask(
        self,
        cell: Cell,
        prompt: str,
        answers: Mapping[str, str],
        done: Callable[[str], None],
        seconds: float | None = None,
    ) -> Question:
        """Ask in ``cell``; ``done`` is told one of the values of ``answers``, no, or why there is no answer.

        ``seconds`` 0: whoever asks sees to the end itself, by :meth:`close`.
        """
        question = Question(cell, f"{MARK} {prompt}", answers, done)
        seconds = self._host.settings.ask_seconds if seconds is None else seconds
        if seconds > 0:
            question.timer = self._host.loop.call_later(seconds, lambda: self._end(question, TIMEOUT))
        self._open.append(question)
        self.go_on()
        return question

    def go_on(self) -> None:
        """Give up what can't be answered any more; put the next question to its client, once nothing else is asked."""
        for question in list(self._open):
            if question.cell.stage not in (Stage.OPENING, Stage.RUNNING) or question.cell.replied:
                self._end(question, NOBODY)
        if self._open and not self._open[0].msg_id:
            question = self._open[0]
            client = question.cell.request.identities
            if any(
                cell.asks and cell.request.identities == client
                for cell in self._host.execution.running.values()
            ):
                return  # a prompt of a cell is with that client: its answer must not be taken for ours
            self._put(question)

    def _put(self, question: Question) -> None:
        request = question.cell.request
        prompt = question.prompt
        if question.again:
            told = _AGAIN["zh" if self._host.settings.language == "zh" else "en"]
            prompt = f"{MARK}: {told} {prompt}"
        content = {"prompt": prompt, "password": False}
        message = self._host.session.message("input_request", content, request.header)
        question.msg_id = text_of(decode(split(message)[1][HEADER], HEADER_BYTES), "msg_id")
        self._vanishing.watch(request.source)
        self._deliver(question, [*request.identities, *message], _DELIVERIES)

    def _deliver(self, question: Question, parts: list[Part], tries: int) -> None:
        """Send the prompt; a client whose channel for answers is being connected is there before long."""
        if outer.deliver(self._host.sockets.stdin, parts):
            return
        if tries == 1:
            self._end(question, NOBODY)
            return

        def again() -> None:
            if self._open and self._open[0] is question:
                self._deliver(question, parts, tries - 1)

        self._host.loop.call_later(_DELIVERY_SECONDS, again)

    def takes(self, request: Request) -> bool:
        """Take a client's answer if it is one to a question of the host, or to one that is over."""
        client = client_of(request)
        question = self._open[0] if self._open and self._open[0].msg_id else None
        parent = text_of(decode(request.parts[PARENT], HEADER_BYTES), "msg_id")
        ours = question is not None and request.identities == question.cell.request.identities
        if question is None or not ours or (parent and parent != question.msg_id):
            return self._is_stale(client, parent)
        if not parent and self._is_stale(client, parent):
            return True
        answer = self._answer(question, request)
        if answer:
            self._end(question, answer)
        elif question.again:
            self._end(question, NO)
        else:
            question.again = True
            self._over[question.msg_id] = None
            self._put(question)
        return True

    def _answer(self, question: Question, request: Request) -> str:
        """Return what an answer stands for; empty where it is a word that the question has not."""
        try:
            value = decode(request.parts[CONTENT], _VALUE_BYTES).get("value")
        except ProtocolError:
            return NO
        word = value.strip().lower() if isinstance(value, str) else ""
        if request.msg_type != "input_reply" or word in _NO or not word.isprintable():
            return NO
        return question.answers.get(word, "")

    def left_open(self, cell: Cell) -> None:
        """Take note that a cell ends whose own prompt is still with its client: the answer is nobody's."""
        if cell.prompt:
            self._leave(cell.request, cell.prompt)
            cell.prompt = ""

    def _is_stale(self, client: bytes, parent: str) -> bool:
        """Tell whether an answer is to a prompt of ours that is over; one that names its prompt needs no count."""
        if parent:
            return parent in self._over
        left = self._stale.get(client, 0)
        if left:
            self._stale[client] = left - 1
        return left > 0

    # --- ends

    def close(self, question: Question, why: str) -> None:
        """End a question that is not asked any more, without telling who asked it."""
        question.done = lambda _answer: None
        if question in self._open:
            self._end(question, why)

    def interrupted(self) -> None:
        """End all: the cell's interrupt takes its prompts away in the clients, too."""
        for question in list(self._open):
            self._end(question, INTERRUPTED)
        self._stale.clear()

    def worker_gone(self) -> None:
        """End all that were asked in cells of a worker that is no more."""
        for question in list(self._open):
            self._end(question, NOBODY)

    def _client_gone(self, source: int) -> None:
        for question in list(self._open):
            if question.cell.request.source == source:
                self._end(question, NOBODY)

    def _end(self, question: Question, answer: str) -> None:
        if question not in self._open:
            return
        self._open.remove(question)
        if question.timer is not None:
            question.timer.cancel()
        if question.msg_id and answer in (TIMEOUT, NOBODY):
            self._leave(question.cell.request, question.msg_id)
        question.done(answer)
        self.go_on()

    def _leave(self, request: Request, msg_id: str) -> None:
        """Count a prompt that the client of ``request`` may still answer though nobody waits for it."""
        client = client_of(request)
        self._stale[client] = self._stale.get(client, 0) + 1
        self._over[msg_id] = None
        if len(self._over) > _MOST_STALE:
            del self._over[next(iter(self._over))]
        if len(self._stale) > _MOST_STALE:
            del self._stale[next(iter(self._stale))]


def client_of(request: Request) -> bytes:
    """Return what tells one client from another."""
    return b"\0".join(map(bytes, request.identities))
