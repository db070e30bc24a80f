"""Another host, as far as a browser can tell: it notes who connects, and what is asked of it, by TCP and by UDP."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANSWER = (
    b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Type: text/html\r\n"
    b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
)


class RecordingListener:
    """Listens on loopback.

    ``requests`` are the first lines that came, ``datagrams`` how many came by UDP, ``connections`` how many by TCP:
    those that said nothing are among them.
    """

    def __init__(self) -> None:
        """Open both sockets on free ports."""
        self.requests: list[str] = []
        self.datagrams = 0
        self.connections = 0
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self.port: int = self._tcp.getsockname()[1]
        self.udp_port: int = self._udp.getsockname()[1]
        for target in (self._accept, self._receive):
            threading.Thread(target=target, daemon=True).start()

    @property
    def url(self) -> str:
        """Return the address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> set[str]:
        """Return the first part of each path that was asked for."""
        return {line.split()[1].split("/")[1] for line in list(self.requests) if line.count(" ") > 1}

    def close(self) -> None:
        """Close both sockets."""
        with contextlib.suppress(OSError):
            self._tcp.shutdown(socket.SHUT_RDWR)
        self._tcp.close()
        self._udp.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._tcp.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(20)
            data = client.recv(2000)
            if data:  # a connection that says nothing is not a request: browsers open some ahead
                self.requests.append(data.split(b"\r\n")[0].decode("latin-1"))
                client.sendall(_ANSWER)

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._udp.recvfrom(2000)
                self.datagrams += 1


@contextlib.contextmanager
def recording_listener() -> Iterator[RecordingListener]:
    """Yield a listener and close it."""
    listener = RecordingListener()
    try:
        yield listener
    finally:
        listener.close()
