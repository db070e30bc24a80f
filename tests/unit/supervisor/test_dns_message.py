"""Questions to the name server inside: whatever bytes come, and the answers that are made of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.supervisor.network.dns_message import (
    LONGEST_QUESTION,
    NO_ERROR,
    REFUSED,
    TYPE_A,
    TYPE_AAAA,
    make_answer,
    parse_question,
)


def question(*labels: bytes, kind: int = TYPE_A, flags: int = 0x0100, count: int = 1) -> bytes:
    """Return a question for a name of these labels."""
    name = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    return struct.pack("!HHHHHH", 0x1234, flags, count, 0, 0, 0) + name + struct.pack("!HH", kind, 1)


def test_a_question_is_read_and_answered() -> None:
    packet = question(b"Example", b"org")
    asked = parse_question(packet)
    assert asked is not None
    assert (asked.name, asked.kind, asked.is_internet) == ("example.org", TYPE_A, True)
    answer = make_answer(asked, NO_ERROR, [bytes((203, 0, 113, 7)), bytes(16)], 30)
    assert answer[:2] == packet[:2]
    assert struct.unpack_from("!HHHHH", answer, 2) == (0x8180, 1, 1, 0, 0)
    assert answer[12 : len(packet)] == packet[12:], "the name comes back as it was written"
    assert answer.endswith(b"\xc0\x0c\0\x01\0\x01\0\0\0\x1e\0\x04\xcb\0\x71\x07")
    assert make_answer(asked, REFUSED)[3] & 15 == REFUSED


@pytest.mark.parametrize(
    "packet",
    [
        b"", bytes(12), question(b"a")[:-1], question(b"a", flags=0x8100), question(b"a", flags=0x2800),
        question(b"a", count=0), question(b"a", count=2), question(b"a" * 63, b"b" * 63, b"c" * 63, b"d" * 63),
        question(b"a")[:12] + b"\xc0\x0c\0\x01\0\x01", question(b"a") + bytes(LONGEST_QUESTION),
    ],
)  # fmt: skip
def test_what_is_no_question_is_none(packet: bytes) -> None:
    assert parse_question(packet) is None


@pytest.mark.parametrize("labels", [(b"a.b", b"org"), (b"\xff",), ()])
def test_what_is_no_name_is_no_name_of_a_host(labels: tuple[bytes, ...]) -> None:
    asked = parse_question(question(*labels))
    assert asked is not None
    assert asked.name == ""


@given(st.binary(max_size=600))
def test_any_bytes_are_read(packet: bytes) -> None:
    asked = parse_question(packet)
    if asked is not None:
        assert len(make_answer(asked, NO_ERROR, [bytes(4), bytes(16)] * 64, 1)) <= LONGEST_QUESTION


def test_more_addresses_than_fit_are_left_out() -> None:
    asked = parse_question(question(b"a" * 60, b"b" * 60, b"c" * 60, kind=TYPE_AAAA))
    assert asked is not None
    answer = make_answer(asked, NO_ERROR, [bytes(16)] * 64, 1)
    assert 0 < int.from_bytes(answer[6:8], "big") < 64
    assert len(answer) <= LONGEST_QUESTION
