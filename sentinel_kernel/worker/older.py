"""What the worker's side needs of ipykernel and an older one (6.29 to 7.1) does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipykernel import iostream
from zmq.eventloop.zmqstream import ZMQStream

from sentinel_kernel.worker.output import OutputThread

if TYPE_CHECKING:
    from collections.abc import Sequence

    import zmq

_SUBSCRIBED = 1


def output_thread(socket: zmq.Socket[bytes], session: Any) -> OutputThread:  # noqa: ANN401 - jupyter_client's
    """Return IOPub's thread; who subscribes is told so, by ipykernel itself from 7.2 on (JEP 65)."""
    if hasattr(iostream.IOPubThread, "_setup_xpub_listener"):
        return OutputThread(socket, pipe=True, session=session)
    return _WelcomingThread(socket, session)


class _WelcomingThread(OutputThread):
    """Says when a subscription is in force: the host waits for that before it lets cells run."""

    def __init__(self, socket: zmq.Socket[bytes], session: Any) -> None:  # noqa: ANN401 - jupyter_client's
        super().__init__(socket, pipe=True)
        self._session = session
        self._subscriptions = ZMQStream(socket, self.io_loop)
        self._subscriptions.on_recv(self._welcome)

    def _welcome(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            if frame[:1] == bytes([_SUBSCRIBED]):
                content = {"subscription": frame[1:].decode("utf-8", "replace")}
                message = self._session.serialize(self._session.msg("iopub_welcome", content))
                self.socket.send_multipart([frame[1:], *message])
