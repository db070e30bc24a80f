"""Turns what the host says into MIME bundles: HTML that follows JupyterLab's theme, plain text, and data.

Every string that is not ours may come from the sandbox: it is cut and escaped. Colours are JupyterLab's own
variables, with fallbacks for other clients; words are told apart by weight and place, never by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE
from sentinel_kernel.policy.unseen import with_escapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.kernel.words import Words

    Part = tuple[str, list[str]]
    """A part of a page: its HTML, all of it ours or escaped, and its lines of plain text."""

_VALUE_CHARACTERS = 200
_PLAIN_CHARACTERS = 40
TEXT_CHARACTERS = 2000

_BOX = (
    "max-width:100%;box-sizing:border-box;overflow-wrap:anywhere;margin:4px 0;padding:8px 12px;"
    "border:1px solid var(--jp-border-color1,#bdbdbd);border-left:4px solid var({accent});border-radius:3px;"
    "background:var(--jp-layout-color1,transparent);color:var(--jp-content-font-color1,inherit);"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-content-font-size1,14px);line-height:1.45"
)
_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;background:transparent"
_SHORT, _LONG = "white-space:nowrap", "min-width:9em;overflow-wrap:anywhere"
_SHORT_CELLS = 14
"""What is no wider stays on one line: a column of single letters can't be read."""
_TABLE = "border-collapse:collapse;margin:4px 0;font-size:inherit"
NO_FORMULAS = "mathjax_ignore tex2jax_ignore"
"""Classes in which MathJax 3 and 2 look for no formula: one in a file's name could be a link among the host's words."""

WARNING = "--jp-warn-color0,#b26a00"
ERROR = "--jp-error-color0,#b71c1c"
INFORMATION = "--jp-brand-color1,#1565c0"

_LABELS: dict[str, tuple[str, str]] = {
    "held": ("Held back by Sentinel", "被 Sentinel 拦截"),
    "notice": ("Sentinel", "Sentinel"),
    "limit": ("A limit of the sandbox", "沙箱的限制"),
    "hint": ("HINT", "提示"),
}


def label(key: str, language: str) -> str:
    """Return one of the words that boxes share."""
    return _LABELS[key][1 if language == "zh" else 0]


def escape(text: object, maximum: int = _VALUE_CHARACTERS) -> str:
    """Return ``text`` for HTML: cut, with characters that can't be seen shown as their escapes."""
    shown = printable(text, maximum)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        shown = shown.replace(character, entity)
    return shown


def printable(text: object, maximum: int = _VALUE_CHARACTERS) -> str:
    """Return ``text`` cut to ``maximum`` characters, with every unprintable one shown as its escape."""
    raw = text if isinstance(text, str) else str(text)
    cut = raw if len(raw) <= maximum else raw[: maximum - 1] + "…"
    return with_escapes(cut)


def notice_bundle(words: Words, language: str, kind: str, data: Json | None = None) -> Json:
    """Return the bundle for something the host says; ``kind`` is held (an output was held back), limit or notice."""
    message, hint = words.message(language), words.hint(language)
    rows = [paragraph(escape(message, TEXT_CHARACTERS)), hint_row(hint, language)]
    english, chinese = (words.message_en, words.hint_en), (words.message_zh, words.hint_zh)
    return {
        NOTICE_TYPE: notice_data(kind, english, chinese) | (data or {}),
        "text/html": box(label(kind, language), rows, INFORMATION if kind == "notice" else WARNING),
        "text/plain": words.plain(language),
    }


def notice_data(kind: str, english: tuple[str, str], chinese: tuple[str, str]) -> Json:
    """Return a notice's data; each language has a message and a hint."""
    message, hint = zip(english, chinese, strict=True)
    return {
        "version": 1,
        "kind": kind,
        "message": dict(zip(("en", "zh"), message, strict=True)),
        "hint": dict(zip(("en", "zh"), hint, strict=True)),
    }


def table_bundle(title: str, rows: Sequence[tuple[str, str]], notes: Iterable[str] = ()) -> Json:
    """Return the bundle for a two-column table, as `%sentinel_status` shows it."""
    return page_bundle(title, [rows_part(rows)], notes)


def columns_bundle(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Iterable[str] = (),
    *,
    first: int = _PLAIN_CHARACTERS,
) -> Json:
    """Return the bundle for a table of several columns; in plain text the last one is not padded."""
    return page_bundle(title, [columns_part(header, rows, first=first)], notes)


def page_bundle(title: str, parts: Iterable[Part], notes: Iterable[str] = ()) -> Json:
    """Return the bundle for a page in one box: its parts below each other, and notes below them."""
    parts, notes = list(parts), list(notes)
    plain = [title, *(line for _, lines in parts for line in lines), *notes]
    extra = [small(escape(note, TEXT_CHARACTERS)) for note in notes]
    return {
        "text/html": box(title, [*(html for html, _ in parts), *extra], INFORMATION),
        "text/plain": "\n".join(printable(line, TEXT_CHARACTERS) for line in plain),
    }


def rows_part(rows: Sequence[tuple[str, str]]) -> Part:
    """Return names and values below each other."""
    width = max((cells(name) for name, _ in rows), default=0)
    body = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_CELL};font-weight:600;white-space:nowrap">'
        f'{escape(name)}</th><td style="{_CELL}">{escape(value, TEXT_CHARACTERS)}</td></tr>'
        for name, value in rows
    )
    html = f'<table style="{_TABLE}"><tbody>{body}</tbody></table>'
    return html, [f"  {padded(name, width)}  {value}" for name, value in rows]


def columns_part(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, first: int = _PLAIN_CHARACTERS
) -> Part:
    """Return a table of several columns; a wide one can be scrolled. Plain text has ``first`` letters of the first."""
    table = [list(header), *map(list, rows)]
    most = [first, *([_PLAIN_CHARACTERS] * (len(header) - 1))]
    most[-1] = _VALUE_CHARACTERS
    widths = [max(cells(printable(row[index], most[index])) for row in table) for index in range(len(header))]
    widths[-1] = 0
    lines = [
        "  ".join(
            padded(printable(text, length), width)
            for text, length, width in zip(row, most, widths, strict=True)
        )
        for row in table
    ]
    head = "".join(
        f'<th scope="col" style="{_CELL};{_SHORT};font-weight:600">{escape(text)}</th>' for text in header
    )
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(
            f'<td style="{_CELL};{_SHORT if cells(text) <= _SHORT_CELLS else _LONG}">'
            f"{escape(text, TEXT_CHARACTERS)}</td>"
            for text in row
        )
        + "</tr>"
        for row in rows
    )
    html = f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{html}</div>', lines


def heading_part(text: str) -> Part:
    """Return the heading of what comes below it."""
    return f'<div style="margin:8px 0 2px 0;font-weight:600">{escape(text)}</div>', ["", text]


def code_part(lines: Sequence[str]) -> Part:
    """Return lines of code, which may come from the sandbox."""
    shown = [printable(line) for line in lines]
    return source_block("\n".join(map(escape, lines))), [f"    {line}" for line in shown]


def cells(text: str) -> int:
    """Return how many columns of a terminal ``text`` takes: a Chinese character takes two."""
    from unicodedata import east_asian_width  # noqa: PLC0415 - not on the start path

    return len(text) if text.isascii() else sum(1 + (east_asian_width(one) in "WF") for one in text)


def padded(text: str, width: int) -> str:
    """Return ``text`` with spaces up to ``width`` columns."""
    return text + " " * (width - cells(text))


def said(violation: Json, key: str, language: str) -> str:
    """Return the message or hint in ``language`` (in English where there is no other)."""
    texts = violation.get(key)
    if not isinstance(texts, dict):
        return ""
    text = texts.get(language) or texts.get("en")
    return text if isinstance(text, str) else ""


def remedy_text(remedy: Json, why: str, *, chinese: bool) -> str:
    """Return a remedy's text; of a change of the code, whose text is English, in Chinese ``why`` it helps."""
    text = remedy.get("text")
    text = text if isinstance(text, str) else ""
    return why if chinese and why and remedy.get("kind") == "code" and not text.startswith("%") else text


def call_text(violation: Json) -> str:
    """Return a call with its arguments, as it would be written."""
    arguments: list[Any] = [
        argument for argument in violation.get("arguments") or () if isinstance(argument, dict)
    ]
    shown = ", ".join(
        f"{argument.get('name')}={argument.get('text', argument.get('value'))}" for argument in arguments
    )
    return f"{violation.get('syscall', '?')}({shown})"


def box(title: str, rows: Sequence[str], accent: str) -> str:
    """Return rows of HTML in a box with a heading."""
    style = _BOX.replace("{accent}", accent)
    heading = f'<div style="font-weight:600;margin-bottom:2px">{escape(title)}</div>'
    return (
        f'<div class="sentinel-box {NO_FORMULAS}" role="note" aria-label="{escape(title)}" style="{style}">'
        f"{heading}{''.join(rows)}</div>"
    )


def paragraph(html: str) -> str:
    """Return HTML on lines of its own."""
    return f'<div style="margin:2px 0">{html}</div>'


def small(html: str) -> str:
    """Return HTML on lines of its own, a little smaller."""
    return f'<div style="margin:2px 0;font-size:0.92em">{html}</div>'


def hint_row(hint: str, language: str) -> str:
    """Return what to do; nothing where there is no hint."""
    return (
        paragraph(f"<strong>{label('hint', language)} →</strong> {escape(hint, TEXT_CHARACTERS)}")
        if hint
        else ""
    )


def inline_code(text: object) -> str:
    """Return text as code within a line."""
    style = (
        "font-family:var(--jp-code-font-family,monospace);color:inherit;padding:0 3px;border-radius:2px;"
        "background:var(--jp-layout-color2,rgba(128,128,128,0.15));white-space:pre-wrap"
    )
    return f'<code style="{style}">{escape(text)}</code>'


def source_block(html: str) -> str:
    """Return HTML as lines of code."""
    style = (
        "margin:4px 0;padding:2px 6px;overflow-x:auto;font-family:var(--jp-code-font-family,monospace);"
        "color:inherit;background:var(--jp-layout-color2,rgba(128,128,128,0.15))"
    )
    return f'<pre style="{style}">{html}</pre>'
