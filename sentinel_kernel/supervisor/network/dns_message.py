"""Questions and answers of the domain name system (RFC 1035), as far as the stub needs them; strict, bounded, pure."""

from __future__ import annotations

import struct

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

TYPE_A, TYPE_AAAA = 1, 28
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = range(6)

LONGEST_QUESTION: Final = 512
"""More is no question: the longest name takes 255 bytes, and what may come behind it is skipped."""

_LONGEST_ANSWER: Final = 512
_HEADER: Final = struct.Struct("!HHHHHH")
_KIND: Final = struct.Struct("!HH")
_IS_ANSWER, _OPERATION, _RECURSION = 0x8000, 0x7800, 0x0100
_OFFERS_RECURSION: Final = 0x0080
_CLASS_INTERNET: Final = 1
_LONGEST_LABEL, _LONGEST_NAME = 63, 255
_NAME_OF_QUESTION: Final = 0xC00C
"""A pointer to where the question's name stands in every message."""


class Question(Record):
    """One question. ``name`` is what it asks for in lower case, "" where it is no name of a host."""

    identifier: int
    flags: int
    name: str
    kind: int
    is_internet: bool
    wire: bytes
    """Name, type and class as they came: an answer repeats them."""


def parse_question(packet: bytes) -> Question | None:
    """Return the question of ``packet``; None where it is none that can be answered at all. Never raises."""
    if not _HEADER.size < len(packet) <= LONGEST_QUESTION:
        return None
    identifier, flags, questions, _, _, _ = _HEADER.unpack_from(packet)
    if flags & (_IS_ANSWER | _OPERATION) or questions != 1:
        return None
    read = _read_name(packet)
    if read is None or read[1] + _KIND.size > len(packet):
        return None
    name, position = read
    kind, family = _KIND.unpack_from(packet, position)
    wire = packet[_HEADER.size : position + _KIND.size]
    return Question(identifier, flags, name, kind, family == _CLASS_INTERNET, wire)


def _read_name(packet: bytes) -> tuple[str, int] | None:
    """Return the name behind the header, "" where it is none of a host, and where it ends; None where it is cut."""
    position, labels = _HEADER.size, []
    while position < len(packet) and (length := packet[position]):
        end = position + 1 + length
        # What is longer is a pointer, and a question's name has nowhere to point to.
        if length > _LONGEST_LABEL or end > len(packet) or end - _HEADER.size >= _LONGEST_NAME:
            return None
        labels.append(packet[position + 1 : end])
        position = end
    if position >= len(packet):
        return None
    name = b".".join(labels)
    if not name.isascii() or any(b"." in label for label in labels):
        return "", position + 1
    return name.decode("ascii").lower(), position + 1


def make_answer(question: Question, code: int, addresses: Sequence[bytes] = (), seconds: int = 0) -> bytes:
    """Return the answer with the error ``code``, or with the ``addresses`` that are of the asked-for type."""
    length = {TYPE_A: 4, TYPE_AAAA: 16}.get(question.kind, 0)
    records = [
        struct.pack("!HHHIH", _NAME_OF_QUESTION, question.kind, _CLASS_INTERNET, seconds, length) + address
        for address in addresses
        if len(address) == length
    ]
    room = _LONGEST_ANSWER - _HEADER.size - len(question.wire)
    records = records[: room // (12 + length)]
    flags = _IS_ANSWER | _OFFERS_RECURSION | (question.flags & _RECURSION) | code
    header = _HEADER.pack(question.identifier, flags, 1, len(records), 0, 0)
    return header + question.wire + b"".join(records)
