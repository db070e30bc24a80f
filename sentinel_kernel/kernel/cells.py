"""One cell on its way through the host: what was asked, how far it is, and what the host shows in it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.record import MutableRecord, fresh
from sentinel_kernel.worker.leading_block import dry_run_line, parse_leading_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.advice import Advice
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.worker.leading_block import MagicLine


class Stage(Enum):
    """How far a cell is."""

    QUEUED = "queued"
    OPENING = "opening"
    """Its magics run, or the supervisor is told that it begins."""
    RUNNING = "running"
    """The worker has it."""
    DONE = "done"


class Shown(MutableRecord):
    """A violation as it is shown in a cell: under which display id, and which count was published last."""

    display_id: str
    violation: dict[str, Any]
    limit: dict[str, Any] | None = None
    """The limit that the violation is about, as the supervisor told of it."""
    published_count: int = 0
    published_at: float = 0.0
    changed: bool = False
    """Whether more is known of it than was published."""

    @property
    def is_behind(self) -> bool:
        """Whether what is shown is not the newest."""
        return self.changed or self.published_count != self.violation.get("count")


class Cell(MutableRecord):
    """One execute_request."""

    request: Request
    code: str
    silent: bool
    allow_stdin: bool
    stop_on_error: bool
    magics: tuple[MagicLine, ...]
    client_answers: bool = True
    """Whether its client takes input; ``allow_stdin`` is off in a dry run all the same."""
    stage: Stage = Stage.QUEUED
    attempt: int = 0
    """Counts up whenever its beginning is called off: answers to the earlier beginning are void then."""
    aborted: bool = False
    """An earlier cell of the same queue failed."""
    replied: bool = False
    idle: bool = False
    """Its idle has gone out, whoever sent it: what is shown in it behind that, no frontend shows."""
    began: bool = False
    """The worker's execute_input has gone out: what the host shows comes behind it."""
    execution_count: int | None = None
    displays: list[Json] = fresh(default_factory=list)
    """MIME bundles of the host's magics that wait for the worker's execute_input."""
    violations: dict[str, Shown] = fresh(default_factory=dict)
    notices: set[str] = fresh(default_factory=set)
    """What the cell was told of already: each notice is shown once."""
    show_again: bool = False
    """A clear_output(wait=True) takes the host's displays away with the cell's next output."""
    show_at_end: bool = False
    """A clear_output was sent while a widget may have had the cell's outputs: whose were cleared, only clients know."""
    prompt: str = ""
    """The msg_id of the cell's own prompt that its client has not answered."""
    failed: bool = False
    """The worker has told of an error in it."""
    reports: bool = False
    """The worker has said of such an error what it is made of (failures.py)."""
    explained: bool = False
    """The sandbox caused the last one of these."""
    suspects: dict[str, Json] = fresh(default_factory=dict)
    """Limits that its errors and outputs speak of (limit_signs.py), by name."""
    advice: Advice | None = None
    """What preflight has to say of it (advice.py)."""
    ename: str = ""
    """The class of the exception that it ended with, as the worker says."""
    status: str = ""
    """How it ended, as the worker's reply says (ok, error, aborted); empty where there is none."""
    store_history: bool = True
    dry_run: MagicLine | None = None
    """The line that makes it one."""
    asks: bool = False
    """An input_request is with the client."""
    late_reply: Callable[[], None] | None = None
    """Forwards its reply, which waits until the files that it wrote are dealt with."""

    @property
    def is_read(self) -> bool:
        """Whether somebody reads what is shown in it; what waits for a cell waits for such a one.

        A client that neither counts a cell nor takes input for it looks something up by itself, as a list of variables.
        """
        return not self.silent and (self.store_history or self.client_answers)

    def answer(self, forward: Callable[[], None], *, late: bool) -> None:
        """Forward its reply; ``late``, once its files are dealt with: who has the reply finds new ones there."""
        if late and not self.idle:
            self.late_reply = forward
        else:
            forward()

    def send_reply(self) -> None:
        """Forward the reply, if it waits."""
        forward, self.late_reply = self.late_reply, None
        if forward is not None:
            forward()


def read_cell(request: Request) -> Cell:
    """Return the cell of an execute_request. Raises ProtocolError where the content can't be read."""
    content = request.content()
    code = content.get("code")
    if not isinstance(code, str):
        # ipykernel would not reply to it, and a cell without a reply holds up all that come behind it.
        raise ProtocolError("The code of a cell is not a string.")
    silent = bool(content.get("silent", False))
    takes_input = bool(content.get("allow_stdin", False))
    return Cell(
        request=request,
        code=code,
        silent=silent,
        store_history=bool(content.get("store_history", not silent)),
        allow_stdin=takes_input,
        client_answers=takes_input,
        stop_on_error=bool(content.get("stop_on_error", True)),
        magics=() if silent else parse_leading_block(code).lines,
        dry_run=None if silent else dry_run_line(code),
    )
