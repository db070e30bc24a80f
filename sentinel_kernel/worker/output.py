"""Output on its way out: IOPub's thread and the standard streams, as ipykernel has them, less waiting."""

from __future__ import annotations

import os
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel import iostream
from zmq.eventloop.zmqstream import ZMQStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.worker.publication import PublicationSocket

_WAKE_SECONDS = 0.05


class OutputThread(iostream.IOPubThread):
    """IOPub's thread, which most messages do not need: whoever has one writes it to the host's stream.

    It is left with what is timed (text that nobody flushed), what a forked child says, and what a slow reader leaves
    waiting. It needs no network: ipykernel listens on tcp://127.0.0.1 for the output of forked children, which a
    profile without a network refuses. An abstract address (unix(7)) belongs to the sandbox's own network namespace,
    leaves no file behind that a cell could remove, and is never too long.
    """

    def __init__(self, socket: PublicationSocket, session: Any) -> None:  # noqa: ANN401 - jupyter_client's
        self._handling = False
        self._woken_at = 0.0
        self.holding = _Holding(self)
        super().__init__(socket, pipe=True)
        self.session = session
        socket.watch(self.io_loop, lambda: self.schedule(socket.drain), self._welcome)

    def _welcome(self, topic: bytes) -> None:
        """Say that a subscription is in force (JEP 65): the host waits for that before it lets cells run."""
        content = {"subscription": topic.decode("utf-8", "replace")}
        message = self.session.serialize(self.session.msg("iopub_welcome", content))
        self.socket.send_multipart([topic, *message])

    def send_multipart(self, msg: Sequence[Any], *args: object, **kwargs: object) -> None:
        """Send a message, from whichever thread has it."""
        socket = self.socket
        if os.getpid() != self._master_pid:
            super().send_multipart(msg, *args, **kwargs)  # a forked child hands it to its parent
        elif socket is not None:
            socket.send_multipart(msg)

    def hold(self, msg: Sequence[Any]) -> None:
        """Send a message together with the next one, or at ``release``."""
        if self.socket is not None and os.getpid() == self._master_pid:
            self.socket.hold(msg)
        else:
            self.send_multipart(msg)

    def release(self) -> None:
        """Send what is held."""
        if self.socket is not None:
            self.socket.release()

    def schedule(self, f: Callable[[], object]) -> None:
        """Have ``f`` called in the thread, which is woken once for all that waits.

        ipykernel wakes it for each, and each wake-up takes a turn of the thread's event loop.
        """
        if not self.thread.is_alive():
            f()
            return
        self._events.append(f)
        # The thread clears _woken_at before it looks how much there is: with it still set, this is among it. It does
        # not count for long: an interrupt may have come right before the wake-up went out.
        now = time.monotonic()
        if now - self._woken_at > _WAKE_SECONDS:
            self._woken_at = now
            self._event_pipe.send(b"")

    def _handle_event(self, msg: object) -> None:
        self._handling = True
        self._woken_at = 0.0
        try:
            super()._handle_event(msg)
        finally:
            self._handling = False

    def done(self) -> bool:
        """Tell whether everything scheduled before this call has been done.

        In this order: an event leaves the queue only after _handling was set.
        """
        return not self._events and not self._handling

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid = uuid.uuid4().bytes
        if os.environ.get("SENTINEL_RUNG") == "landlock":
            # Its name has to be short (supervisor/private_folder.py).
            self._pipe_address = f"ipc://{os.environ['TMPDIR']}/o-{uuid.uuid4().hex[:8]}"
        else:
            self._pipe_address = f"ipc://@ipykernel-output-{uuid.uuid4().hex}"
        receiver = self.socket.context.socket(zmq.PULL)
        receiver.linger = 0
        receiver.bind(self._pipe_address)
        self._pipe_in = ZMQStream(receiver, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> tuple[zmq.Context[zmq.Socket[bytes]], zmq.Socket[bytes]]:
        context = zmq.Context()  # a new one: the inherited one is of no use behind a fork
        sender = context.socket(zmq.PUSH)
        sender.linger = 3000  # ms, as ipykernel's
        sender.connect(self._pipe_address)
        return context, sender


class _Holding:
    """Takes what Session sends, for ``OutputThread.hold``."""

    def __init__(self, thread: OutputThread) -> None:
        self._thread = thread

    def send_multipart(self, msg: Sequence[Any], *_options: object, **_named: object) -> None:
        """Have a message held."""
        self._thread.hold(msg)


class OutStream(iostream.OutStream):
    """A standard stream that waits for IOPub's thread only if something is on its way.

    ipykernel flushes both streams twice per cell and before each display, and each time waits for a round trip to
    the thread, whose answer has to take the interpreter's lock back: half of an empty cell's time. The wait is
    there so that what was written comes before what is sent next; where nothing is left, it has.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._sending = threading.RLock()
        self._flushing = False
        super().__init__(*args, **kwargs)

    def flush(self) -> None:
        """Send what was written, and return when it and all that was scheduled before it is on its way."""
        # In this order: written text leaves the buffers only after _flushing was set, and is scheduled before
        # _flushing is cleared.
        thread = self.pub_thread
        if (
            isinstance(thread, OutputThread)
            and not self._buffers
            and not self._flushing
            and self.echo is None
            and thread.done()
            and thread.thread.is_alive()
            and threading.current_thread() is not thread.thread
        ):
            return
        super().flush()

    def flush_here(self) -> None:
        """Send what was written, in this thread.

        Only where no interrupt is to be expected: it could come between the sending and the taking note of it.
        """
        if self.echo is None and isinstance(self.pub_thread, OutputThread) and self._is_master_process():
            self._flush()
        else:
            self.flush()

    def _flush(self) -> None:
        if not self._is_master_process():
            super()._flush()  # the lock may have been held at the fork, by a thread that is not here
            return
        # Text of two flushes at a time must not overtake: each takes the buffers and sends them in one go.
        with self._sending:
            self._flushing = True
            try:
                super()._flush()
            finally:
                self._flushing = False


# Libraries, and people, know the streams by ipykernel's name for them.
OutStream.__module__ = iostream.OutStream.__module__
