"""What the host shows is words and data: nothing in it comes alive in a page."""

from __future__ import annotations

import html.parser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.kernel import rendering, words
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.kernel.violation_card import violation_bundle
from sentinel_kernel.policy.hints import complete
from sentinel_kernel.policy.occurrence import death_violation

EVIL = "<script>alert(1)</script>\" onload='x' \u202e\x1b[2J\r\n&amp;" + "y" * 5000


class Page(html.parser.HTMLParser):
    """Collects what a browser would see."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def violation(**changes: Any) -> dict[str, Any]:
    return {
        "id": "v",
        "syscall": "openat",
        "arguments": [{"name": "path", "value": 1, "text": "/x", "untrusted": True}],
        "profile": "strict",
        "rule": "NOTIFY by default",
        "action": "NOTIFY",
        "outcome": "refused",
        "errno": 1,
        "errno_name": "EPERM",
        "process": {"pid": 3, "command": "curl", "is_worker": False},
        "count": 1,
        "line": 3,
        "source": "open('/x')",
        "message": {"en": "No.", "zh": "不。"},
        "hint": {"en": "Do.", "zh": "做。"},
        "remedies": [{"kind": "magic", "text": "%sentinel_profile datascience"}],
        **changes,
    }


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_violation_is_words_html_and_data(language: str) -> None:
    shown = violation_bundle(violation(count=7), language)
    assert shown[VIOLATION_TYPE]["count"] == 7
    message, hint = ("No.", "Do.") if language == "en" else ("不。", "做。")
    assert shown["text/plain"] == f"[SEMANTIC] {message} (×7)\nHINT → {hint}"
    text = Page(shown["text/html"]).text
    for part in (
        message,
        hint,
        "openat(path=/x)",
        "EPERM",
        "strict",
        "×7",
        "curl",
        "%sentinel_profile datascience",
    ):
        assert part in text


HARMLESS_TAGS = {"div", "strong", "em", "code", "pre", "table", "tbody", "tr", "th", "td", "ol", "li"}
HARMLESS_ATTRIBUTES = {"style", "class", "role", "aria-label", "scope"}


@pytest.mark.parametrize(
    "field", ["syscall", "rule", "profile", "errno_name", "source", "line", "action", "outcome"]
)
@given(text=st.text(max_size=50) | st.just(EVIL))
def test_no_field_of_a_violation_comes_alive(field: str, text: str) -> None:
    page = Page(violation_bundle(violation(**{field: text}), "en")["text/html"])
    assert page.tags <= HARMLESS_TAGS
    assert page.attributes <= HARMLESS_ATTRIBUTES
    assert len(page.text) < 4000


@pytest.mark.parametrize(
    "changes",
    [
        {"arguments": [{"name": EVIL, "value": 0, "text": EVIL}] * 3},
        {"process": {"command": EVIL, "is_worker": False}},
        {"message": {"en": EVIL}, "hint": {"en": EVIL}},
        {"remedies": [{"kind": "magic", "text": EVIL}, {"kind": "magic"}, 5]},
        {"library": {"file": EVIL, "line": EVIL, "function": EVIL}, "thread": EVIL, "function": EVIL},
        {"subject": {"kind": "path", "text": EVIL}, "error": {"ename": EVIL, "errno_name": None}},
        {"subject": {"kind": EVIL, "text": EVIL}, "limit": {"name": EVIL}, "started_line": EVIL},
        {"arguments": None, "process": None, "message": None, "hint": 5, "remedies": None, "count": "x"},
    ],
)
def test_odd_violations_are_shown_harmlessly(changes: dict[str, Any]) -> None:
    shown = violation_bundle(violation(**changes), "en")
    page = Page(shown["text/html"])
    assert page.tags <= HARMLESS_TAGS
    assert page.attributes <= HARMLESS_ATTRIBUTES
    assert "\x1b" not in shown["text/plain"]
    assert shown["text/plain"].count("\n") == 1


def test_no_formula_is_looked_for_in_what_the_host_shows() -> None:
    link = "$\\href{https://a.b}{Log in}$"
    for shown in (
        violation_bundle(violation(subject={"kind": "path", "text": link}), "en"),
        rendering.notice_bundle(words.Words(link, link, link, link), "en", "held"),
        rendering.table_bundle("files", [(link, link)], [link]),
    ):
        outermost, _, inside = shown["text/html"].partition(">")
        assert "href" in inside  # positive control
        assert "mathjax_ignore" in outermost.split('"')[1].split()
        assert shown["text/html"].count("<div") == shown["text/html"].count("</div>")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_card_names_the_place_the_subject_the_limit_and_what_to_try_first(language: str) -> None:
    shown = violation_bundle(
        violation(
            function="load",
            library={"file": "requests/adapters.py", "line": 667, "function": "send"},
            thread="Thread-1",
            started_line=2,
            subject={"kind": "path", "text": "/srv/data"},
            limit={"name": "memory", "used": 3 << 20, "allowed": 4 << 20, "unit": "bytes"},
            confidence="likely",
            error={"ename": "OSError", "errno_name": "EPERM"},
            remedies=[
                {
                    "kind": "magic",
                    "text": "%sentinel_limit memory=8M",
                    "why": {"en": "because", "zh": "因为"},
                },
                {"kind": "code", "text": "writes to /tmp", "code": "open('/tmp/x')"},
            ],
        ),
        language,
        {"name": "memory"},
    )
    text = Page(shown["text/html"]).text
    for part in (
        "load",
        "requests/adapters.py:667 send",
        "Thread-1",
        "/srv/data",
        "3 MiB",
        "4 MiB",
        "OSError",
    ):
        assert part in text
    assert {"en": "likely", "zh": "很可能"}[language] in text
    assert text.index("memory=8M") < text.index("writes to /tmp")
    assert {"en": "because", "zh": "因为"}[language] in text
    assert "open('/tmp/x')" not in text
    assert shown[NOTICE_TYPE]["limit"] == {"name": "memory"}
    assert shown[NOTICE_TYPE]["kind"] == "limit"
    assert shown[NOTICE_TYPE]["hint"] == {"en": "Do.", "zh": "做。"}


def test_a_table_shows_untrusted_values_as_text() -> None:
    shown = rendering.table_bundle("Status", [("name", EVIL)], [EVIL])
    assert Page(shown["text/html"]).tags <= HARMLESS_TAGS
    assert "\x1b" not in shown["text/plain"]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "cause",
    [
        {"kind": "rule_kill", "detail": "mount"},
        {"kind": "signal", "signal": 9},
        {"kind": "signal", "signal": 64},
        {"kind": "signal", "signal": None},
        {"kind": "exit", "status": 1},
        {"kind": "protocol"},
        {"kind": "supervisor_error", "detail": "x"},
        {"kind": None},
        {},
    ],
)
def test_every_death_has_words_in_both_languages(cause: dict[str, Any], language: str) -> None:
    made = None
    if cause.get("kind") != "rule_kill":
        made = complete(death_violation(cause, id="x", profile="strict", time_ms=1)).to_json()
    told = words.death(cause, made)
    assert told.message_en.endswith(words.LOST_EN)
    assert told.message_zh.endswith(words.LOST_ZH)
    assert told.hint(language)
    assert "None" not in told.plain(language) or cause.get("signal", 0) is None


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_death_by_rule_points_to_what_was_said_of_the_call_and_does_not_repeat_it(language: str) -> None:
    told = words.death({"kind": "rule_kill", "detail": "mount"}, violation())
    assert "mount" in told.message(language)
    assert {"en": "the box above", "zh": "上方"}[language] in told.message(language)
    assert "做。" not in told.hint(language)
    assert "上方" not in words.death({"kind": "rule_kill", "detail": "mount"}, None).message("zh")


@pytest.mark.parametrize(
    "told", [words.SCRIPT_HELD, words.RESERVED_HELD, words.INPUT_HELD, words.MALFORMED_HELD]
)
def test_notices_have_data_text_and_html(told: words.Words) -> None:
    shown = rendering.notice_bundle(told, "zh", "held")
    assert shown[NOTICE_TYPE]["message"] == {"en": told.message_en, "zh": told.message_zh}
    assert shown["text/plain"] == told.plain("zh")
    assert Page(shown["text/html"]).tags <= HARMLESS_TAGS
