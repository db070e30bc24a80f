"""What the host keeps of violations: bounded in number and in size, whatever cells do."""

from __future__ import annotations

from typing import Any

from sentinel_kernel.kernel import session_violations
from sentinel_kernel.kernel.page_arguments import EXPLAIN, SHOWN, VIOLATIONS, PageWanted, read_page
from sentinel_kernel.kernel.session_violations import MOST, SessionViolations


def record(number: int, code: str | None = None) -> dict[str, Any]:
    remedies = [{"kind": "code", "text": "t", "code": code}, {"kind": "magic", "text": "m", "code": None}]
    return {"id": f"v{number}", "cell": "c", "remedies": remedies}


def test_the_oldest_go_first_and_a_later_state_takes_no_second_place() -> None:
    told = SessionViolations()
    for number in range(MOST + 5):
        told.note(record(number))
        told.note({**record(number), "count": 2})
    assert len(told) == MOST
    assert told.newest(MOST)[0]["id"] == "v5"
    assert [one["count"] for one in told.newest(3)] == [2, 2, 2]
    assert told.newest(0) == []
    told.note("text")
    told.note({"id": 7})
    assert len(told) == MOST


def test_changed_code_of_the_oldest_goes_and_the_record_stays() -> None:
    told = SessionViolations()
    first, size = record(0, "x"), session_violations.MOST_REMEDY_CHARACTERS // 2
    told.note(first)
    for number in (1, 2, 3):
        told.note(record(number, "x" * size))
    assert [remedy["kind"] for remedy in first["remedies"]] == ["magic"]
    assert [len(one["remedies"]) for one in told.newest(4)] == [1, 1, 2, 2]


def test_a_cells_code_is_kept_as_it_was_when_it_was_refused() -> None:
    told = SessionViolations()
    told.code_of = {"c": "code"}.get
    told.note(record(1))
    told.code_of = {"c": "another"}.get
    assert told.code(record(1)) == "code"
    assert told.code({"cell": "other"}) is None
    assert told.code({}) is None


def test_what_may_be_typed_behind_the_pages() -> None:
    assert read_page(EXPLAIN, []) == PageWanted(EXPLAIN, 1)
    assert read_page(EXPLAIN, ["12"]) == PageWanted(EXPLAIN, 12)
    assert read_page(VIOLATIONS, []) == PageWanted(VIOLATIONS, SHOWN)
    assert read_page(VIOLATIONS, ["--json", "--last", "3"]) == PageWanted(VIOLATIONS, 3, as_data=True)
    wrong = (["0"], ["-1"], ["1", "1"], ["x"], ["9" * 50], ["٣"])
    assert [read_page(EXPLAIN, words) for words in wrong] == [None] * len(wrong)
    odd = (["--last"], ["--last", "x"], ["--json", "--json"], ["--xml"], ["1"])
    assert [read_page(VIOLATIONS, words) for words in odd] == [None] * len(odd)
