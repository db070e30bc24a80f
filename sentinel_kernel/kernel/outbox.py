"""The messages that the host itself makes: statuses, outputs, replies and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import outer
from sentinel_kernel.kernel.captures import Captures
from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE
from sentinel_kernel.kernel.session_violations import SessionViolations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.outer import Outer
    from sentinel_kernel.kernel.publisher import Publisher
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part, Session

NO_PARENT = b"{}"


class Outbox:
    """Speaks for the host on the outer sockets."""

    def __init__(self, session: Session, sockets: Outer, publisher: Publisher) -> None:
        self._session = session
        self._sockets = {"shell": sockets.shell, "control": sockets.control, "stdin": sockets.stdin}
        self._publisher = publisher
        self.captures = Captures(self.publish)
        """The worker's Output widgets: what is shown or told below must not end in one of them."""

        self.told = SessionViolations()
        """Every violation that was shown."""

    def publish(
        self,
        msg_type: str,
        content: Json,
        parent: Part = NO_PARENT,
        topic: bytes | None = None,
        metadata: Json | None = None,
    ) -> None:
        """Publish a message on iopub, parented to the request whose header is ``parent``."""
        message = self._session.message(msg_type, content, parent, metadata)
        self._publisher.publish(
            [b"kernel.sentinel." + msg_type.encode() if topic is None else topic, *message]
        )

    def status(self, state: str, parent: Part = NO_PARENT) -> None:
        """Publish an execution state."""
        self.publish("status", {"execution_state": state}, parent)

    def display(
        self, data: Json, parent: Part, display_id: str | None = None, *, update: bool = False
    ) -> None:
        """Publish a MIME bundle, or a new version of the one shown under ``display_id``."""
        transient = {} if display_id is None else {"display_id": display_id}
        kind = "update_display_data" if update else "display_data"
        content: Json = {"data": data, "metadata": {}, "transient": transient}
        self.captures.outside(parent, lambda: self.publish(kind, content, parent))
        if VIOLATION_TYPE in data:
            self.told.note(data[VIOLATION_TYPE])

    def error(self, error: Json, parent: Part) -> None:
        """Publish an error output (``ename``, ``evalue``, ``traceback``)."""
        self.captures.outside(parent, lambda: self.publish("error", error, parent))

    def reply(self, request: Request, content: Json, metadata: Json | None = None) -> None:
        """Answer a request on the channel and to the client that it came from."""
        kind = request.msg_type.removesuffix("_request") + "_reply"
        message = self._session.message(kind, content, request.header, metadata)
        outer.send(self._sockets[request.channel], [*request.identities, *message])

    def answer(self, request: Request, content: Json, metadata: Json | None = None) -> None:
        """Answer a request that the worker never sees: busy, the reply, idle."""
        self.status("busy", request.header)
        self.reply(request, content, metadata)
        self.status("idle", request.header)

    def forward(self, channel: str, identities: Sequence[Part], parts: Sequence[Part]) -> None:
        """Send a worker's message to a client under the host's signature."""
        outer.send(self._sockets[channel], [*identities, *self._session.signed(parts)])

    def forward_output(self, topic: Sequence[Part], parts: Sequence[Part]) -> None:
        """Publish a worker's message under the host's signature."""
        self._publisher.publish([*topic, *self._session.signed(parts)])
