"""`%sentinel_explain`: of which cell the shown refusal is, and words that fit the page they stand on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sentinel_kernel.kernel.explain_page import ExplainPage
from sentinel_kernel.kernel.session_violations import SessionViolations
from sentinel_kernel.kernel.violation_card import violation_bundle
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.occurrence import make_occurrence
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.violation import Limit
from sentinel_kernel.record import replace


def page_of(*records: dict[str, Any], last: int, number: int = 1, language: str = "en") -> str:
    told = SessionViolations()
    for record in records:
        told.note(record)
    host: Any = SimpleNamespace(
        outbox=SimpleNamespace(told=told),
        settings=SimpleNamespace(language=language, profile_directories=()),
        execution=SimpleNamespace(last_count=last),
        magics=SimpleNamespace(granted=lambda _profile: "free"),
    )
    return str(ExplainPage(host, {}).page(number)["text/plain"])


def refusal(identifier: str, count: int, code: str | None = None) -> dict[str, Any]:
    made = make_occurrence(
        "path_hidden", id=identifier, profile="strict", rule="r", time_ms=0, subject=("path", "/data/x.csv")
    )
    return complete(replace(made, execution_count=count), code=code).to_json()


def test_a_refusal_of_an_older_cell_is_not_told_as_the_last_cells() -> None:
    assert "nothing was refused in the last cell ([12]): the newest refusal is that of cell [10]" in " ".join(
        page_of(refusal("a", 10), last=12).split()
    )
    assert "没有操作被拒绝" in page_of(refusal("a", 10), last=12, language="zh")


def test_nothing_is_said_of_later_cells_where_there_are_none_or_an_older_one_was_wanted() -> None:
    assert "nothing was refused" not in page_of(refusal("a", 10), last=10)
    assert "nothing was refused" not in page_of(refusal("a", 10), last=0)  # of the sandbox before this one
    assert "nothing was refused" not in page_of(refusal("a", 8), refusal("b", 10), last=12, number=2)


def test_the_page_does_not_send_to_itself() -> None:
    made = make_occurrence("wall_seconds", id="a", profile="strict", rule="r", time_ms=0)
    limit = Limit("wall_seconds", "interrupt", None, 4, "seconds", own=True, backend="timer")
    code = "%sentinel_limit wall=4\nimport time\ntime.sleep(20)"
    record = complete(replace(made, limit=limit), code=code).to_json()
    assert "%sentinel_explain shows the whole cell with that change" in record["hint"]["en"]
    for language, words in (("en", "with that change is below"), ("zh", "见下方")):
        shown = " ".join(page_of(record, last=1, language=language).split())
        assert words in shown
        assert "%sentinel_explain" not in shown


def test_a_change_of_the_code_is_told_in_one_language() -> None:
    made = make_occurrence(
        "name_lookup", id="a", profile="strict", rule="r", time_ms=0, subject=("host", "example.org")
    )
    leeway = Leeway(tuple(load_profile(name) for name in ("strict", "datascience")), "datascience", asks=True)
    record = complete(made, code="get()", leeway=leeway).to_json()
    assert record["remedies"][0]["text"].startswith("Put two lines on top of the cell")
    chinese = " ".join(page_of(record, last=1, language="zh").split())
    assert "1. 修改代码" in chinese
    assert "Put two lines" not in chinese
    assert "主机：example.org" in chinese
    assert "这需要全新的沙箱，您可以选择如何处理变量" in chinese
    assert "Put two lines on top of the cell" in " ".join(page_of(record, last=1).split())
    card = violation_bundle(record, "zh")["text/html"]
    assert "Put two lines" not in str(card)
