"""`%sentinel_files --diff`: texts as lines, notebooks by cell, tables by row and column, pictures side by side.

All of it is the cell's own word: lines are escaped and cut, pictures are data for the browser alone.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import files_reasons, files_words, rendering
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.rendering import Part
    from sentinel_kernel.kernel.wire import Json

_MOST_LINES = 400
_LINE_CHARACTERS = 300
_MIMES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_COLOURS = {
    "+": "rgba(46,160,67,0.16)",
    "-": "rgba(248,81,73,0.16)",
    "@": "rgba(128,128,128,0.16)",
}
"""Behind the text: a shade that leaves its contrast in both themes; the sign says the same."""

Pictures = dict[tuple[str, str, str], bytes]
"""(layer, path, side) -> the bytes of a picture that was fetched."""


def diff_page(
    diffs: Sequence[Json], pictures: Pictures, *, more: bool, named: bool = False, chinese: bool
) -> Json:
    """Return the bundle of the differences; ``more``: not all are among them; ``named``: of paths that were named."""
    title = "Sentinel：差异" if chinese else "Sentinel: what differs"
    parts = diff_parts(diffs, pictures, chinese=chinese)
    notes = []
    if not diffs:
        nothing = ("没有差异。", "Nothing differs: no cell has changed a file.")
        notes.append((files_words.NOTHING_NAMED if named else nothing)[not chinese])
    if more:
        notes.append(
            "还有更多差异；请指定路径：%sentinel_files --diff 路径"
            if chinese
            else "There are more; name a path: %sentinel_files --diff PATH"
        )
    return rendering.page_bundle(title, parts, notes)


def diff_parts(diffs: Sequence[Json], pictures: Pictures, *, chinese: bool) -> list[Part]:
    """Return the parts of a page that show the differences."""
    return [part for diff in diffs for part in _parts(diff, pictures, chinese=chinese)]


def wanted_pictures(diffs: Sequence[Json]) -> list[tuple[str, str, str]]:
    """Return the pictures that the page shows: layer, path, side."""
    return [
        (str(diff.get("layer")), str(diff.get("path")), side)
        for diff in diffs
        if diff.get("form") == "image"
        for side in ("before", "after")
        if isinstance(told := diff.get(side), dict) and told.get("shown") is True
    ]


def _parts(diff: Json, pictures: Pictures, *, chinese: bool) -> list[Part]:
    kind = files_words.KINDS.get(str(diff.get("kind")), ("changed", "已修改"))
    heading = f"{files_words.path_of(diff)} · {files_reasons.say(kind, chinese=chinese)}"
    parts = [rendering.heading_part(heading)]
    if diff.get("conflict") is True:
        both = (
            "changed on both sides: - is this machine's version, + the cell's; a commit keeps both",
            "两侧均已更改：- 为此机器上的版本，+ 为单元格的版本；提交会保留两者",
        )
        parts.append(_line(files_reasons.say(both, chinese=chinese)))
    shown = _FORMS.get(str(diff.get("form")))
    if diff.get("form") == "image":
        parts.append(_images(diff, pictures, chinese=chinese))
    elif shown is not None:
        parts += shown(diff, chinese)
    else:
        parts.append(_line(_unshown(diff, chinese=chinese)))
    if diff.get("cut") is True and shown is not None:
        parts.append(_line("内容已截断。" if chinese else "There is more of it, which is not shown."))
    return parts


def _unshown(diff: Json, *, chinese: bool) -> str:
    """Return the words for what has no text to show: how large it was and is."""
    what = {
        "large": ("too long to be compared here", "内容过长，无法在此比较"),
        "binary": ("not a text", "不是文本"),
        "unreadable": ("it can't be read", "无法读取"),
        "same": ("the same content", "内容相同"),
        "special": ("no plain file: it is never copied out of the sandbox", "非普通文件：不会复制出沙箱"),
    }.get(str(diff.get("form")), ("not shown", "未显示"))
    sizes = [
        size_text(size) if isinstance(size := diff.get(name), int) and size >= 0 else "-"
        for name in ("host_size", "size")
    ]
    return f"{files_reasons.say(what, chinese=chinese)} ({' → '.join(sizes)})"


def _text(diff: Json, chinese: bool) -> list[Part]:
    added, removed = diff.get("added"), diff.get("removed")
    counted = f"增加 {added} 行，删除 {removed} 行" if chinese else f"lines: {added} added, {removed} removed"
    lines = diff.get("lines")
    if isinstance(lines, list) and diff.get("kind") in ("new", "deleted"):
        lines = [line for line in lines if isinstance(line, str) and not line.startswith("@")]
    return [_line(counted), _lines(lines)]


def _notebook(diff: Json, chinese: bool) -> list[Part]:
    counts = diff.get("counts") if isinstance(diff.get("counts"), dict) else {}
    words = {
        "added": ("added", "新增"),
        "removed": ("removed", "删除"),
        "changed": ("changed", "修改"),
        "moved": ("moved", "移动"),
    }
    told = [
        f"{files_reasons.say(words[what], chinese=chinese)} {number}"
        for what, number in (counts or {}).items()
        if what in words and number
    ]
    cells = ("单元格：" if chinese else "cells: ") + (("，" if chinese else ", ").join(told) or "0")
    if outputs := diff.get("outputs"):
        cells += (
            f"；{outputs} 个单元格的输出不同" if chinese else f"; outputs differ in {outputs} (not shown)"
        )
    if diff.get("metadata") is True:
        cells += "；笔记本元数据不同" if chinese else "; the notebook's metadata differ"
    parts = [_line(cells)]
    for cell in _list(diff.get("cells")):
        what = files_reasons.say(words.get(str(cell.get("what")), ("changed", "修改")), chinese=chinese)
        kind = rendering.printable(cell.get("kind"), 20)
        place = cell.get("place")
        parts.append(_line(f"[{place}] {kind}: {what}" if not chinese else f"[{place}] {kind}：{what}"))
        if cell.get("lines"):
            parts.append(_lines(cell.get("lines")))
    return parts


def _table(diff: Json, chinese: bool) -> list[Part]:
    columns, rows = _object(diff.get("columns")), _object(diff.get("rows"))
    if chinese:
        told = (
            f"行：{rows.get('before')} → {rows.get('after')}（新增 {rows.get('added')}，删除 {rows.get('removed')}，"
            f"修改 {rows.get('changed')}）；列：{columns.get('before')} → {columns.get('after')}"
        )
    else:
        told = (
            f"rows: {rows.get('before')} → {rows.get('after')} (added {rows.get('added')}, removed "
            f"{rows.get('removed')}, changed {rows.get('changed')}); columns: {columns.get('before')} → "
            f"{columns.get('after')}"
        )
    parts = [_line(told)]
    for name, words in (("added", ("columns added", "新增列")), ("removed", ("columns removed", "删除列"))):
        names = [text for text in columns.get(name) or () if isinstance(text, str)]
        if names:
            listed = ", ".join(rendering.printable(text, 60) for text in names)
            parts.append(_line(f"{files_reasons.say(words, chinese=chinese)}: {listed}"))
    examples = _list(diff.get("examples"))
    if examples:
        header = ["行", "列", "之前", "之后"] if chinese else ["row", "column", "before", "after"]
        body = [
            [str(example.get(name)) for name in ("row", "column", "before", "after")] for example in examples
        ]
        parts.append(rendering.columns_part(header, body))
    for name, words in (("went", ("removed", "删除")), ("came", ("added", "新增"))):
        body = _rows(diff.get(name))
        if len(body) > 1:
            body[0][0] = files_reasons.say(words, chinese=chinese)
            parts.append(rendering.columns_part(body[0], body[1:]))
    head = _rows(diff.get("head"))
    if head and diff.get("kind") == "new":
        parts.append(rendering.columns_part(head[0], head[1:]))
    return parts


def _rows(value: object) -> list[list[str]]:
    """Return rows as texts, each as long as the first one."""
    rows = [row for row in value if isinstance(row, list) and row] if isinstance(value, list) else []
    width = len(rows[0]) if rows else 0
    return [[str(field) for field in (*row, *[""] * width)][:width] for row in rows]


_FORMS: dict[str, Callable[[Json, bool], list[Part]]] = {
    "text": _text,
    "notebook": _notebook,
    "table": _table,
}


def _images(diff: Json, pictures: Pictures, *, chinese: bool) -> Part:
    words = {"before": ("before", "之前"), "after": ("after", "之后")}
    figures, plain = [], []
    for side, named in words.items():
        told = diff.get(side)
        if not isinstance(told, dict):
            continue
        label = files_reasons.say(named, chinese=chinese)
        size = diff.get("host_size" if side == "before" else "size")
        caption = f"{label}: {told.get('width')} x {told.get('height')}, {size_text(size)}"
        data = pictures.get((str(diff.get("layer")), str(diff.get("path")), side))
        plain.append(f"  {caption}")
        figures.append(_figure(caption, told.get("mime"), data, chinese=chinese))
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px">{"".join(figures)}</div>', plain


def _figure(caption: str, mime: object, data: bytes | None, *, chinese: bool) -> str:
    drawn = f"<div>{'未显示' if chinese else 'not shown'}</div>"
    if data is not None and mime in _MIMES:
        encoded = base64.b64encode(data).decode("ascii")
        style = (
            "max-width:320px;max-height:240px;border:1px solid var(--jp-border-color1,#bdbdbd);"
            "background:repeating-conic-gradient(#808080 0 25%,#a0a0a0 0 50%) 0 0/16px 16px"
        )
        drawn = f'<img src="data:{mime};base64,{encoded}" alt="{rendering.escape(caption)}" style="{style}">'
    text = rendering.escape(caption)
    return f'<figure style="margin:4px 0">{drawn}<figcaption style="font-size:0.92em">{text}</figcaption></figure>'


def _line(text: str) -> Part:
    return rendering.small(rendering.escape(text, rendering.TEXT_CHARACTERS)), [f"  {text}"]


def _lines(lines: object) -> Part:
    """Return lines of a diff, each on a shade of its kind."""
    given = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    texts = [line[:_LINE_CHARACTERS].expandtabs(4) for line in given[:_MOST_LINES]]
    html = []
    for line in texts:
        shade = _COLOURS.get(line[:1])
        style = f' style="background:{shade}"' if shade else ""
        html.append(f"<div{style}>{rendering.escape(line, _LINE_CHARACTERS) or '&nbsp;'}</div>")
    plain = [f"    {rendering.printable(line, _LINE_CHARACTERS)}" for line in texts]
    return rendering.source_block("".join(html)), plain


def _list(value: object) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}
