"""ipykernel's application on sockets that were connected before it existed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import zmq
from ipykernel import kernelapp
from traitlets import DottedObjectName, Type, default
from traitlets.config.application import catch_config_error
from traitlets.config.loader import Config, DeferredConfigString
from traitlets.utils.importstring import import_item

from sentinel_kernel.worker.hop import HopSocket
from sentinel_kernel.worker.kernel import SentinelKernel
from sentinel_kernel.worker.output import OutputThread
from sentinel_kernel.worker.packing import whole
from sentinel_kernel.worker.publication import PublicationSocket

if TYPE_CHECKING:
    from collections.abc import Sequence

# The "ports" that stand for the inherited listening sockets, in the order in which the supervisor sends them. The
# last is nobody's: the host answers heartbeats.
_SHELL, _CONTROL, _STDIN, _IOPUB, _HEARTBEAT = range(1, 6)
_OPTION = re.compile(r"--([A-Z]\w*)\.([a-z_]\w*)=(.*)", re.DOTALL)


class IPKernelApp(kernelapp.IPKernelApp):
    """The application without a connection file, a heartbeat (the host answers it) and a parent to poll.

    Its name is that of its base: `%config IPKernelApp`, options and configuration files speak to it by name.
    """

    kernel_class = SentinelKernel
    classes = [*kernelapp.IPKernelApp.classes, SentinelKernel]  # noqa: RUF012 - a traitlets application declares it so
    outstream_class = DottedObjectName("sentinel_kernel.worker.output.OutStream", allow_none=True).tag(
        config=True
    )
    blocking_class = Type(klass=object)
    listening: Sequence[int] = ()

    @default("blocking_class")
    def _default_blocking_class(self) -> object:
        """Import it for who asks: by its name, the application would import all of jupyter_client at its start."""
        return import_item("jupyter_client.BlockingKernelClient")

    @catch_config_error
    def parse_command_line(self, argv: list[str] | None = None) -> None:
        """Read the options. Where each is a `--Class.trait=value`, without making a parser of all there could be."""
        options = [_OPTION.fullmatch(argument) for argument in argv or ()]
        config = Config()
        for option in options:
            if option is None or option[2] in config[option[1]]:  # a trait that is given twice is a list
                super().parse_command_line(argv)
                return
            config[option[1]][option[2]] = DeferredConfigString(option[3])
        self.argv = list(argv or ())
        self.cli_config = config
        self.update_config(config)

    def get_default_logging_config(self) -> dict[str, Any]:
        """Let the logger drop what its handler would: by default it makes records of four messages a cell."""
        config: dict[str, Any] = super().get_default_logging_config()
        config["loggers"][type(self).__name__]["level"] = self.log_level
        return config

    def init_connection_file(self) -> None:
        """Take the place of reading a file: the sockets are here already."""
        self.transport = "ipc"
        self.connection_file = ""
        self.shell_port, self.control_port, self.stdin_port = _SHELL, _CONTROL, _STDIN
        self.iopub_port, self.hb_port = _IOPUB, _HEARTBEAT
        # Unsigned: the streams are private, and whoever could sign in here is the cell's code itself.
        self.session.key = b""
        self.session.pack = whole(self.session.pack)

    def init_sockets(self) -> None:
        """Make the sockets, and take the host's name out of what passes through those that it answers on."""
        super().init_sockets()
        self.shell_socket = HopSocket(self.shell_socket)
        # The thread has the plain one, and in ipykernel 7.0 and 7.1 replies go through it.
        thread: Any = getattr(self, "shell_channel_thread", None)
        if hasattr(thread, "_shell_socket"):
            thread._shell_socket = self.shell_socket  # noqa: SLF001
        self.control_socket = HopSocket(self.control_socket)
        self.stdin_socket = HopSocket(self.stdin_socket)

    def _bind_socket(self, s: zmq.Socket[bytes], port: int) -> int:
        s.setsockopt(zmq.USE_FD, self.listening[port - 1])
        s.bind("ipc:///inherited")  # the name is not used: libzmq listens on the descriptor
        if port == _SHELL:
            # The debugger starts through the shell channel from inside (init_control connects to the last endpoint).
            s.setsockopt(zmq.USE_FD, -1)
            s.bind("inproc://shell")
        return port

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """Make IOPub lossless: its backlog is the sandbox's own memory, and the host reads as clients take it."""
        socket = PublicationSocket(self.listening[_IOPUB - 1], context)
        self.configure_tornado_logger()
        self.iopub_thread = OutputThread(socket, self.session)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket

    def init_heartbeat(self) -> None:
        """Leave it to the host."""

    def init_poller(self) -> None:
        """Leave it out: the sandbox dies with its supervisor by other means."""

    def write_connection_file(self, **_kwargs: object) -> None:
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
