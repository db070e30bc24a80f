"""Puts questions of a kernel to the person behind the client, by elicitation; where that can't be had, it is a no.

The protocol has two ways. Until 2025-11-25 the server sends the client a request of its own while the call is open.
From 2026-07-28 on the call returns "input required", and the client calls again with the answer: the work goes on
meanwhile, and is found again by a secret that the client hands back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.shared.exceptions import MCPError

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp.plain_text import cleaned
from sentinel_kernel.record import MutableRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from typing import TypeVar

    from mcp.server.context import ServerRequestContext

    _Part = TypeVar("_Part")

NO = "n"
_OPTION = re.compile(r"\[([a-z])\]\s*([^\[\],:，。：]+)")
_MOST_LEFT = 32
_KEY = "answer"
CANCELLED = "cancelled"


class Question(MutableRecord):
    """One question. ``options`` are the words of the answers and the letters that they stand for."""

    text: str
    options: dict[str, str]
    answer: asyncio.Future[str]
    outcome: str = ""

    def settle(self, letter: str, outcome: str) -> None:
        """Take the answer, or that there is none."""
        if not self.answer.done():
            self.outcome = outcome
            self.answer.set_result(letter)

    def form(self) -> types.ElicitRequestFormParams:
        """Return the question as it goes to the client."""
        words = list(self.options)
        answer = {"type": "string", "title": "Answer", "enum": words, "default": words[-1]}
        return types.ElicitRequestFormParams(
            message=self.text,
            requested_schema={"type": "object", "properties": {_KEY: answer}, "required": [_KEY]},
        )

    def take(self, result: object) -> None:
        """Take what the client answered; anything but an accepted answer is a no."""
        if not isinstance(result, types.ElicitResult) or result.action != "accept":
            action = result.action if isinstance(result, types.ElicitResult) else "none"
            self.settle(NO, f"refused: the person's answer was '{action}'")
            return
        word = (result.content or {}).get(_KEY)
        letter = self.options.get(word if isinstance(word, str) else "", NO)
        self.settle(letter, str(word) if letter != NO else "refused: the answer was no")


def question(prompt: str, kernel: str) -> Question:
    """Return the question that a prompt of the kernel's is: its options are written as ``[y] once``.

    They stand behind its last question mark: what is before it may name what cells have made.
    """
    end = max(prompt.rfind("?"), prompt.rfind("？")) + 1
    options: dict[str, str] = {}
    for letter, words in _OPTION.findall(prompt[end:]):
        options.setdefault(words.strip(), letter)
    if NO not in options.values():
        options["no"] = NO
    text = (prompt[:end] + _OPTION.sub("", prompt[end:])).rstrip(" ,，:：")
    return Question(
        f"Kernel '{kernel}': {cleaned(text)}", options, asyncio.get_running_loop().create_future()
    )


class Job:
    """One call of a tool that may ask questions; it lives on while a client of the newer protocol asks the person."""

    def __init__(
        self,
        tool: str,
        context: ServerRequestContext[Any, Any],
        ask_seconds: float,
        work: Callable[[Job], Coroutine[Any, Any, types.CallToolResult]],
    ) -> None:
        self.tool = tool
        self.context = context
        """Of the request that is open now."""

        self.asked: list[dict[str, str]] = []
        """What was asked, and how it was answered, for the result."""

        self.stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Has a result once the client wants none any more."""

        self._ask_seconds = ask_seconds
        self._waiting: asyncio.Queue[Question] = asyncio.Queue()
        self._open: Question | None = None
        self._task = asyncio.ensure_future(work(self))

    @property
    def can_ask(self) -> bool:
        """Whether the client has elicitation."""
        capabilities = self.context.session.client_capabilities
        elicitation = capabilities.elicitation if capabilities is not None else None
        if elicitation is None or self._ask_seconds <= 0:
            return False
        # Forms alone are meant where a client names no mode (2025-06-18).
        return elicitation.form is not None or elicitation.url is None

    def while_wanted(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        """Yield one part of some work after the other, as long as the client wants its result; from any thread."""
        for part in parts:
            if self.stop.done():
                return
            yield part

    def when_done(self, told: Callable[[], None]) -> None:
        """Have it told when the work is over."""
        self._task.add_done_callback(lambda _: told())

    async def ask(self, prompt: str, kernel: str) -> str:
        """Put a kernel's prompt to the person; return the letter that is the answer."""
        asked = question(prompt, kernel)
        self._waiting.put_nowait(asked)
        try:
            letter = await asyncio.wait_for(asyncio.shield(asked.answer), self._ask_seconds)
        except TimeoutError:
            asked.settle(NO, "refused: nobody answered in time")
            letter = asked.answer.result()
        self.asked.append({"question": asked.text, "answer": asked.outcome})
        return letter

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Tell the client how far it is, where it wants to know."""
        await self.context.session.report_progress(done, total, message)

    async def go_on(self) -> types.CallToolResult | types.InputRequiredResult:
        """Wait for the result, or for a question that the client has to put in its own way."""
        while True:
            waiting = asyncio.ensure_future(self._waiting.get())
            try:
                await asyncio.wait({self._task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not waiting.done():
                    waiting.cancel()
            if self._task.done():
                return self._task.result()
            asked = waiting.result()
            if asked.answer.done():
                continue
            if not self.context.session.can_send_request:
                self._open = asked
                return types.InputRequiredResult(
                    input_requests={_KEY: types.ElicitRequest(params=asked.form())}
                )
            await self._elicit(asked)

    async def _elicit(self, asked: Question) -> None:
        """Send the client the question, until it answers or nobody waits for the answer any more."""
        parameters = asked.form()
        sent = asyncio.ensure_future(
            self.context.session.elicit_form(
                parameters.message, parameters.requested_schema, related_request_id=self.context.request_id
            )
        )
        ends: set[asyncio.Future[Any]] = {sent, asked.answer, self._task}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not sent.done():
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
            return
        try:
            asked.take(sent.result())
        except (MCPError, ValueError) as error:
            asked.settle(NO, f"refused: the client could not ask the person ({cleaned(str(error))[:200]})")

    def answered(
        self, context: ServerRequestContext[Any, Any], responses: Mapping[str, object] | None
    ) -> None:
        """Take up the work again with the answers that a client of the newer protocol brings."""
        self.context = context
        asked, self._open = self._open, None
        if asked is not None:
            asked.take((responses or {}).get(_KEY))

    def cancel(self) -> None:
        """Stop the work: the client wants no result any more."""
        if self._open is not None:
            self._open.settle(NO, "refused: the call was given up")
        if not self.stop.done():
            self.stop.set_result(CANCELLED)


class Jobs:
    """The calls that wait for their client to come back with an answer, by the secret that it was given."""

    def __init__(self) -> None:
        self._left: dict[str, Job] = {}

    def leave(self, job: Job) -> str:
        """Keep a job for its client; return the secret."""
        if len(self._left) >= _MOST_LEFT:
            self._left.pop(next(iter(self._left))).cancel()
        secret = secrets.token_urlsafe(24)
        self._left[secret] = job
        return secret

    def take(self, secret: str, tool: str) -> Job:
        """Return the job that a client comes back for; each secret counts once. Raises SentinelError."""
        job = self._left.pop(secret, None)
        if job is None or job.tool != tool:
            raise SentinelError("The question that this answers is over.", "Call the tool again.")
        return job
