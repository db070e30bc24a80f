"""Messages are split, checked and signed as every Jupyter client does it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session as ClientSession

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.wire import DELIMITER, HEADER, Session, decode, encode, split, unsigned

JSON = [b'{"msg_id":"1","msg_type":"comm_msg"}', b"{}", b"{}", b"{}"]


def client_message(key: bytes = b"secret") -> list[bytes]:
    session = ClientSession(key=key)
    return session.serialize(session.msg("execute_request", {"code": "é"}), ident=[b"client"])


def test_a_clients_message_is_accepted_once() -> None:
    ours = Session(b"secret")
    identities, parts = split(client_message())
    assert identities == [b"client"]
    assert ours.accepts(parts)
    assert not ours.accepts(parts), "a replay"
    assert not Session(b"other").accepts(split(client_message())[1])
    parts[HEADER] = parts[HEADER].replace(b"execute_request", b"shutdown_request")
    assert not Session(b"secret").accepts(parts)


def test_the_memory_of_seen_messages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sentinel_kernel.kernel.wire._HISTORY", 10)
    ours = Session(b"secret")
    for _ in range(50):
        assert ours.accepts(split(client_message())[1])
    assert len(ours._seen) == 10


def test_a_client_accepts_what_the_host_makes_and_forwards() -> None:
    client = ClientSession(key=b"secret")
    made = Session(b"secret").message("status", {"execution_state": "busy"}, b'{"msg_id":"p"}')
    _, parts = client.feed_identities([b"topic", *made])
    message = client.deserialize(parts)
    assert message["content"] == {"execution_state": "busy"}
    assert message["parent_header"] == {"msg_id": "p"}
    assert message["header"]["date"].tzinfo is not None
    _, parts = client.feed_identities(Session(b"secret").signed([b"", *JSON, b"buffer"]))
    assert [bytes(buffer) for buffer in client.deserialize(parts)["buffers"]] == [b"buffer"]


def test_without_a_key_nothing_is_signed() -> None:
    assert Session(b"").accepts([b"anything", *JSON])
    assert Session(b"").sign(JSON) == b""
    with pytest.raises(ValueError, match="not known"):
        Session(b"key", "rot-13")


def test_the_inner_hop_gets_the_frames_as_they_came_without_a_signature() -> None:
    identities, parts = split(client_message())
    assert unsigned(identities, parts) == [b"client", DELIMITER, b"", *parts[HEADER:]]


@pytest.mark.parametrize("frames", [[], [DELIMITER], [b"a", DELIMITER, b"", *JSON[:3]], [b"", *JSON]])
def test_a_message_without_its_parts_is_refused(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        split(frames)


BAD_UTF8, BOM, UTF16 = b'{"a":"\xff"}', b"\xef\xbb\xbf{}", "{}".encode("utf-16")
HUGE_NUMBER = b'{"a":' + b"1" * 9000 + b"}"
NOT_NUMBERS = [b'{"a":NaN}', b'{"a":Infinity}', b'{"a":[-Infinity]}']


@pytest.mark.parametrize(
    "part", [b"", b"[]", b"1", b"{", BAD_UTF8, BOM, UTF16, b"[" * 200_000, HUGE_NUMBER, *NOT_NUMBERS]
)
def test_what_another_parser_could_read_differently_is_refused(part: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(part, 1_000_000)


def test_a_frame_that_is_too_long_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode(b'{"a":"' + b"x" * 100 + b'"}', 50)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(NUMBERS)))
def test_what_is_encoded_is_decoded_again(value: dict[str, object]) -> None:
    assert decode(encode(value), 10_000_000) == json.loads(json.dumps(value))


def test_a_value_that_is_nested_too_deeply_is_refused() -> None:
    value: dict[str, object] = {}
    for _ in range(5000):
        value = {"a": value}
    with pytest.raises(ProtocolError):
        encode(value)


def test_lone_surrogates_are_encoded() -> None:
    assert encode({"a": "\ud800"}) == b'{"a":"\\ud800"}'


MANY = [{"a": number, "b": "x"} for number in range(1500)]


@pytest.mark.parametrize(
    "odd",
    [
        '{"a":1,"a":2}',
        '{"a":1,"a":2,"b":":"}',
        '{"a" :1,"a":2}',
        '{"a"\t:1,"a":2,"b":"\\":"}',
        '[{"b":{"a":1,"b":"x\\u0022:","a":2}}]',
    ],
)
def test_a_key_that_is_there_twice_is_found_among_many_objects(odd: str) -> None:
    many = json.dumps(MANY)
    for raw in (f'{{"many":{many},"odd":{odd}}}', f'{{"odd":{odd},"many":{many}}}', f'{{"odd":{odd}}}'):
        with pytest.raises(ProtocolError):
            decode(raw.encode(), 1 << 20)


@pytest.mark.parametrize("odd", ['{"a":":","b":"\\":"}', '{"a" : 1, "b" :2}', '" :"', "{}", "[[{}]]"])
def test_many_objects_without_one_pass(odd: str) -> None:
    raw = f'{{"many":{json.dumps(MANY)},"odd":{odd}}}'
    assert decode(raw.encode(), 1 << 20) == json.loads(raw)
