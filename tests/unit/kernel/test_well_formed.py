"""What clients would trip over is not forwarded: each of these has ended nbclient, or a page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.output_rule import UNTOUCHED, judge
from sentinel_kernel.kernel.well_formed import DEEPEST, check_header, read, too_deep

FIT: dict[str, dict[str, Any]] = {
    "stream": {"name": "stdout", "text": "x"},
    "error": {"ename": "E", "evalue": "", "traceback": ["x"]},
    "display_data": {"data": {"text/plain": "x"}, "metadata": {}, "transient": {}},
    "update_display_data": {"data": {}, "metadata": {}, "transient": {"display_id": "a"}},
    "execute_result": {"data": {"text/plain": "x"}, "metadata": {}, "execution_count": 1},
    "execute_input": {"code": "x", "execution_count": 1},
    "comm_open": {
        "comm_id": "c",
        "target_name": "jupyter.widget",
        "data": {"state": {"_model_module": "m", "_model_name": "n"}, "buffer_paths": []},
    },
    "comm_msg": {"comm_id": "c", "data": {"method": "update", "state": {"value": 1}}},
    "comm_close": {"comm_id": "c", "data": {}},
    "clear_output": {"wait": True},
    "debug_event": {"type": "event"},
}


@pytest.mark.parametrize("msg_type", FIT)
def test_what_is_fit_passes_as_it_was(msg_type: str) -> None:
    assert judge(msg_type, json.dumps(FIT[msg_type]).encode(), ()) is UNTOUCHED


@pytest.mark.parametrize(
    ("msg_type", "key"),
    [
        (msg_type, key)
        for msg_type, content in FIT.items()
        for key in content
        if msg_type not in ("clear_output", "debug_event") and key not in ("transient", "execution_count")
    ],
)
def test_what_clients_take_for_granted_is_there_and_of_its_kind(msg_type: str, key: str) -> None:
    content = FIT[msg_type]
    missing = {name: value for name, value in content.items() if name != key}
    for odd in (missing, {**content, key: 5}, {**content, key: None}):
        assert judge(msg_type, json.dumps(odd).encode(), ()).malformed


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b'{"name":"stdout","text":"x"',
        b'{"name":"stdout","text":"x","n":NaN}',
        b'{"name":"stdout","text":"x","n":-Infinity}',
        b'{"name":"stdout","text":"\\ud800"}',
        b'{"name":"stdout","text":"x"\\n}',
        b'{"name":"stdout","text":"x","n":\\null}',
        b'{"name":"stdout","text":"x","n":\\naN}',
        b'{"\\name":"stdout","text":"x"}',
        b'{"name":"stdout","text":"\\\\n\\x"}',
        b'{"name":"stdout","text":"x","n":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"name":"stdout","text":"x","n":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    ],
)
@pytest.mark.parametrize("padding", [0, 100_000])
def test_streams_are_read_too(content: bytes, padding: int) -> None:
    judged = judge("stream", content + b" " * padding, ())
    assert (judged.drop, judged.malformed) == (True, True)


def test_whole_letters_beyond_the_first_plane_pass() -> None:
    assert read(b'{"a":"\\ud83d\\ude00"}', 100) == {"a": "\U0001f600"}


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(
            (depth(inner) for inner in (value.values() if isinstance(value, dict) else value)), default=0
        )
    return 0


@given(
    st.recursive(
        st.none() | st.text(alphabet='[]{}"\\a', max_size=6),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner)
        ),
        max_leaves=20,
    ),
    st.integers(min_value=0, max_value=6),
)
def test_depth_is_counted_outside_of_strings(value: Any, deepest: int) -> None:
    assert too_deep({"a": value}, deepest + 1) == (depth(value) > deepest)


def test_what_people_nest_is_far_from_the_bound() -> None:
    for levels, fits in ((DEEPEST - 1, True), (DEEPEST, False)):
        raw = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
        assert judge("debug_event", raw, ()).malformed is not fits


HEADER = {"msg_id": "a", "msg_type": "stream", "session": "s", "date": "2026-02-28T23:59:59.123456Z"}


@pytest.mark.parametrize(
    "odd",
    [
        {"msg_id": None},
        {"msg_type": 5},
        {"session": []},
        {"date": "2026-02-30T00:00:00Z"},
        {"username": "2026-13-01T00:00:00"},
        {"date": "2026-01-01T25:00:00Z"},
        {"date": "0000-01-01T00:00:00Z"},
        {"date": "2026-01-01T00:00:00+99:00"},
        {"date": "٢٠٢٦-01-01T00:00:00Z"},
        {"nested": {"date": "2026-02-30T00:00:00Z"}},
    ],
)
def test_a_header_is_flat_and_its_dates_are_dates(odd: dict[str, Any]) -> None:
    check_header(HEADER, own=True)  # positive control
    check_header({}, own=False)
    for own in (True, False):
        with pytest.raises(ProtocolError):
            check_header({**HEADER, **odd}, own=own)


@pytest.mark.parametrize(
    "date", ["2024-02-29T00:00:00Z", "2026-12-31T23:59:59+05:30", "2026-01-01T00:00:00", "x"]
)
def test_dates_of_all_common_forms_pass(date: str) -> None:
    check_header({**HEADER, "date": date}, own=True)


STATE = {"_model_module": "m", "_model_name": "n", "a": {"b": [None, {}]}, "c": [None]}


def comm(msg_type: str, **data: Any) -> bytes:
    target = {"target_name": "jupyter.widget"} if msg_type == "comm_open" else {}
    return json.dumps({"comm_id": "c", **target, "data": {"method": "update", **data}}).encode()


@pytest.mark.parametrize(
    "path",
    [
        ["__proto__", "x"],
        ["constructor", "prototype", "x"],
        ["a", "__proto__", "x"],
        ["a", "constructor"],
        ["__proto__"],
        ["prototype"],
        ["toString", "x"],
        ["c", "length"],
        ["c", "0"],
        ["c", 1],
        ["c", -1],
        ["a", "b", 2],
        ["a", "b", "push", "x"],
        ["_model_name", "x"],
        ["missing", "x"],
        [True],
        [None],
        [],
        "a",
    ],
)
@pytest.mark.parametrize("msg_type", ["comm_open", "comm_msg"])
def test_buffers_go_nowhere_but_into_the_state(msg_type: str, path: Any) -> None:
    fits = [["new"], ["c", 0], ["a", "b", 0], ["a", "b", 1, "new"], ["a", "new"]]
    assert judge(msg_type, comm(msg_type, state=STATE, buffer_paths=fits), ()) is UNTOUCHED
    assert judge(msg_type, comm(msg_type, state=STATE, buffer_paths=[*fits, path]), ()).malformed
    states = {"one": {"model_module": "m", "model_name": "n", "state": STATE}}
    fits = [["one", "state", *fit] for fit in fits]
    assert judge("comm_msg", comm("comm_msg", states=states, buffer_paths=fits), ()) is UNTOUCHED
    path = ["one", "state", *path] if isinstance(path, list) and path else path
    assert judge("comm_msg", comm("comm_msg", states=states, buffer_paths=[path]), ()).malformed
    assert judge("comm_msg", comm("comm_msg", buffer_paths=[["__proto__", "x"]]), ()).malformed


@pytest.mark.parametrize(
    "raw",
    [
        b'{"__proto__":"x"}',
        b'{"data":{"__proto__":{"x":1}}}',
        b'{"data":[{"a":{"\\u005f_proto__":{"x":1}}}]}',
        b'{"data":{"__pr\\u006fto__":{"x":1}}}',
        b'{"data":{"constructor":{"prototype":{"x":1}}}}',
        b'{"data":{"\\u0063onstructor":{"\\u0070rototype":{"x":1}}}}',
    ],
)
def test_no_key_changes_every_object_of_a_page(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(raw, 1000)


def test_words_that_are_like_those_keys_pass() -> None:
    value = {"data": {"text": "__proto__ \x5f\u00e9", "constructor": "x", "rows": [{"prototype": 1}]}}
    assert read(json.dumps(value).encode(), 1000) == value


@pytest.mark.parametrize("key", ["__proto__", "constructor", "prototype"])
def test_no_state_has_a_key_that_all_objects_have(key: str) -> None:
    assert judge("comm_msg", comm("comm_msg", state={key: 1}), ()).malformed
    states = {"one": {"model_name": "n", "state": {key: 1}}}
    assert judge("comm_msg", comm("comm_msg", states=states), ()).malformed


@pytest.mark.parametrize("told", [{"method": None}, {"method": "update"}, {"method": "custom"}])
@pytest.mark.parametrize("msg_type", ["comm_open", "comm_msg", "comm_close"])
def test_the_state_of_whatever_comm_is_an_object(msg_type: str, told: dict[str, Any]) -> None:
    """As nbclient takes it from every one."""
    assert judge(msg_type, comm(msg_type, state={}, **told), ()).malformed is (msg_type == "comm_open")
    for state in ([2], "idle", 1, None, []):
        assert judge(msg_type, comm(msg_type, state=state, **told), ()).malformed


def test_what_is_remembered_of_a_comm_is_short() -> None:
    fine = FIT["comm_open"]
    state = fine["data"]["state"]
    for msg_type in ("comm_open", "comm_msg", "comm_close"):
        for length, fits in ((128, True), (129, False)):
            content = {**FIT[msg_type], "comm_id": "x" * length}
            assert judge(msg_type, json.dumps(content).encode(), ()).malformed is not fits
    for long in (
        {**fine, "target_name": "x" * 201},
        {**fine, "data": {"state": {**state, "_model_name": "x" * 101}}},
        {**fine, "data": {"state": {**state, "_view_name": "x" * 101}}},
        {**fine, "data": {"state": state, "states": {"x" * 129: {}}}},
        {**fine, "data": {"state": state, "states": {"x": {"model_name": "x" * 101}}}},
    ):
        assert judge("comm_open", json.dumps(long).encode(), ()).malformed


@pytest.mark.parametrize(
    "number", ["1e999", "-1E+0309", "1" + "0" * 308 + ".0e1", "1" * 310 + ".5", "1e0000400"]
)
def test_numbers_that_are_infinite_are_found_however_they_are_written(number: str) -> None:
    for raw in (f'{{"a":[{number}]}}', f'{{"a":{{"b":{number}}}}}', f'{{"a":[" e",{number}]}}'):
        with pytest.raises(ProtocolError):
            read(raw.encode(), 10_000)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_are_finite_pass(number: float) -> None:
    assert read(json.dumps({"a": [number]}).encode(), 10_000) == {"a": [number]}
