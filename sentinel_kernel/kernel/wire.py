"""Jupyter's wire format: where a message's frames are, its signature, and how host-made messages are built.

``[identity..., "<IDS|MSG>", signature, header, parent header, metadata, content, buffer...]``; the
signature covers the four JSON frames, never the buffers (Jupyter messaging protocol 5.4, "The wire
protocol").
"""

from __future__ import annotations

import hmac
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import ProtocolError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    Part = bytes | memoryview
    Json = dict[str, Any]

DELIMITER = b"<IDS|MSG>"
SIGNATURE, HEADER, PARENT, METADATA, CONTENT = range(5)
"""The places of a message's frames behind the delimiter; buffers follow."""

PROTOCOL_VERSION = "5.4"
HEADER_BYTES = 64 * 1024
"""The longest header or parent header; an ordinary one has 300 bytes, JupyterLab's with a cell id a few
more."""

_HISTORY = 65_536


def split(frames: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Return the identities, and the frames from the signature on (at least five). Raises ProtocolError."""
    for index, frame in enumerate(frames):
        if len(frame) == len(DELIMITER) and frame == DELIMITER:
            if len(frames) - index <= CONTENT + 1:
                break
            return list(frames[:index]), list(frames[index + 1 :])
    raise ProtocolError("A message has no delimiter or too few frames.")


_COUNTED_BYTES = 1024 * 1024
MOST_VALUE_BYTES = 192 * 1024 * 1024
"""Of memory that the values of one frame take, beside their texts."""

_LIST, _ITEM, _TEXT, _KEY = 90, 40, 55, 130
"""Bytes that a list or an object takes as it is read, an item of one, a text, and a key with what finds it (CPython
3.11, 64 bits). Each costs far more than the bytes that name it; numbers cost least.
"""
_SPACED_KEY = re.compile(rb"\"[ \t\n\r]++:")


_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_MOST_CONTROLS = 3_000_000
"""More than are taken out of texts (filtering/work.py): they need not be read first."""

_LONG_STRING, _MOST_STRINGS = 4096, 100_000


def is_too_much(raw: bytes) -> bool:
    """Tell whether the values of JSON take more memory than they may. Marks within long texts, as of HTML, are none."""
    if raw.count(b"\\u000") + raw.count(b"\\u001") > _MOST_CONTROLS:
        return True
    over = value_bytes(raw) - MOST_VALUE_BYTES
    if over <= 0:
        return False
    for seen, found in enumerate(_STRING.finditer(raw)):
        if found.end() - found.start() > _LONG_STRING:
            over -= value_bytes(found.group()) - _TEXT - _KEY
            if over <= 0:
                return False
        if seen > _MOST_STRINGS:
            break
    return True


def value_bytes(raw: bytes) -> int:
    """Return how much memory the values of JSON take at most, from its marks; those within texts are counted too."""
    # What ends a text is a quote without a backslash, or with one that is itself a letter.
    ends = raw.count(b'"') - raw.count(b'\\"') + raw.count(b'\\\\"')
    keys = raw.count(b'":') - raw.count(b'\\":') + raw.count(b'\\\\":')
    if _SPACED_KEY.search(raw) is not None:
        keys += sum(1 for _ in _SPACED_KEY.finditer(raw))
    lists = raw.count(b"[") + raw.count(b"{")
    return lists * _LIST + raw.count(b",") * _ITEM + ends // 2 * _TEXT + min(keys, ends // 2) * _KEY


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON.")


def _object(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("An object has a key twice.")
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)
"""Strict: Python reads NaN and Infinity where no page does, and of a key that is there twice the last."""

_PLAIN_DECODER = json.JSONDecoder(parse_constant=_refuse)
_MANY = 1000
"""From so many objects or keys on, a function of ours for each object takes longer than to count all keys once, and the
pairs that it gets take as much memory again."""


def _names_no_key_twice(raw: bytes, value: object) -> bool:
    """Tell whether all keys in ``raw`` are in ``value``, which it was read as; True is certain, False is not.

    Without a space before a colon each key ends with ``":``; a text may hold the two as well, so that there are at
    least as many as keys, and as many as were read only where none was lost.
    """
    if b" :" in raw or b"\t:" in raw or b"\n:" in raw or b"\r:" in raw:
        return False
    found = 0
    level: list[Any] = [value]
    while level:
        objects = [one for one in level if type(one) is dict]
        found += sum(map(len, objects))
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
    return found == raw.count(b'":')


_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def decode(part: Part, maximum_bytes: int) -> Json:
    """Return the JSON object in ``part``. Raises ProtocolError, and nothing else.

    Only strict UTF-8 passes, so that no client can read another object out of the same bytes (json.loads
    would also take UTF-16 and UTF-32).
    """
    if len(part) > maximum_bytes:
        raise ProtocolError(f"A frame of {len(part)} bytes is longer than {maximum_bytes}.")
    if len(part) > _COUNTED_BYTES and is_too_much(bytes(part)):
        raise TooLargeError("A frame holds more keys, lists, texts and numbers than are read.")
    try:
        text = str(part, "utf-8")
        if len(part) > _MANY and (text.count("{") > _MANY or text.count('":') > _MANY):
            value = _PLAIN_DECODER.decode(text)
            if not _names_no_key_twice(bytes(part), value):
                value = _DECODER.decode(text)
        else:
            value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("A frame is not JSON in UTF-8.") from error
    if not isinstance(value, dict):
        raise ProtocolError("A frame is not a JSON object.")
    return value


def encode(value: Json) -> bytes:
    """Return ``value`` as JSON (ASCII, so that lone surrogates from the worker can't make it fail).

    Raises ProtocolError where it is nested too deeply, or holds a number that is none in JSON.
    """
    try:
        return _ENCODE(value).encode("ascii")
    except RecursionError as error:
        raise ProtocolError("A value is nested too deeply.") from error
    except ValueError as error:
        raise ProtocolError("A number is too large.") from error


def text_of(value: Json, key: str, maximum: int = 1000) -> str:
    """Return the string at ``key``, cut to ``maximum`` characters, or "" where there is none."""
    text = value.get(key)
    return text[:maximum] if isinstance(text, str) else ""


class Session:
    """Signs what goes to clients, checks what comes from them, and heads the host's own messages.

    ``key`` is the connection file's; an empty one switches signatures off, as in every Jupyter kernel.
    Raises ValueError for a scheme that is not ``hmac-`` and a hash that this Python has.
    """

    def __init__(self, key: bytes, scheme: str = "hmac-sha256", session_id: str = "") -> None:
        kind, _, digest = scheme.partition("-")
        if key and (kind != "hmac" or not digest):
            raise ValueError(f"The signature scheme {scheme!r} is not known.")
        self._hmac = hmac.new(key, digestmod=digest) if key else None
        self._seen: dict[bytes, None] = {}
        self.session_id = session_id or os.urandom(16).hex()
        self._count = 0

    def sign(self, parts: Sequence[Part]) -> bytes:
        """Return the signature of four JSON frames."""
        if self._hmac is None:
            return b""
        digest = self._hmac.copy()
        for part in parts:
            digest.update(part)
        return digest.hexdigest().encode("ascii")

    def accepts(self, parts: Sequence[Part]) -> bool:
        """Tell whether a client's message (from the signature on) is signed, and not seen before."""
        if self._hmac is None:
            return True
        signature = bytes(parts[SIGNATURE])
        if not hmac.compare_digest(signature, self.sign(parts[HEADER : CONTENT + 1])):
            return False
        if signature in self._seen:
            return False
        self._seen[signature] = None
        if len(self._seen) > _HISTORY:
            del self._seen[next(iter(self._seen))]
        return True

    def header(self, msg_type: str) -> bytes:
        """Return a fresh header for a message of the host's own."""
        self._count += 1
        now = time.time()
        date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"
        return encode(
            {
                "msg_id": f"{self.session_id}_{os.getpid()}_{self._count}",
                "msg_type": msg_type,
                "username": "sentinel",
                "session": self.session_id,
                "date": date,
                "version": PROTOCOL_VERSION,
            }
        )

    def message(
        self, msg_type: str, content: Json, parent: Part = b"{}", metadata: Json | None = None
    ) -> list[Part]:
        """Return a host-made message: delimiter, signature and JSON frames, ready to be sent."""
        parts = [self.header(msg_type), parent, encode(metadata or {}), encode(content)]
        return [DELIMITER, self.sign(parts), *parts]

    def signed(self, parts: Sequence[Part]) -> list[Part]:
        """Return a worker's message (from the signature on) as it goes to a client: signed by the host."""
        return [DELIMITER, self.sign(parts[HEADER : CONTENT + 1]), *parts[HEADER:]]


def unsigned(identities: Sequence[Part], parts: Sequence[Part]) -> list[Part]:
    """Return a client's message (from the signature on) as it goes to the worker, which has no key."""
    return [*identities, DELIMITER, b"", *parts[HEADER:]]
