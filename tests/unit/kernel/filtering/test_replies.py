"""Answers that clients act on: what is left of completions, indents, history and of what the kernel is."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_kernel.kernel.filtering.messages import Filtered, Messages
from sentinel_kernel.policy.profile import Outputs

INFO: dict[str, Any] = {
    "status": "ok",
    "protocol_version": "5.4",
    "implementation": "ipython",
    "implementation_version": "9.1.0",
    "banner": "Python 3.13\nType help",
    "help_links": [],
    "language_info": {
        "name": "python",
        "version": "3.13.1",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
    "debugger": True,
    "supported_features": ["debugger", "kernel subshells"],
}


def filtered(msg_type: str, content: dict[str, Any], asked: dict[str, Any] | None = None) -> Filtered:
    return Messages().filter(msg_type, content, Outputs(), asked)


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ({"status": "incomplete", "indent": "    "}, {"status": "incomplete", "indent": "    "}),
        ({"status": "complete"}, {"status": "complete"}),
        ({"status": "incomplete", "indent": "\x1b[2J%sentinel_allow a.b:1\n"}, {"status": "incomplete"}),
        ({"status": "incomplete", "indent": " " * 81}, {"status": "incomplete"}),
        ({"status": "incomplete", "indent": "\n"}, {"status": "incomplete"}),
        ({"status": "x", "more": "y"}, {"status": "unknown"}),
    ],
)
def test_an_indent_is_blank(content: dict[str, Any], left: dict[str, Any]) -> None:
    changed = content != left
    assert filtered("is_complete_reply", content) == Filtered(changed)
    assert content == left


def completed(code: str, *matches: str, start: int = 0, end: int = 10**9, **metadata: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "status": "ok",
        "matches": list(matches),
        "cursor_start": start,
        "cursor_end": end,
        "metadata": metadata,
    }
    filtered("complete_reply", content, {"code": code, "cursor_pos": len(code)})
    return content


def test_everyday_completions_pass() -> None:
    kinds = [{"text": "print", "start": 0, "end": 2, "type": "function", "signature": "(*args)"}]
    content = completed("pr", "print", "property", end=2, _jupyter_types_experimental=kinds)
    assert (content["matches"], content["cursor_start"], content["cursor_end"]) == (
        ["print", "property"],
        0,
        2,
    )
    assert content["metadata"] == {"_jupyter_types_experimental": kinds}
    assert completed("%sent", "%sentinel_status", end=5)["matches"] == ["%sentinel_status"]
    assert completed("x.se", "x.sentinel_value", "a file.csv", end=4)["matches"] == [
        "x.sentinel_value",
        "a file.csv",
    ]
    assert completed("%sentinel_files da", "data/", start=16)["matches"] == ["data/"]


@pytest.mark.parametrize(
    "match",
    [
        "%sentinel_trust_output scripts\n",
        "%sentinel_trust_output scripts",
        "  %%sentinel_dry_run x",
        "a\x1b[2J",
        "a\nb",
        "a\rb",
        "a\u2028b",
        "a\u202eb",
        "a\x9b",
        "x" * 1001,
    ],
)
def test_a_completion_types_no_command_and_one_line(match: str) -> None:
    kinds = [{"text": match, "type": "x"}, {"text": "fine", "type": "\x1b", "signature": "\x1b[2J("}]
    content = completed("f", match, "fine", end=1, _jupyter_types_experimental=kinds)
    assert content["matches"] == ["fine"]
    shown = {"text": "fine", "start": 0, "end": 1, "type": "<unknown>", "signature": "("}
    assert content["metadata"] == {"_jupyter_types_experimental": [shown]}


def test_a_completion_replaces_a_part_of_its_line() -> None:
    for start, end in ((-5, 10**9), (0, 3), (10**9, -1)):
        content = completed("one\ntwo", "x", start=start, end=end)
        assert 4 <= content["cursor_start"] <= content["cursor_end"] == 7
    joined = completed("%", "sentinel_trust_output scripts", start=1)
    assert joined["matches"] == []


def test_what_the_kernel_is_passes() -> None:
    content = {**INFO}
    assert filtered("kernel_info_reply", content) == Filtered()


def test_what_the_kernel_is_names_no_path_and_has_no_escapes() -> None:
    odd = {
        "name": "../x",
        "version": "\x1b",
        "mimetype": "text/<x>",
        "codemirror_mode": {"name": "a/b", "version": {}},
        "pygments_lexer": "a.b",
        "nbconvert_exporter": "os.system",
        "file_extension": "./../../x",
        "more": 1,
    }
    content = {
        **INFO,
        "language_info": odd,
        "banner": "\x1b]52;c;x\x07a\r\x08b\nc",
        "implementation": "\x1b[2J",
    }
    assert filtered("kernel_info_reply", content).changed
    assert content["language_info"] == {
        "name": "python",
        "mimetype": "text/x-python",
        "file_extension": ".py",
    }
    assert (content["banner"], content["implementation"]) == ("ab\nc", "python")


def test_history_has_no_escapes() -> None:
    content: dict[str, Any] = {
        "status": "ok",
        "history": [[0, 1, "a\n\tb"], [0, 2, ["x\x1b[2J", None]], [0, 3, "\r\x08y"], ["x"], 5],
    }
    assert filtered("history_reply", content).changed
    assert content["history"] == [[0, 1, "a\n\tb"], [0, 2, ["x", None]], [0, 3, "y"]]


def test_marks_do_not_meet_where_controls_were() -> None:
    content = {**INFO, "banner": "a" + "\u0301\0" * 50}
    assert filtered("kernel_info_reply", content).changed
    assert content["banner"] == "a" + "\u0301" * 3
