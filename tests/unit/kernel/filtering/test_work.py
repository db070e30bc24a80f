"""No output takes the host's one thread or its memory for long: what would is held back, and what is honest is not."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

import pytest

from sentinel_kernel.kernel.filtering import held, terminal
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.kernel.filtering.work import Work
from sentinel_kernel.kernel.output_rule import UNTOUCHED, Judged, judge
from sentinel_kernel.kernel.wire import MOST_VALUE_BYTES, decode, value_bytes
from sentinel_kernel.policy.profile import Outputs

MIB = 1024 * 1024
MOST_BYTES = 200 * MIB
PART = 8
"""Memory is measured over so small a part of the longest text, and grows with it."""


def judged(msg_type: str, content: Any) -> Judged:
    raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
    messages = Messages()
    return judge(msg_type, raw, (), lambda kind, _raw, value: messages.filter(kind, value, Outputs()))


def shown(kind: str, value: Any) -> dict[str, Any]:
    return {"data": {"text/plain": "x", kind: value}, "metadata": {}, "transient": {}}


def judged_at_its_bound(kind: str, fits: Any, too_long: Any) -> dict[str, Any]:
    """Filter what fits, with little memory, and what does not; return what is left of that."""
    content = shown(kind, fits)
    tracemalloc.start()
    try:
        filtered = Messages().filter("display_data", content, Outputs())
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES // PART
    finally:
        tracemalloc.stop()
    assert held.TOO_LONG not in filtered.kinds  # positive control
    content = shown(kind, too_long)
    assert Messages().filter("display_data", content, Outputs()).kinds == {held.TOO_LONG}
    return content


def most(kind: str, unit: str) -> int:
    """Return how often ``unit`` may be in a text of that type."""
    fits = step = 1 << 14
    while Work().takes(kind, unit * (fits + step)):
        fits, step = fits + step, 2 * step
    while step > fits // 16:
        step //= 2
        fits += step if Work().takes(kind, unit * (fits + step)) else 0
    return fits


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("text/markdown", "<a "),
        ("text/markdown", "<b>"),
        ("text/markdown", "!["),
        ("text/markdown", "data:"),
        ("text/markdown", "```\ufdfa\ufdfa\ufdfa\n//"),
        ("text/markdown", "\\a{url("),
        ("text/html", "<a "),
        ("text/html", "<script>1</script>"),
        ("text/html", "&a"),
        ("text/html", "&#92;"),
        ("text/html", "$\\&emsp;"),
        ("text/html", "$\\h</b>"),
        ("text/html", "$\\<tr>x"),
        ("text/html", "$\\h&#114"),
        ("text/latex", "\\href "),
        ("text/plain", "\x1b]"),
        ("text/plain", "\x9bxx"),
    ],
)
def test_a_text_at_its_bound_takes_little_memory_and_a_longer_one_is_held_back(kind: str, unit: str) -> None:
    longest = most(kind, unit)
    content = judged_at_its_bound(kind, unit * (longest // PART), unit * (2 * longest))
    assert kind not in content["data"] or kind == "text/plain"


@pytest.mark.parametrize(
    "unit",
    ["<", "<b x>", "<b>", "<span style='color:red'>", "<a href='https://x' ", "<b style='" + "rgb( " * 100],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_charts_tags_are_counted_whether_in_one_text_or_in_many(unit: str, *, apart: bool) -> None:
    def figure(number: int) -> dict[str, Any]:
        return {"data": [{"text": [unit] * number if apart else [unit * number]}], "layout": {}}

    kind, fits = "application/vnd.plotly.v1+json", 1 << 10
    work = Work()
    assert work.takes_tags(unit * fits)  # positive control
    while Work().takes_tags(unit * (2 * fits)):
        fits *= 2
    content = judged_at_its_bound(kind, figure(fits // PART), figure(2 * fits))
    assert kind not in content["data"]


@pytest.mark.parametrize("gap", ["\0", "\0\0"])
@pytest.mark.parametrize("kind", ["text/markdown", "text/html", "text/latex"])
def test_no_mark_comes_of_a_text_that_was_not_counted_for_it(kind: str, gap: str) -> None:
    marks = ("```", "~~~", "![", "&#92;", "&bsol;", "\\href", "<b>")
    for mark in ("\\href",) if kind == "text/latex" else marks:  # in LaTeX nothing else is one
        parted = gap.join((mark[0], mark[1:]))
        content = shown(kind, f"$ {parted}{{x}}\n//\n")
        Messages().filter("display_data", content, Outputs())
        assert mark in parted.replace("\0", "")  # positive control: a reader that skips the character
        assert mark not in content["data"][kind].replace("\0", "")


def test_a_table_behind_a_long_text_and_a_frame_of_references_take_little_memory() -> None:
    for text in ("a" * MIB + "<b>" * MIB, f"<iframe srcdoc='{'&a' * MIB}'></iframe>"):
        content = shown("text/html", text)
        tracemalloc.start()
        try:
            Messages().filter("display_data", content, Outputs())
            assert tracemalloc.get_traced_memory()[1] < 8 * len(text)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("module", ["@jupyter-widgets/controls", "jupyter-leaflet"])
def test_many_short_texts_of_a_widget_take_no_memory(module: str) -> None:
    names = {"_model_module": module, "_model_name": "AModel", "_view_module": module, "_view_name": "AView"}
    state = {**names, "_options_labels": ["x"] * 30_000}
    content = {"comm_id": "a", "target_name": "jupyter.widget", "data": {"state": state, "buffer_paths": []}}
    Messages().filter("comm_open", copy.deepcopy(content), Outputs())  # modules are imported
    tracemalloc.start()
    try:
        assert Messages().filter("comm_open", content, Outputs()).kinds == frozenset()
        assert tracemalloc.get_traced_memory()[1] < 30_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("unit", "count", "most_left"),
    [("<img>", 11_000, 10_000), ("a&b", 70_000, 67_000), ("a:b", 130_000, 125_000)],
)
def test_short_texts_of_one_message_are_counted_however_short(unit: str, count: int, most_left: int) -> None:
    names = {"_model_module": "jupyter-leaflet", "_model_name": "A", "_view_module": "jupyter-leaflet"}
    state = {**names, "_view_name": "A", "texts": [f"{unit}{number}" for number in range(count)]}
    content = {"comm_id": "a", "target_name": "jupyter.widget", "data": {"state": state, "buffer_paths": []}}
    assert Messages().filter("comm_open", content, Outputs()).kinds == {held.TOO_LONG}
    left = sum(map(bool, state["texts"]))
    assert most_left // 2 < left <= most_left


def test_short_styles_of_a_model_that_is_not_known_are_counted_however_short() -> None:
    content = {"comm_id": "a", "data": {"state": {"styles": [f"x({number}" for number in range(130_000)]}}}
    assert Messages().filter("comm_msg", content, Outputs()).kinds == {held.REMOTE, held.TOO_LONG}


def test_short_outputs_of_one_message_are_counted_however_short() -> None:
    content = {"a": [shown("text/html", f"<img>{number}") for number in range(11_000)]}
    assert Messages().filter("inspect_reply", content, Outputs(html="sanitize")).kinds == {held.TOO_LONG}
    left = sum("text/html" in one["data"] for one in content["a"])
    assert 5_000 < left <= 10_000


def test_what_is_held_back_is_told_with_a_hint() -> None:
    [(about, words, _)] = held.notices({held.TOO_LONG})
    assert about == held.TOO_LONG
    assert "more than can be looked through" in words.message_en
    assert "write it to a file" in words.hint_en


def test_many_texts_of_one_message_have_the_share_of_one() -> None:
    text = "<a " * (most("text/markdown", "<a ") * 3 // 4)
    spellings = ["text/markdown", "Text/markdown", "TEXT/markdown", "text/Markdown"]
    content = {"data": dict.fromkeys(spellings, text), "metadata": {}, "transient": {}}
    assert held.TOO_LONG in Messages().filter("display_data", content, Outputs()).kinds
    content = {"a": [shown("text/markdown", text) for _ in range(3)]}
    assert held.TOO_LONG in Messages().filter("inspect_reply", content, Outputs()).kinds


@pytest.mark.parametrize("unit", ["\x1b]", "\x07", "\x9bxx"])
def test_a_stream_of_escapes_is_dropped_and_an_errors_texts_are_emptied(unit: str) -> None:
    text = unit * (most("text/plain", unit) * 5 // 4)
    dropped = judged("stream", {"name": "stdout", "text": text})
    assert (dropped.drop, dropped.kinds) == (True, {held.TOO_LONG})
    error = judged("error", {"ename": "E", "evalue": "", "traceback": ["a", text]})
    assert error.kinds == {held.TOO_LONG}
    assert error.content == {"ename": "E", "evalue": "", "traceback": ["a", ""]}


def test_escapes_that_stand_together_and_colours_are_no_objects() -> None:
    for text in ("\x1b\x07" * MIB, "\x1b[31m" * MIB):
        tracemalloc.start()
        try:
            terminal.plain(text)
            assert tracemalloc.get_traced_memory()[1] < len(text) + 2 * MIB
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(("text", "found"), [("a\n\r\b", 0), ("\x1b[1m\x07", 2), ("\u00e9\u00a0\x9b", 1)])
def test_controls_are_counted(text: str, found: int) -> None:
    assert terminal.controls(text) == found


SHAPES = {
    "keys": lambda number: b"{%s}" % b",".join(b'"k%d":0' % one for one in range(number)),
    "spaced keys": lambda number: b"{%s}" % b",".join(b'"k%d" \n:0' % one for one in range(number)),
    "odd keys": lambda number: b"{%s}" % b",".join(b'"%d\\\\":0' % one for one in range(number)),
    "objects": lambda number: b"[%s]" % b",".join(b'{"k%d":0}' % one for one in range(number)),
    "lists": lambda number: b"[%s]" % b",".join(b"[%d]" % (one + 1000) for one in range(number)),
    "texts": lambda number: b"[%s]" % b",".join(b'"%d"' % one for one in range(number)),
    "odd texts": lambda number: b"[%s]" % b",".join(b'"%d\\\\"' % one for one in range(number)),
    "numbers": lambda number: b"[%s]" % b",".join(b"%d.5" % one for one in range(number)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_json_takes_no_more_memory_than_its_marks_say(shape: str) -> None:
    raw = b'{"data":{"application/json":%s},"metadata":{},"transient":{}}' % SHAPES[shape](50_000)
    assert judged("display_data", raw) is UNTOUCHED
    tracemalloc.start()
    try:
        value = decode(raw, len(raw))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(value["data"]["application/json"]) == 50_000
    assert taken < value_bytes(raw)


@pytest.mark.parametrize("shape", ["keys", "lists"])
def test_json_of_very_many_values_is_held_back_and_named(shape: str) -> None:
    part = SHAPES[shape](100_000)[1:-1]
    inner = b'{"a":[%s]}' % b",".join([b"{%s}" % part if shape == "keys" else b"[%s]" % part] * 16)
    raw = b'{"data":{"application/json":%s},"metadata":{},"transient":{}}' % inner
    assert value_bytes(raw) > MOST_VALUE_BYTES
    beyond = judged("display_data", raw)
    assert (beyond.drop, beyond.malformed, beyond.kinds) == (True, False, {held.TOO_LONG})


def test_large_honest_outputs_pass() -> None:
    row = "    <tr>\n      <th>1</th>\n      <td>0.123456</td>\n      <td>word</td>\n    </tr>\n"
    table = f'<table border="1" class="dataframe">\n{row * (10 * MIB // len(row))}</table>'
    assert judged("display_data", shown("text/html", table)) is UNTOUCHED
    trace = {"type": "scatter", "x": [one + 0.5 for one in range(1_000_000)], "y": list(range(1_000_000))}
    figure = shown("application/vnd.plotly.v1+json", {"data": [trace], "layout": {}})
    assert judged("display_data", figure) is UNTOUCHED
    assert judged("stream", {"name": "stdout", "text": "a line of text\n" * (20 * MIB // 15)}) is UNTOUCHED
    coloured = "\x1b[31mred\x1b[0m and a whole line of other words\n"
    assert judged("stream", {"name": "stdout", "text": coloured * (20 * MIB // len(coloured))}) is UNTOUCHED
    labels = [f"<b>{one}</b><br><span style='color:red'>of a place</span>" for one in range(100_000)]
    figure = shown("application/vnd.plotly.v1+json", {"data": [{"text": labels}], "layout": {}})
    assert judged("display_data", figure) is UNTOUCHED
    records = [{"a": one, "b": "x", "c": 0.5} for one in range(100_000)]
    assert judged("display_data", shown("application/json", records)) is UNTOUCHED
    picture = f"![a](data:image/png;base64,{'QUJD' * (2 * MIB)})"
    assert judged("display_data", shown("text/markdown", picture)) is UNTOUCHED
    document = f"<div></div><script>{'let a = [1, 2, 3];' * (25 * MIB // 18)}</script>"
    framed = judged("display_data", shown("text/html", document))
    assert framed.kinds == set()
    assert framed.content is not None
    assert "sentinel-frame" in framed.content["data"]["text/html"]
