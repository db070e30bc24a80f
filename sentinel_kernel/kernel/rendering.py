"""Turns what the host says into MIME bundles: HTML that follows JupyterLab's theme, plain text, and data.

Every string that is not ours may come from the sandbox: it is cut and escaped. Colours are JupyterLab's own
variables, with fallbacks for other clients; words are told apart by weight and place, never by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.kernel.words import Words

    Part = tuple[str, list[str]]
    """A part of a page: its HTML, all of it ours or escaped, and its lines of plain text."""

_VALUE_CHARACTERS = 200
_TEXT_CHARACTERS = 2000

_BOX = (
    "max-width:100%;box-sizing:border-box;overflow-wrap:anywhere;margin:4px 0;padding:8px 12px;"
    "border:1px solid var(--jp-border-color1,#bdbdbd);border-left:4px solid var({accent});border-radius:3px;"
    "background:var(--jp-layout-color1,transparent);color:var(--jp-content-font-color1,inherit);"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-content-font-size1,14px);line-height:1.45"
)
_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;background:transparent"
_TABLE = "border-collapse:collapse;margin:4px 0;font-size:inherit"
_WARNING = "--jp-warn-color0,#b26a00"
_ERROR = "--jp-error-color0,#b71c1c"
_INFORMATION = "--jp-brand-color1,#1565c0"

_LABELS: dict[str, tuple[str, str]] = {
    "refused": ("Refused by the sandbox", "被沙箱拒绝"),
    "killed": ("Ended by the sandbox", "被沙箱终止"),
    "logged": ("Recorded by the sandbox", "沙箱已记录"),
    "held": ("Held back by Sentinel", "被 Sentinel 拦截"),
    "notice": ("Sentinel", "Sentinel"),
    "limit": ("A limit of the sandbox", "沙箱的限制"),
    "tried": ("tried", "尝试"),
    "rule": ("rule", "规则"),
    "line": ("line", "行"),
    "process": ("process", "进程"),
    "times": ("times", "次"),
    "hint": ("HINT", "提示"),
    "do": ("Try", "可尝试"),
}


def _label(key: str, language: str) -> str:
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
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in cut
    )


def violation_bundle(violation: Json, language: str) -> Json:
    """Return the bundle for a completed violation (policy/violation.py, as JSON)."""
    message, hint = said(violation, "message", language), said(violation, "hint", language)
    count = violation.get("count")
    repeated = count if isinstance(count, int) and count > 1 else 0
    plain = f"[SEMANTIC] {printable(message, _TEXT_CHARACTERS)}"
    if repeated:
        plain += f" (×{repeated})"
    plain += f"\nHINT → {printable(hint, _TEXT_CHARACTERS)}"
    return {
        VIOLATION_TYPE: violation,
        "text/html": _violation_html(violation, message, hint, repeated, language),
        "text/plain": plain,
    }


def _violation_html(violation: Json, message: str, hint: str, repeated: int, language: str) -> str:
    outcome = violation.get("outcome")
    killed = outcome == "killed" or violation.get("action") == "KILL"
    title = _label(
        "killed" if killed else "logged" if violation.get("action") == "LOG" else "refused", language
    )
    facts = [_code(call_text(violation))]
    if errno_name := violation.get("errno_name"):
        facts.append(f"→ {_code(errno_name)}")
    if rule := violation.get("rule"):
        profile = violation.get("profile")
        facts.append(f"{_label('rule', language)} {_code(f'{profile}: {rule}' if profile else rule)}")
    if line := violation.get("line"):
        facts.append(f"{_label('line', language)} {_code(line)}")
    process = violation.get("process")
    if isinstance(process, dict) and not process.get("is_worker", True):
        facts.append(f"{_label('process', language)} {_code(process.get('command', ''))}")
    if repeated:
        facts.append(f"<strong>×{repeated}</strong>")
    rows = [_paragraph(escape(message, _TEXT_CHARACTERS)), _small(" &nbsp;·&nbsp; ".join(facts))]
    if source := violation.get("source"):
        rows.append(_source(escape(source)))
    rows.append(_hint(hint, language))
    remedies = [
        remedy["text"]
        for remedy in violation.get("remedies") or ()
        if isinstance(remedy, dict) and isinstance(remedy.get("text"), str) and remedy.get("kind") != "code"
    ]
    if remedies:
        rows.append(
            _small(f"{_label('do', language)}: " + " ".join(_code(remedy) for remedy in remedies[:4]))
        )
    return _box(title, rows, _ERROR if killed else _WARNING)


def notice_bundle(words: Words, language: str, kind: str, data: Json | None = None) -> Json:
    """Return the bundle for something the host says; ``kind`` is held (an output was held back), limit or notice."""
    message, hint = words.message(language), words.hint(language)
    rows = [_paragraph(escape(message, _TEXT_CHARACTERS)), _hint(hint, language)]
    return {
        NOTICE_TYPE: {
            "version": 1,
            "kind": kind,
            "message": {"en": words.message_en, "zh": words.message_zh},
            "hint": {"en": words.hint_en, "zh": words.hint_zh},
            **(data or {}),
        },
        "text/html": _box(_label(kind, language), rows, _INFORMATION if kind == "notice" else _WARNING),
        "text/plain": words.plain(language),
    }


def table_bundle(title: str, rows: Sequence[tuple[str, str]], notes: Iterable[str] = ()) -> Json:
    """Return the bundle for a two-column table, as `%sentinel_status` shows it."""
    return page_bundle(title, [rows_part(rows)], notes)


def columns_bundle(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Iterable[str] = ()
) -> Json:
    """Return the bundle for a table of several columns; in plain text the last one is not padded."""
    return page_bundle(title, [columns_part(header, rows)], notes)


def page_bundle(title: str, parts: Iterable[Part], notes: Iterable[str] = ()) -> Json:
    """Return the bundle for a page in one box: its parts below each other, and notes below them."""
    parts, notes = list(parts), list(notes)
    plain = [title, *(line for _, lines in parts for line in lines), *notes]
    extra = [_small(escape(note, _TEXT_CHARACTERS)) for note in notes]
    return {
        "text/html": _box(title, [*(html for html, _ in parts), *extra], _INFORMATION),
        "text/plain": "\n".join(printable(line, _TEXT_CHARACTERS) for line in plain),
    }


def rows_part(rows: Sequence[tuple[str, str]]) -> Part:
    """Return names and values below each other."""
    width = max((cells(name) for name, _ in rows), default=0)
    body = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_CELL};font-weight:600;white-space:nowrap">'
        f'{escape(name)}</th><td style="{_CELL}">{escape(value, _TEXT_CHARACTERS)}</td></tr>'
        for name, value in rows
    )
    html = f'<table style="{_TABLE}"><tbody>{body}</tbody></table>'
    return html, [f"  {padded(name, width)}  {value}" for name, value in rows]


def columns_part(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Part:
    """Return a table of several columns; a wide one can be scrolled."""
    table = [list(header), *map(list, rows)]
    widths = [max(cells(printable(row[index], 40)) for row in table) for index in range(len(header))]
    widths[-1] = 0
    lines = [
        "  ".join(
            padded(printable(text, 40 if width else 200), width)
            for text, width in zip(row, widths, strict=True)
        )
        for row in table
    ]
    head = "".join(f'<th scope="col" style="{_CELL};font-weight:600">{escape(text)}</th>' for text in header)
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(f'<td style="{_CELL}">{escape(text, _TEXT_CHARACTERS)}</td>' for text in row)
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
    return _source("\n".join(map(escape, lines))), [f"    {line}" for line in shown]


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


def call_text(violation: Json) -> str:
    """Return a call with its arguments, as it would be written."""
    arguments: list[Any] = [
        argument for argument in violation.get("arguments") or () if isinstance(argument, dict)
    ]
    shown = ", ".join(
        f"{argument.get('name')}={argument.get('text', argument.get('value'))}" for argument in arguments
    )
    return f"{violation.get('syscall', '?')}({shown})"


def _box(title: str, rows: Sequence[str], accent: str) -> str:
    style = _BOX.replace("{accent}", accent)
    heading = f'<div style="font-weight:600;margin-bottom:2px">{escape(title)}</div>'
    return (
        f'<div class="sentinel-box" role="note" aria-label="{escape(title)}" style="{style}">'
        f"{heading}{''.join(rows)}</div>"
    )


def _paragraph(html: str) -> str:
    return f'<div style="margin:2px 0">{html}</div>'


def _small(html: str) -> str:
    return f'<div style="margin:2px 0;font-size:0.92em">{html}</div>'


def _hint(hint: str, language: str) -> str:
    return (
        _paragraph(f"<strong>{_label('hint', language)} →</strong> {escape(hint, _TEXT_CHARACTERS)}")
        if hint
        else ""
    )


def _code(text: object) -> str:
    style = (
        "font-family:var(--jp-code-font-family,monospace);color:inherit;padding:0 3px;border-radius:2px;"
        "background:var(--jp-layout-color2,rgba(128,128,128,0.15));white-space:pre-wrap"
    )
    return f'<code style="{style}">{escape(text)}</code>'


def _source(html: str) -> str:
    style = (
        "margin:4px 0;padding:2px 6px;overflow-x:auto;font-family:var(--jp-code-font-family,monospace);"
        "color:inherit;background:var(--jp-layout-color2,rgba(128,128,128,0.15))"
    )
    return f'<pre style="{style}">{html}</pre>'
