"""Fuzz targets of parsers: each takes any bytes, and raises only where a parser broke its promise."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import functools
import io
import json
import os
import socket
import struct
from types import SimpleNamespace
from typing import Any

from sentinel_kernel.audit.export import write_csv, write_jsonl
from sentinel_kernel.errors import MappingError, ProfileError, ProtocolError
from sentinel_kernel.kernel.large_frame import Ledger
from sentinel_kernel.kernel.zmtp import Decoder, Limits
from sentinel_kernel.policy.cell_lines import CellNames
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.decode import decode_arguments
from sentinel_kernel.policy.failure_report import read_report, to_json, typed
from sentinel_kernel.policy.http_rules import HttpPolicy, read_requests
from sentinel_kernel.policy.json_document import Reader
from sentinel_kernel.policy.mapping import parse_mapping
from sentinel_kernel.policy.network import NetworkPolicy, parse_rule
from sentinel_kernel.policy.profile import Network
from sentinel_kernel.policy.profile_document import parse_profile
from sentinel_kernel.policy.sockaddr import read_address
from sentinel_kernel.policy.stack_dump import (
    is_whole,
    is_whole_of_all,
    only_place,
    parse_crash,
    parse_stack,
    parse_stacks,
    place_of,
)
from sentinel_kernel.proxy import exchange
from sentinel_kernel.proxy.exchange import Exchange
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.network.dns_message import LONGEST_QUESTION, make_answer, parse_question
from sentinel_kernel.supervisor.network.name_stub import NameStub
from sentinel_kernel.supervisor.proxying import _fields
from sentinel_kernel.supervisor.worker_link import WorkerLink

MACHINE = os.uname().machine
LONGEST_SHOWN = 4096


def profile(data: bytes) -> None:
    """Read a profile, and compile what is one."""
    with contextlib.suppress(ProfileError):
        compile_policy(parse_profile("mine", data), MACHINE)


def mapping(data: bytes) -> None:
    """Read a file of words, whole and as a layer."""
    for whole in (True, False):
        with contextlib.suppress(MappingError):
            parse_mapping(data, whole=whole)


def stack_dump(data: bytes) -> None:
    """Read a stack in every way that it is read; what is shown of it is bounded."""
    names = CellNames()
    names.begin("one", "def f():\n    open('x')\nf()\n", "/tmp/ipykernel_7/1.py", 3)
    stacks = (parse_stack(data), parse_crash(data), *parse_stacks(data))
    for frames in stacks:
        assert len(frames) <= 100
        for whole in (True, False):
            place = place_of(frames, names, whole=whole)
            if place is not None:
                assert place.line is None or 0 < place.line <= 1_000_000
                assert len(place.function or "") <= 100
                assert place.library is None or len(place.library.file) <= 200
    for main in (None, True, False):
        only_place(parse_stacks(data), names, main=main)
    is_whole(data)
    is_whole_of_all(data)


def dns(data: bytes) -> None:
    """Answer a datagram, and the same bytes as a stream."""
    question = parse_question(data[: LONGEST_QUESTION + 1])
    if question is not None:
        for code, addresses in ((0, [bytes(4)] * 40), (0, [bytes(16)] * 40), (3, [])):
            answer = make_answer(question, code, addresses, 30)
            assert len(answer) <= LONGEST_QUESTION or not addresses
            assert answer[:2] == data[:2]
    _stub(data)


def _stub(data: bytes) -> None:
    ours, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with ours, theirs:
        theirs.bind("")  # who asks has an address that the answer goes to
        asked: list[str] = []
        names: Any = SimpleNamespace(
            look_up=lambda name, _policy, done: (asked.append(name), done((bytes(4),)))
        )
        policy = NetworkPolicy((parse_rule("pypi.org:443"),))
        faults: list[BaseException] = []
        stub = NameStub(ours, None, names, lambda: policy, lambda *_: None, lambda _: None)
        real = stub._ask

        def ask(packet: bytes, send: Any) -> None:
            try:
                real(packet, send)
            except Exception as fault:  # the stub itself would only print it
                faults.append(fault)
                raise

        stub._ask = ask  # type: ignore[method-assign]
        ours.bind("")
        theirs.sendto(data[:2000], ours.getsockname())
        stub.serve({ours.fileno(): 1})
        assert not faults, faults
        assert all(name == "pypi.org" for name in asked)
    _stream(data, policy)


def _stream(data: bytes, policy: NetworkPolicy) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind("")
    listening.listen(4)
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    names: Any = SimpleNamespace(look_up=lambda _name, _policy, done: done(()))
    stub = NameStub(datagrams, listening, names, lambda: policy, lambda *_: None, lambda _: None)
    with listening, datagrams, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(listening.getsockname())
        client.send(data[:2000])
        for _ in range(8):
            stub.serve(dict.fromkeys(stub.descriptors(), 1))
            assert all(len(one.said) <= LONGEST_QUESTION + 2 for one in stub._streams)
        stub.close()


def audit_export(data: bytes) -> None:
    """Write a row of any texts out: a spreadsheet and a terminal find nothing to obey in it, a parser all of it."""
    texts: list[object] = [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0", 5)]
    texts += [len(data), None, data[:4].hex(), float(len(data))]
    names = [f"c{index}" for index in range(len(texts))]
    out = io.StringIO(newline="")
    assert write_csv(names, iter([tuple(texts)]), out) == 1
    shown = out.getvalue()
    assert not any(character in shown for character in "\x1b\x00\x07\x08\x9b\u202e\u200f"), shown
    header, *found = csv.reader(io.StringIO(shown, newline=""), strict=True)
    assert header == names
    if texts != [""]:
        for cell, text in zip(found[0], texts, strict=True):
            assert not isinstance(text, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), cell
    for separator in ",;\t|":
        for row in csv.reader(io.StringIO(shown, newline=""), delimiter=separator):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row), (separator, row)
    out = io.StringIO()
    assert write_jsonl("runs", names, iter([tuple(texts)]), out) == 1
    line = out.getvalue()
    assert line.isascii()
    assert line.count("\n") == 1
    assert list(json.loads(line).values())[1:] == texts


def zmtp(data: bytes) -> None:
    """Decode bytes as they come from a worker, in pieces as the first byte says; little is kept of them."""
    said: list[bytes] = []
    decoder = Decoder(
        Limits(frames=16, message_bytes=1 << 20), Ledger(), lambda name, _body: said.append(name)
    )
    piece = 1 + (data[0] if data else 0)
    body = data[1:]
    if data[:1] and data[0] & 1:
        # Behind a greeting and a READY that are right: most random bytes never get that far.
        body = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(52, b"\0") + b"\x04\x06\x05READY" + body
    with contextlib.suppress(ProtocolError):
        for start in range(0, len(body), piece):
            chunk = memoryview(body)[start : start + piece]
            while chunk:
                room = decoder.room()
                assert len(room) > 0
                count = min(len(room), len(chunk))
                room[:count] = chunk[:count]
                decoder.received(count)
                chunk = chunk[count:]
        for message in decoder.messages:
            assert len(message) <= 16
            assert sum(map(len, message)) <= len(body)
    decoder.discard()


def packets(data: bytes) -> None:
    """Read a packet of the control socket and one of init's, descriptors beside them: none stays open."""
    before = len(os.listdir("/proc/self/fd"))
    count, body = (data[0] % 10 if data else 0), data[1:60000]
    for read in (_control, _init):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            if count and read is _control:
                socket.send_fds(theirs, [body or b"x"], [theirs.fileno()] * count)
            elif count:
                link = struct.pack(f"{count}i", *[theirs.fileno()] * count)
                theirs.sendmsg([body or b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, link)])
            else:
                theirs.send(body)
            with contextlib.suppress(ProtocolError):
                read(ours)
    assert len(os.listdir("/proc/self/fd")) == before


def _control(sock: socket.socket) -> None:
    received = protocol.receive(sock)
    if received is not None:
        for descriptor in received[1]:
            os.close(descriptor)
        assert isinstance(received[0], dict)


def _init(sock: socket.socket) -> None:
    event = WorkerLink(sock).receive()
    assert event is None or isinstance(event.body, dict)


def report(data: bytes) -> None:
    """Read the worker's report on an error, and what the proxy says of a request."""
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
        _fields(data)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    with contextlib.suppress(ProtocolError):
        read = read_report(document)
        names = CellNames()
        names.begin("one", "x\n", "/tmp/ipykernel_7/1.py", 1)
        json.dumps(to_json(typed(read, names))).encode("ascii")


CALLS = (
    "connect",
    "open",
    "openat",
    "socket",
    "sendto",
    "mount",
    "prctl",
    "ioctl",
    "clone",
    "kill",
    "mknod",
    "bind",
)


def addresses(data: bytes) -> None:
    """Describe the arguments of a call, with an address or a path that may hold anything."""
    registers = struct.unpack_from("=6Q", data.ljust(48, b"\0"))
    behind = data[48 : 48 + 256]
    address = read_address(behind)
    assert len(address.text) <= LONGEST_SHOWN
    call = CALLS[len(data) % len(CALLS)]
    for argument in decode_arguments(call, registers, dict.fromkeys(range(6), behind)):
        assert len(argument.text) <= LONGEST_SHOWN
        assert argument.text.isprintable(), argument
        argument.text.encode("utf-8")


@functools.cache
def _http_policy() -> HttpPolicy:
    document = {"http": [{"host": "api.example.org", "method": "GET,POST", "path": "/v1/*"}]}
    network = read_requests(Reader(document, "$.network"), Network())
    return HttpPolicy(NetworkPolicy((parse_rule("pypi.org:443"),)), network.http, network.secrets)


class _Writer:
    """The client's end: keeps nothing but how much was written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False


async def _no_way(host: str, *_: object, **__: object) -> Any:
    raise exchange.Refused(403, "not-listed", f"{host} is not listed.")


async def _serve(data: bytes) -> _Writer:
    reader, writer = asyncio.StreamReader(limit=1 << 16), _Writer()
    reader.feed_data(data)
    reader.feed_eof()
    told: list[dict[str, Any]] = []
    secrets: Any = SimpleNamespace()
    await Exchange((reader, writer), _http_policy(), secrets, told.append).run()  # type: ignore[arg-type]
    for one in told:
        packet = json.dumps({**one, "missed": 0})
        assert len(packet) < 8192, one
        _fields(packet.encode())
    return writer


_LOOP: list[asyncio.AbstractEventLoop] = []


def http(data: bytes) -> None:
    """Serve a client of the proxy that says anything: it gets answers of ours alone, and its connection is closed."""
    if not _LOOP:
        _LOOP.append(asyncio.new_event_loop())
        exchange.connect = _no_way  # type: ignore[assignment]
    writer = _LOOP[0].run_until_complete(_serve(data))
    assert writer.closed
    assert len(writer.written) < 65536
    assert not writer.written or writer.written.startswith(b"HTTP/1.1 "), writer.written[:100]
