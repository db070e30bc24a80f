"""What completes violations and shows them: found once for those alike, and never less than was known before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel import violation_words
from sentinel_kernel.kernel.displays import Displays
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.violation_words import ViolationWords
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    import pytest

CODE = "open('/opt/x', 'w')\n"


def violation(identifier: str, **fields: Any) -> dict[str, Any]:
    made = make_occurrence(
        "path_read_only",
        id=identifier,
        profile="strict",
        rule="read only",
        time_ms=int(identifier, 16),
        subject=("path", "/opt/x"),
    )
    return replace(made, **{"cell": "cell", "line": 1, **fields}).to_json()


def words_of(read: list[str]) -> ViolationWords:
    settings = read_settings(("-f", "connection.json"), {"SENTINEL_PROFILE": "strict"}, "/home/u/nb")
    cells = SimpleNamespace(code_of=lambda cell: (read.append(cell), CODE)[1], takes_input=lambda _: True)
    return ViolationWords(settings, dict, lambda: cells)


def test_violations_alike_are_put_into_words_once() -> None:
    read: list[str] = []
    words = words_of(read)
    first, second = words.complete(violation("1")), words.complete(violation("2", count=7))
    assert read == ["cell"]
    assert first["remedies"] == second["remedies"] != []
    assert (second["id"], second["count"], second["last_time_ms"]) == ("2", 7, 2)
    assert words.complete(violation("3", line=2))["line"] == 2
    assert read == ["cell", "cell"]


def test_the_text_of_a_cell_is_read_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    words = words_of(read)
    times = iter([0.0, violation_words._SECONDS_A_CELL, 5.0, 5.1])
    monkeypatch.setattr(violation_words.time, "thread_time", lambda: next(times))
    assert words.complete(violation("1"))["remedies"]
    without = words.complete(violation("2", line=2))
    assert read == ["cell"]
    assert without["hint"]["en"]


def test_a_line_that_an_error_told_stays_where_the_stack_tells_none() -> None:
    outbox = SimpleNamespace(told=SimpleNamespace(note=lambda _: None))
    displays = Displays(SimpleNamespace(), outbox, "en", lambda told: told)  # type: ignore[arg-type]
    displays.violation(violation("1", function="f", confidence="certain"), None)
    late = violation("1", thread="Thread-1", confidence="likely") | {"line": None, "function": None}
    displays.violation(late, None)
    known = displays.last_violations["1"]
    assert (known["line"], known["function"], known["thread"]) == (1, "f", "Thread-1")
    assert known["confidence"] == "certain"
