"""No script and no forged word of the host leaves in an output, however it is spelled; all else passes untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.kernel.output_rule import BUNDLES, NOTICE_TYPE, UNTOUCHED, VIOLATION_TYPE, judge

SCRIPTS = (
    "application/javascript",
    "text/javascript",
    "application/x-javascript",
    "text/ecmascript",
    "text/jscript",
)
HELD = (*SCRIPTS, VIOLATION_TYPE, NOTICE_TYPE, "application/vnd.sentinel.anything+json")


def bundle(data: Any, display_id: str | None = None) -> dict[str, Any]:
    return {"data": data, "metadata": {}, "transient": {"display_id": display_id} if display_id else {}}


def spelled(text: str, choices: list[int]) -> str:
    """Return ``text`` as a JSON string in which some characters are written as escapes."""
    shown = [
        character if not choice else f"\\u{ord(character):04x}" if choice == 1 or character != "/" else "\\/"
        for character, choice in zip(text, choices, strict=False)
    ]
    return f'"{"".join(shown)}{text[len(choices) :]}"'


@given(
    st.sampled_from(HELD),
    st.lists(st.integers(min_value=0, max_value=2), max_size=40),
    st.booleans(),
    st.sampled_from([0, 70_000]),
    st.sampled_from(sorted(BUNDLES)),
)
def test_no_spelling_of_a_held_type_passes(
    kind: str, escapes: list[int], upper: bool, padding: int, msg_type: str
) -> None:
    key = spelled(kind.upper() if upper else kind, escapes)
    content = f'{{"data":{{"text/plain":"{"x" * padding}",{key}:"1"}},"metadata":{{}},"execution_count":1}}'.encode()
    judged = judge(msg_type, content, ())
    assert judged.content is not None
    assert list(judged.content["data"]) == ["text/plain"]
    assert judged.script or judged.reserved


keys = st.text(max_size=10) | st.sampled_from(HELD)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


def held_keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [key for key in value if key in HELD] + [
            key for inner in value.values() for key in held_keys(inner)
        ]
    return [key for inner in value for key in held_keys(inner)] if isinstance(value, list) else []


@given(st.dictionaries(keys, json_values, max_size=5))
def test_held_types_are_removed_at_every_depth_and_nothing_else(value: dict[str, Any]) -> None:
    message = {"comm_id": "c", "data": {"state": value}}
    judged = judge("comm_msg", json.dumps(message).encode(), ())
    if judged.drop:
        assert judged.malformed
        assert "__proto__" in json.dumps(value)
        return
    after = message if judged.content is None else judged.content
    assert held_keys(after) == []
    if not held_keys(value):
        assert judged.content is None


@pytest.mark.parametrize("padding", [0, 70_000])
def test_a_display_of_the_hosts_own_is_out_of_reach(padding: int) -> None:
    content = json.dumps(bundle({"text/plain": "x" * padding}, "0a1b")).encode()
    assert judge("update_display_data", content, {"0a1b": None}).drop
    assert judge("display_data", content, {"0a1b": None}).reserved
    assert not judge("update_display_data", content, {"ffff": None}).drop


def test_an_output_that_was_nothing_but_a_script_is_dropped() -> None:
    assert judge("display_data", json.dumps(bundle({SCRIPTS[0]: "x"})).encode(), ()).drop


@pytest.mark.parametrize(
    "content", [b"\xff", b"[]", '{"data":{}}'.encode("utf-16"), b'{"a":' * 10_000, b"\0" * 70_000]
)
def test_what_can_not_be_read_is_dropped(content: bytes) -> None:
    judged = judge("display_data", content, ())
    assert judged.drop
    assert judged.malformed


def test_text_about_scripts_passes() -> None:
    assert judge("stream", b'{"name":"stdout","text":"application/javascript"}', ()) is UNTOUCHED
    content = json.dumps(bundle({"text/plain": "application/javascript"})).encode()
    assert judge("display_data", content, ()) is UNTOUCHED


def test_user_expressions_and_pagers_are_held_to_it_too() -> None:
    page = {"source": "page", "data": {SCRIPTS[0]: "x", "text/plain": "y"}}
    judged = judge("execute_reply", json.dumps({"status": "ok", "payload": [page]}).encode(), ())
    assert judged.content == {
        "status": "ok",
        "payload": [{"source": "page", "data": {"text/plain": "y"}}],
    }
