"""What comes from the worker, all of it hostile: checked, held to the output rule, and forwarded."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel import host_comms, words
from sentinel_kernel.kernel.cell_end import CellEnd
from sentinel_kernel.kernel.cell_record import error_name, take_reply
from sentinel_kernel.kernel.failure_sign import METADATA_KEY, bears_report
from sentinel_kernel.kernel.limit_signs import note_signs
from sentinel_kernel.kernel.limits import QUOTA
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.output_rule import BUNDLES, UNTOUCHED, Judged, judge, judge_metadata
from sentinel_kernel.kernel.prompts import told_apart
from sentinel_kernel.kernel.turns import Turns
from sentinel_kernel.kernel.unavailable import failed_content
from sentinel_kernel.kernel.widgets import COMM_TYPES
from sentinel_kernel.kernel.wire import (
    CONTENT,
    HEADER,
    HEADER_BYTES,
    METADATA,
    PARENT,
    decode,
    encode,
    text_of,
)

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json, Part

MESSAGES_A_TURN = 64
STATUS_BYTES = 64 * 1024
REPLY_BYTES = 512 * 1024 * 1024
_ABOUT_CELLS = frozenset({"status", "execute_input", "clear_output"})
_OUTPUTS = BUNDLES | {"stream", "error"}
_SPEAKING = frozenset({"stream", "error"})
"""Messages whose words may be about a limit."""

_UNASKED = frozenset({"shutdown_reply", "iopub_welcome"})
_MALFORMED = {"ename": "MalformedReply", "evalue": "", "traceback": []}
_MOST_COUNT = 1_000_000


class WorkerSide:
    """Reads the worker's channels. No message raises out of here: a bad one is dropped and logged."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._end = CellEnd(host)
        self._turns = Turns()
        self._last_words = False
        """The worker is gone: what it said last waits for nobody."""

    def pump(self) -> bool:
        """Forward what the worker sent, as far as clients can take it; tell whether there is more."""
        more = False
        link, inner = self._host.lifecycle.link, self._host.lifecycle.inner
        if link is not None and inner is not None and inner["iopub"].messages:
            # A refusal is told before the call returns, so it is here before any output that came after it.
            link.take_urgent()
        for channel in ("iopub", "shell", "control", "stdin"):
            inner = self._host.lifecycle.inner
            if inner is None:
                return False
            taken = self._forward_some(channel, MESSAGES_A_TURN)
            inner = self._host.lifecycle.inner
            if inner is None:
                return True
            left = bool(inner[channel].messages)
            takes = self._takes(channel)
            more |= taken and left and takes
            inner.watch(channel, reading=takes and not left)
        return more

    def read_rest(self) -> None:
        """Forward what a worker that is gone had still sent, and the idle that is held back."""
        self._end.release()
        for cell in self._host.execution.running.values():
            cell.send_reply()
        inner = self._host.lifecycle.inner
        if inner is not None:
            if "failures" in vars(self._host):
                self._host.failures.give_up()
            inner.read_rest()
            self._last_words = True
            for channel in ("iopub", "shell", "control"):
                while inner[channel].messages:
                    self._one(channel, inner[channel].messages.popleft())
                    self._end.release()
            self._last_words = False

    def _takes(self, channel: str) -> bool:
        if channel == "control":
            # Who interrupts, debugs or looks at memory must not wait for somebody else's client that reads no output.
            return self._host.publisher.takes_replies
        if "failures" in vars(self._host) and self._host.failures.waiting:
            return False  # what comes behind an error stays behind it
        if channel == "stdin" and self._host.questions.open:
            return False  # one question at a time: an answer must not go to the wrong one
        if channel == "iopub" and (self._end.held or (self._turns.rests and not self._runs)):
            return False
        return self._host.publisher.ready

    def _forward_some(self, channel: str, most: int) -> bool:
        """Forward up to ``most`` messages; tell whether the channel may go on."""
        inner = self._host.lifecycle.inner
        if inner is None:
            return False
        messages = inner[channel].messages
        self._turns.begin()
        for _ in range(most):
            if not messages or not self._takes(channel) or self._turns.over:
                break
            self._one(channel, messages.popleft())
            if self._host.lifecycle.inner is not inner:
                return False
        if channel == "iopub" and not self._runs:
            self._turns.end(self._host.loop)
        return True

    @property
    def _runs(self) -> bool:
        return bool(self._host.execution.running)

    def _one(self, channel: str, frames: list[Part]) -> None:
        try:
            msg_type, identities, parts = self._host.firewall.admit(channel, frames)
            ask, reports = not self._last_words, bears_report(parts[METADATA])
            if reports and self._host.failures.must_wait(channel, msg_type, parts, ask=ask):
                self._put_back(channel, frames)
                return
            if channel == "iopub" and msg_type == METADATA_KEY:
                return  # a report alone, on an error that ended a thread: it was shown, and is for nobody else
            if channel == "iopub":
                self._output(msg_type, identities, parts, reports=reports)
            elif channel == "stdin":
                self._prompt(msg_type, parts)
            else:
                self._reply(channel, msg_type, parts)
        except ProtocolError as error:
            log(f"A message of the worker on {channel} was dropped: {error}")
        except Exception as error:  # noqa: BLE001 - whatever the worker sends, it must not end its own guard
            self._host.faults.note(f"A message of the worker on {channel} was dropped", error)

    def _put_back(self, channel: str, frames: list[Part]) -> None:
        """Keep a message for later, as the channel's first."""
        if (inner := self._host.lifecycle.inner) is not None:
            inner[channel].messages.appendleft(frames)

    # --- iopub

    def _output(self, msg_type: str, topic: list[Part], parts: list[Part], *, reports: bool) -> None:
        host = self._host
        if msg_type in _UNASKED:
            if msg_type == "iopub_welcome":
                host.lifecycle.worker_welcomes()
            return
        if msg_type == "status" and self._is_carried(parts):
            return
        if not host.limits.takes(msg_type, parts) or not self._passes(msg_type, parts):
            return
        if msg_type in QUOTA:
            host.summary.put_out(parts)
        if msg_type == "error" and (failed := self._cell_of(parts)) is not None:
            failed.ename, failed.failed = error_name(parts), True
            failed.explained = failed.explained and reports
        if msg_type in _SPEAKING:
            note_signs(lambda: self._cell_of(parts), msg_type, parts[CONTENT])
        cell = self._cell_of(parts) if msg_type in _ABOUT_CELLS or self._shows_again(msg_type) else None
        if cell is None:
            host.outbox.forward_output(topic, parts)
        elif msg_type == "status":
            self._status(cell, topic, parts)
        else:
            # Read first: what the host can't read must not have reached clients.
            content = decode(parts[CONTENT], REPLY_BYTES) if msg_type in _ABOUT_CELLS else {}
            host.outbox.forward_output(topic, parts)
            self._about_cell(cell, msg_type, content)

    def _echoes(self, cell: Cell | None, parts: list[Part]) -> None:
        """Make a cell's execute_input anew: it says what the client has sent, once. Raises ProtocolError."""
        if cell is None or cell.began:
            raise ProtocolError("No cell begins with this execute_input.")
        told = decode(parts[CONTENT], REPLY_BYTES).get("execution_count")
        count = (
            told if isinstance(told, int) and 0 <= told < _MOST_COUNT else self._host.execution.last_count + 1
        )
        parts[CONTENT] = encode({"code": cell.code, "execution_count": count})

    def _is_carried(self, parts: list[Part]) -> bool:
        """Tell whether a status is about a request of the host's own. Raises ProtocolError where it is too long."""
        if len(parts[CONTENT]) > STATUS_BYTES:
            raise ProtocolError("A status is too long.")
        return "carrying" in vars(self._host) and self._host.carrying.is_about(parts[PARENT])

    def _says_nothing_new(self, parts: list[Part]) -> bool:
        state = text_of(decode(parts[CONTENT], STATUS_BYTES), "execution_state")
        return self._host.firewall.repeats(state, self._host.lifecycle.generation)

    def _passes(self, msg_type: str, parts: list[Part]) -> bool:
        """Hold a message to the output rule, and say in its cell what was held back; False where nothing is left."""
        host = self._host
        output_filter = partial(host.output_filter.judge, buffers=parts[CONTENT + 1 :])
        judged = judge(msg_type, parts[CONTENT], host.displays.ids, output_filter)
        judged = judge_metadata(judged, parts)
        # As it came, and as it goes out: what the filter leaves out may part a name of the host's.
        forms = [parts[CONTENT], *([] if judged.content is None else [encode(judged.content)])]
        if (not judged.drop or judged.kinds) and any(host_comms.forged(host, msg_type, one) for one in forms):
            judged = Judged(drop=True, reserved=True)
        if judged.script or judged.reserved or judged.malformed or judged.kinds:
            self._tell(judged, parts[PARENT])
        if judged.drop:
            return False
        parts[CONTENT] = forms[-1]
        if msg_type == "clear_output":
            # Made anew: host and clients must agree on what is cleared, and when.
            parts[CONTENT] = encode({"wait": bool(decode(parts[CONTENT], REPLY_BYTES).get("wait"))})
        elif msg_type == "execute_input":
            self._echoes(self._cell_of(parts), parts)
        if msg_type not in COMM_TYPES:
            return msg_type != "status" or not self._says_nothing_new(parts)
        host.outbox.captures.worker_message(msg_type, parts)
        return host.widgets.worker_message(msg_type, parts)

    def _shows_again(self, msg_type: str) -> bool:
        return msg_type in _OUTPUTS and any(cell.show_again for cell in self._host.execution.running.values())

    def _cell_of(self, parts: list[Part]) -> Cell | None:
        parent = decode(parts[PARENT], HEADER_BYTES)
        return self._host.execution.running.get(text_of(parent, "msg_id"))

    def _about_cell(self, cell: Cell, msg_type: str, content: Json) -> None:
        """Do what the host has to do right behind a message that concerns one of its cells."""
        host = self._host
        if msg_type == "execute_input":
            count = content.get("execution_count")
            if isinstance(count, int) and 0 < count < _MOST_COUNT:
                cell.execution_count = count
                host.execution.last_count = count
            cell.began = True
            host.gauge.cell_begins(cell)
            self._show_pages(cell)
            host.limits.show_late(cell)
            host.files.show_late(cell)
            host.displays.bring_up_to_date(cell)
        elif msg_type == "clear_output":
            if host.outbox.captures.capture(cell.request.msg_id):
                cell.show_at_end = True
            elif content["wait"]:
                cell.show_again = bool(cell.violations or cell.advice)
            else:
                host.displays.show_again(cell)
        elif cell.show_again:
            host.displays.show_again(cell)

    def _show_pages(self, cell: Cell) -> None:
        for bundle in cell.displays:
            self._host.outbox.display(bundle, cell.request.header)
        cell.displays.clear()

    def _tell(self, judged: Judged, parent: Part) -> None:
        """Say in the cell what was held back, once for each kind."""
        host = self._host
        msg_id = text_of(decode(parent, HEADER_BYTES), "msg_id")
        cell = host.execution.running.get(msg_id)
        if judged.kinds:
            host.output_filter.tell(judged.kinds, parent, msg_id)
        if judged.script:
            host.displays.notice(words.SCRIPT_HELD, "held", parent, cell, "script")
        if judged.reserved:
            host.displays.notice(words.RESERVED_HELD, "held", parent, cell, "reserved")
        if judged.malformed:
            host.displays.notice(words.MALFORMED_HELD, "held", parent, cell, "malformed")

    def _status(self, cell: Cell, topic: list[Part], parts: list[Part]) -> None:
        """Forward a cell's status; before its idle, all that the supervisor has to say about it is shown."""
        host = self._host
        if text_of(decode(parts[CONTENT], STATUS_BYTES), "execution_state") != "idle" or cell.idle:
            host.outbox.forward_output(topic, parts)
            return
        self._show_pages(cell)
        self._end.hold(cell, topic, parts, waits=not self._last_words)

    # --- replies and prompts

    def _reply(self, channel: str, msg_type: str, parts: list[Part]) -> None:
        """Forward an answer to the one request that asked for it, and to nobody else."""
        host = self._host
        msg_id = text_of(decode(parts[PARENT], HEADER_BYTES), "msg_id")
        if msg_type == "shutdown_reply":
            host.worker_shuts_down()
            return
        if "carrying" in vars(host) and host.carrying.takes(msg_id, msg_type, parts):
            return
        cell = host.execution.running.get(msg_id)
        request = cell.request if cell is not None else host.execution.take_outstanding(msg_id)
        expected = request is not None and msg_type == request.msg_type.removesuffix("_request") + "_reply"
        answered = cell is not None and cell.replied
        if request is None or not expected or request.channel != channel or answered:
            raise ProtocolError(f"Nobody asked for this {msg_type}.")
        output_filter = partial(host.output_filter.judge, request=request)
        judged = judge(msg_type, parts[CONTENT], host.displays.ids, output_filter)
        host.output_filter.tell(judged.kinds, request.header, msg_id)
        if judge_metadata(UNTOUCHED, parts).malformed:
            parts[METADATA] = b"{}"
        if judged.drop:
            parts[CONTENT] = encode(failed_content(request, _MALFORMED))
        elif judged.content is not None:
            parts[CONTENT] = encode(judged.content)
        if msg_type == "comm_info_reply":
            host_comms.add_listed(host, request, parts)
        forward = partial(host.outbox.forward, channel, request.identities, parts)
        if cell is None:
            forward()
            return
        self._cell_replied(cell, parts)
        # Who has the reply may run the next cell, so what takes up all tasks has gone by then.
        cell.answer(forward, late=bool(cell.suspects) or host.lifecycle.kept.changed())
        if cell.idle:
            host.execution.finish(cell)
        else:
            self._end.tell(cell)

    def _cell_replied(self, cell: Cell, parts: list[Part]) -> None:
        """Take note of a cell's end. A failed one aborts what came before its client could know."""
        cell.replied = True
        self._host.questions.left_open(cell)
        self._host.limits.person_asked(cell, waiting=False)
        content = decode(parts[CONTENT], REPLY_BYTES)
        take_reply(cell, content)
        if content.get("payload"):
            self._host.leaving.replied(content)
        if content.get("status") == "error" and cell.stop_on_error and not cell.silent:
            self._host.clients.take_waiting()
            self._host.execution.abort_behind(cell)

    def _prompt(self, msg_type: str, parts: list[Part]) -> None:
        """Forward a prompt only from a cell that may ask, one at a time, to the client that ran the cell."""
        host = self._host
        cell = self._cell_of(parts)
        if msg_type != "input_request" or cell is None:
            raise ProtocolError(f"No cell asks with this {msg_type}.")
        if not cell.allow_stdin or cell.asks or cell.replied:
            host.displays.notice(words.INPUT_HELD, "held", cell.request.header, cell, "input")
            return
        # Content and metadata are made anew: what the person's client can't read would end it.
        parts[CONTENT] = told_apart(parts[CONTENT])
        host.limits.person_asked(cell, waiting=True)
        parts[METADATA] = b"{}"
        cell.prompt = text_of(decode(parts[HEADER], HEADER_BYTES), "msg_id")
        host.outbox.forward("stdin", cell.request.identities, parts)
