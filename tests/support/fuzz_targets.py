"""What is fuzzed, by name, and inputs to begin with: one list for Hypothesis, for atheris, and for replayed crashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import fuzz_calls
import fuzz_parsers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CORPUS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"
TREE = CORPUS.parents[2]


def messages(data: bytes) -> None:
    """A message of the worker, as the host checks and forwards it."""
    import fuzz_host  # a host kernel is made for it: some tenths of a second

    fuzz_host.worker_message(data)


def requests(data: bytes) -> None:
    """A signed message of a client."""
    import fuzz_host

    fuzz_host.client_message(data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "profile": fuzz_parsers.profile,
    "mapping": fuzz_parsers.mapping,
    "messages": messages,
    "requests": requests,
    "zmtp": fuzz_parsers.zmtp,
    "packets": fuzz_parsers.packets,
    "notifications": fuzz_calls.notification,
    "addresses": fuzz_parsers.addresses,
    "stack_dump": fuzz_parsers.stack_dump,
    "report": fuzz_parsers.report,
    "dns": fuzz_parsers.dns,
    "http": fuzz_parsers.http,
    "audit_export": fuzz_parsers.audit_export,
}

_STACK = b"""Current thread 0x00007f0d3 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 232 in __init__
  File "/tmp/ipykernel_7/1.py", line 2 in f
  File "/tmp/ipykernel_7/1.py", line 3 in <module>
  File "<string>", line 1 in <module>
"""
_REPORT = {
    "chain": [
        {
            **dict.fromkeys(("path", "path2", "module", "errno", "bytes", "held", "call", "library")),
            "ename": "PermissionError",
            "base": "OSError",
            "by": "call",
            "site": "program",
            "lines": [[3, "f", "/tmp/ipykernel_7/1.py"]],
        }
    ]
}
_NAME = b"\x04pypi\x03org\x00"
_QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + _NAME + b"\x00\x01\x00\x01"
_HANDSHAKE = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(52, b"\0") + b"\x04\x06\x05READY"

_SEEDS: dict[str, tuple[bytes, ...]] = {
    "zmtp": (b"\x40" + _HANDSHAKE + b"\x01\x03abc\x00\x02de", b"\x01\x04\x07\x04PING\x00\x01\x00\x00"),
    "packets": (b'\x02{"op":"start","id":1}', b'\x00{"event":"exit","worker":true,"status":9}'),
    "notifications": (
        fuzz_calls.HEAD.pack(0, 0, 41, 0, 0, 2, 1, 0, 0, 0, 0),
        fuzz_calls.HEAD.pack(0, 1, 42, 0, 0, 3, 4096, 16, 0, 0, 0)
        + b"\x02\x00\x00\x50\x08\x08\x08\x08"
        + bytes(8),
    ),
    "addresses": (bytes(48) + b"\x0a\x00\x00\x50" + bytes(24), bytes(48) + b"\x01\x00/run/x\x00"),
    "stack_dump": (_STACK, b"Fatal Python error: Segmentation fault\n\n" + _STACK),
    "report": (json.dumps(_REPORT).encode(),),
    "dns": (_QUESTION, len(_QUESTION).to_bytes(2, "big") + _QUESTION),
    "http": (
        b"GET http://api.example.org/v1/x HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
        b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443\r\n\r\n",
        b"POST http://api.example.org/v1/x HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 2\r\n\r\nok",
    ),
    "audit_export": (b'=1+1\0@x\0\x1b[31mred\0a,b\n"c"', b"\xff\xfe\0-1"),
}


def seeds(name: str) -> list[bytes]:
    """Return inputs to begin with: what is right, and what once was wrong."""
    found = list(_SEEDS.get(name, ()))
    if name == "profile":
        found += [path.read_bytes() for path in sorted((TREE / "profiles").glob("*.json"))]
    if name == "mapping":
        found += [path.read_bytes() for path in sorted((TREE / "mappings").glob("*.json"))]
    if name in ("messages", "requests"):
        import fuzz_host

        found += fuzz_host.seeds(name)
    return [*found, *(data for _, data in crashes(name))]


def crashes(name: str) -> Iterable[tuple[str, bytes]]:
    """Return what once was wrong, by its file's name."""
    for path in sorted(path for path in (CORPUS / name).glob("*") if path.is_file()):
        yield path.name, path.read_bytes()
