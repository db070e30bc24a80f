"""The connection file: addresses, the clients' key and the optional CurveZMQ keys of the outer sockets."""

from __future__ import annotations

import json

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.record import Record

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")


class Connection(Record):
    """What a Jupyter connection file says (jupyter_client, "Connection files")."""

    transport: str
    ip: str
    ports: dict[str, int]
    key: bytes
    signature_scheme: str
    curve_publickey: bytes | None = None
    curve_secretkey: bytes | None = None

    def address(self, channel: str) -> str:
        """Return the ZeroMQ address of a channel."""
        separator = "-" if self.transport == "ipc" else ":"
        return f"{self.transport}://{self.ip}{separator}{self.ports[channel]}"


def read_connection(path: str) -> Connection:
    """Return the connection file at ``path``. Raises SentinelError where it can't be used."""
    remedy = "Start the kernel through a Jupyter client, which writes this file."
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        curve = [fields.get(name) for name in ("curve_publickey", "curve_secretkey")]
        public, secret = (key.encode("ascii") if key else None for key in curve)
        return Connection(
            transport=str(fields.get("transport", "tcp")),
            ip=str(fields["ip"]),
            ports={channel: int(fields[f"{channel}_port"]) for channel in CHANNELS},
            key=str(fields.get("key", "")).encode("utf-8"),
            signature_scheme=str(fields.get("signature_scheme") or "hmac-sha256"),
            curve_publickey=public,
            curve_secretkey=secret,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SentinelError(f"The connection file {path} can't be used: {error!r}.", remedy) from error
