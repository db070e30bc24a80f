"""A client that looks at whole messages: what was asked, what was replied, and what IOPub said about it, in order."""

from __future__ import annotations

import contextlib
import queue
from typing import TYPE_CHECKING, Any

from live_kernel import SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_client.blocking.client import BlockingKernelClient

Message = dict[str, Any]


class Exchange:
    """One request with its reply and with what was published about it, each a whole message."""

    def __init__(self, msg_id: str) -> None:
        self.msg_id = msg_id
        self.published: list[Message] = []
        self.reply: Message = {}

    def __repr__(self) -> str:
        return f"{self.msg_id} (published {self.kinds}, {'replied' if self.reply else 'no reply'})"

    @property
    def content(self) -> dict[str, Any]:
        """Return the reply's content."""
        content: dict[str, Any] = self.reply["content"]
        return content

    @property
    def kinds(self) -> list[str]:
        """Return what was published, in order: a status as its state, one text in pieces as one.

        A process that flushes on a timer sends `print("a")` as one text or, where it had no time between, as two.
        """
        found: list[tuple[str, str]] = []
        for message in self.published:
            kind, content = message["msg_type"], message["content"]
            told = (content["execution_state"] if kind == "status" else kind, content.get("name", ""))
            if kind != "stream" or told not in found[-1:]:
                found.append(told)
        return [kind for kind, _ in found]

    @property
    def finished(self) -> bool:
        """Tell whether the reply and the idle are here; what debugpy tells of itself may still come behind them."""
        return bool(self.reply) and "idle" in self.kinds

    def contents(self, *msg_types: str) -> list[dict[str, Any]]:
        """Return the contents of all that was published of these types."""
        return [message["content"] for message in self.published if message["msg_type"] in msg_types]

    @property
    def text(self) -> str:
        """Return what was printed."""
        return "".join(content["text"] for content in self.contents("stream"))


class Conversation:
    """Asks through one client's channels and sorts what comes back by the request it belongs to."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.exchanges: dict[str, Exchange] = {}
        self.others: list[Message] = []
        """What was published about no request of this client's."""

    def send(
        self,
        msg_type: str,
        content: dict[str, Any] | None = None,
        *,
        channel: str = "shell",
        subshell: str | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[bytes] = (),
    ) -> Exchange:
        """Send a request and do not wait."""
        session = self.client.session
        message = session.msg(msg_type, content or {}, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        socket = getattr(self.client, f"{channel}_channel").socket
        exchange = self.expect(message["header"]["msg_id"])
        session.send(socket, message, buffers=list(buffers) or None)
        return exchange

    def expect(self, msg_id: str) -> Exchange:
        """Sort what comes about a request that is sent by other means."""
        self.exchanges[msg_id] = exchange = Exchange(msg_id)
        return exchange

    def execute(self, code: str, subshell: str | None = None, **options: Any) -> Exchange:
        """Send a cell with the options that clients leave out as they are."""
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        return self.send("execute_request", {**content, **options}, subshell=subshell)

    def run(self, code: str, **options: Any) -> Exchange:
        """Run one cell to its end."""
        return self.finish(self.execute(code, **options))

    def ask(self, msg_type: str, content: dict[str, Any] | None = None, **options: Any) -> Exchange:
        """Send a request and wait for its reply and its idle."""
        return self.finish(self.send(msg_type, content, **options))

    def finish(self, exchange: Exchange) -> Exchange:
        """Wait for a request's end: reply and idle."""
        self.wait_for(lambda: exchange.finished, f"{exchange!r} ends")
        return exchange

    def wait_for_output(self, exchange: Exchange, msg_type: str) -> Message:
        """Wait until something of this type was published about a request, and return it."""

        def found() -> list[Message]:
            return [message for message in exchange.published if message["msg_type"] == msg_type]

        self.wait_for(found, f"{msg_type} of {exchange.msg_id}")
        return found()[0]

    def wait_for_other(self, msg_type: str) -> Message:
        """Wait until something of this type was published about no request of this client's, and take it."""

        def found() -> list[Message]:
            return [message for message in self.others if message["msg_type"] == msg_type]

        self.wait_for(found, f"a {msg_type}")
        message = found()[0]
        self.others.remove(message)
        return message

    def wait_for_prompt(self, cell: Exchange | None = None) -> Message:
        """Wait until ``cell`` (or any) asks for input, and return its request; those of others are passed over."""
        while True:
            message: Message = self.client.get_stdin_msg(timeout=SECONDS)
            if cell is None or message["parent_header"].get("msg_id") == cell.msg_id:
                return message

    def wait_for(self, condition: Any, what: str) -> None:
        """Read the channels until the condition holds; fail where nothing comes any more."""
        import zmq

        poller = zmq.Poller()
        channels = {
            self.client.iopub_channel.socket: self.client.get_iopub_msg,
            self.client.shell_channel.socket: self.client.get_shell_msg,
            self.client.control_channel.socket: self.client.get_control_msg,
        }
        for socket in channels:
            poller.register(socket, zmq.POLLIN)
        while not condition():
            if not (ready := dict(poller.poll(SECONDS * 1000))):
                raise AssertionError(f"not within {SECONDS} s without a message: {what}")
            for socket, receive in channels.items():
                if socket in ready:
                    with contextlib.suppress(queue.Empty):
                        self._sort(receive(timeout=0), published=socket is self.client.iopub_channel.socket)

    def _sort(self, message: Message, *, published: bool) -> None:
        exchange = self.exchanges.get(message["parent_header"].get("msg_id", ""))
        if exchange is None:
            self.others.append(message)
        elif published:
            exchange.published.append(message)
        else:
            assert not exchange.reply, "a request has one reply"
            exchange.reply = message
