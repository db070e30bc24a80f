"""The worker: ipykernel as it is, on sockets that were connected before it existed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
import sys
import traceback
import uuid
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets import Int
from zmq.eventloop.zmqstream import ZMQStream

from sentinel_kernel.worker.inert_magics import register_inert_magics

# The "ports" that stand for the inherited listening sockets, in the order in which the supervisor sends them.
_SHELL, _CONTROL, _STDIN, _IOPUB, _HEARTBEAT = range(1, 6)


class ChildOutputThread(IOPubThread):
    """IOPub's thread, whose pipe for the output of forked children needs no network.

    ipykernel listens on tcp://127.0.0.1 for it, which a profile without a network refuses. An abstract address
    (unix(7)) belongs to the sandbox's own network namespace and leaves no file behind.
    """

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid = uuid.uuid4().bytes
        self._pipe_address = f"ipc://@sentinel-output-{uuid.uuid4().hex}"
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


class SentinelKernel(IPythonKernel):
    """ipykernel's kernel, whose execution count can go on from an earlier worker's."""

    first_execution_count = Int(1, help="The number of the first cell.").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - handed on
        super().__init__(**kwargs)
        if self.shell is not None:
            self.shell.execution_count = self.first_execution_count


class SentinelApp(IPKernelApp):
    """ipykernel's application without a connection file, a heartbeat (the host answers it) and a parent to poll."""

    name = "ipython-kernel"
    kernel_class = SentinelKernel
    classes = [*IPKernelApp.classes, SentinelKernel]  # noqa: RUF012 - a traitlets application declares it so
    listening: tuple[int, ...] = ()

    def init_connection_file(self) -> None:
        """Take the place of reading a file: the sockets are here already."""
        self.transport = "ipc"
        self.connection_file = ""
        self.shell_port, self.control_port, self.stdin_port = _SHELL, _CONTROL, _STDIN
        self.iopub_port, self.hb_port = _IOPUB, _HEARTBEAT
        # Unsigned: the streams are private, and whoever could sign in here is the cell's code itself.
        self.session.key = b""

    def _bind_socket(self, socket: zmq.Socket[bytes], port: int) -> int:
        socket.setsockopt(zmq.USE_FD, self.listening[port - 1])
        socket.bind("ipc:///inherited")  # the name is not used: libzmq listens on the descriptor
        if port == _SHELL:
            # The debugger starts through the shell channel from inside (init_control connects to the last endpoint).
            socket.setsockopt(zmq.USE_FD, -1)
            socket.bind("inproc://sentinel-shell")
        return port

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """Make IOPub lossless: its backlog is the sandbox's own memory, and the host reads as clients take it."""
        context.sndhwm = 0
        self.iopub_socket = context.socket(zmq.XPUB)
        context.sndhwm = 1000
        self.iopub_socket.linger = 1000
        self.iopub_port = self._bind_socket(self.iopub_socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = ChildOutputThread(self.iopub_socket, pipe=True, session=self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

    def init_heartbeat(self) -> None:
        """Leave it to the host."""

    def init_poller(self) -> None:
        """Leave it out: the sandbox dies with its supervisor by other means."""

    def write_connection_file(self, **_kwargs: Any) -> None:  # noqa: ANN401 - as the overridden one
        """Write none: nobody else can connect."""

    def log_connection_info(self) -> None:
        """Note the stand-ins for ports; there is nothing a person could connect to."""
        self._ports = {
            "shell": self.shell_port,
            "iopub": self.iopub_port,
            "stdin": self.stdin_port,
            "hb": self.hb_port,
            "control": self.control_port,
        }


def run_worker(request: dict[str, Any], listening: list[int]) -> None:
    """Run the kernel until it is shut down; in the process that init has just forked.

    ``request`` is the supervisor's ``fork``: argv, cwd, magics. Returns to the end of the interpreter, which runs
    the cells' own exit handlers.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    complaints = os.dup(2)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    _reseed()
    try:
        os.chdir(request["cwd"])
        app = _make_app(list(request["argv"]), tuple(listening))
        register_inert_magics(app.kernel, app.shell, list(request["magics"]))
    except BaseException:  # noqa: BLE001 - whatever it is, the supervisor shows it
        with os.fdopen(complaints, "w") as stream:
            traceback.print_exc(file=stream)
        os._exit(1)
    os.close(complaints)  # before the first cell: what it writes must not reach the supervisor
    app.start()


def _make_app(arguments: list[str], listening: tuple[int, ...]) -> SentinelApp:
    launcher = importlib.util.find_spec("ipykernel_launcher")
    # As under plain ipykernel: what a cell's argparse sees.
    sys.argv = [
        launcher.origin if launcher is not None and launcher.origin else "ipykernel_launcher",
        *arguments,
    ]
    app = SentinelApp.instance()
    app.listening = listening
    app.initialize(arguments)
    return app


def _reseed() -> None:
    """Give this worker randomness of its own: every worker is forked from the same state."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
