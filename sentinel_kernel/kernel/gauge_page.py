"""The gauge as a picture and as text: meters with numbers, the last minute as lines, and what is in force.

Colours are JupyterLab's own variables with fallbacks. None says anything alone: a meter that is nearly full has
the words for it beside its number, and a line its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.rendering import NO_FORMULAS, escape, printable
from sentinel_kernel.kernel.usage import SECONDS
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.usage import Sample, Usage

HIGH, FULL = 0.80, 0.95
"""From which share of its limit on a meter is called high, and nearly full."""

_BARS = "▁▂▃▄▅▆▇█"
_TEXT_BAR = 20
_PLACES = {
    "tmp_bytes": ("/tmp", "/tmp"),
    "home": ("the home folder", "主目录"),
    "shm_bytes": ("/dev/shm", "/dev/shm"),
}
"""File systems in memory other than the notebook's folder."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

Line = tuple["float | None", ...]
"""A share of the limit (0 to 1) for each second of the last minute, the newest last; None where nothing is known."""


class Meter(Record):
    """One row: how much of what. ``share`` is None where there is no limit or no number."""

    name: str
    text: str
    share: float | None
    line: Line = ()
    alarming: bool = True
    """Whether it is a bad sign to be full."""


class View(Record):
    """All that the gauge shows."""

    title: str
    facts: tuple[tuple[str, str], ...]
    meters: tuple[Meter, ...]
    note: str = ""


def meters(
    usage: Usage,
    limit: Callable[[str], float | None],
    output_bytes: int,
    *,
    chinese: bool,
) -> tuple[Meter, ...]:
    """Return the rows for what is used, and the output of the newest cell."""
    newest = usage.newest
    memory, most = limit("memory_bytes"), limit("cpu_percent")
    return (
        _meter(
            ("memory", "内存"),
            None if newest is None else newest.memory_bytes,
            memory,
            bytes_text,
            chinese=chinese,
            line=_line([(second.number, second.memory_bytes) for second in usage.minute], memory),
        ),
        _meter(
            ("CPU", "处理器"),
            usage.cpu_percent,
            most,
            _percent_text,
            chinese=chinese,
            alarming=False,
            line=_line([(second.number, second.cpu_percent) for second in usage.minute], most),
        ),
        _meter(
            ("processes, threads", "进程与线程"),
            None if newest is None else newest.pids,
            limit("pids"),
            str,
            chinese=chinese,
        ),
        _disk(newest, limit, chinese=chinese),
        _meter(
            ("output", "单元格输出"),
            output_bytes,
            limit("output_bytes"),
            bytes_text,
            chinese=chinese,
        ),
    )


def html(view: View) -> str:
    """Return the picture: a table of meters, with lines drawn as SVG."""
    rows = "".join(map(_row, view.meters))
    facts = " &nbsp;·&nbsp; ".join(
        f"{escape(name)} <strong>{escape(value)}</strong>" for name, value in view.facts
    )
    note = f'<div role="status" style="margin-top:4px">{escape(view.note, 600)}</div>' if view.note else ""
    return (
        f'<div class="sentinel-gauge {NO_FORMULAS}" role="group" aria-label="{escape(view.title)}" style="{_BOX}">'
        f'<div style="font-weight:600">{escape(view.title)}</div>'
        f'<div style="font-size:0.92em;margin:2px 0 4px">{facts}</div>'
        f'<table style="border-collapse:collapse;margin:0;border:0"><tbody>{rows}</tbody></table>{note}</div>'
    )


def plain(view: View) -> str:
    """Return the same as text."""
    width = max((len(meter.name) for meter in view.meters), default=0)
    lines = [view.title, "  " + "; ".join(f"{name} {printable(value)}" for name, value in view.facts)]
    for meter in view.meters:
        full = 0 if meter.share is None else round(min(1.0, meter.share) * _TEXT_BAR)
        bar = "#" * full + "." * (_TEXT_BAR - full) if meter.share is not None else " " * _TEXT_BAR
        line = _text_line(meter.line)
        lines.append(f"  {meter.name:<{width}}  [{bar}]  {meter.text}" + (f"  {line}" if line else ""))
    if view.note:
        lines.append("  " + printable(view.note, 600))
    return "\n".join(lines)


def bytes_text(amount: float) -> str:
    """Return a number of bytes with three digits that count."""
    value = float(amount)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1024
    decimals = 0 if unit == "B" or value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {unit}"


# --- small parts

_BOX = (
    "max-width:100%;box-sizing:border-box;overflow-x:auto;margin:4px 0;padding:8px 12px;"
    "border:1px solid var(--jp-border-color1,#bdbdbd);border-left:4px solid var(--jp-brand-color1,#1565c0);"
    "border-radius:3px;background:var(--jp-layout-color1,transparent);color:var(--jp-content-font-color1,inherit);"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-content-font-size1,14px);line-height:1.45"
)
_CELL = "padding:1px 12px 1px 0;text-align:left;vertical-align:middle;border:0;background:transparent;color:inherit"
_TRACK = (
    "width:140px;height:10px;border:1px solid var(--jp-border-color0,#757575);border-radius:2px;"
    "background:var(--jp-layout-color2,rgba(128,128,128,0.15))"
)


def _percent_text(percent: float) -> str:
    return f"{percent:.0f} %"


def _meter(
    names: tuple[str, str],
    used: float | None,
    allowed: float | None,
    shown: Callable[[float], str],
    *,
    chinese: bool,
    alarming: bool = True,
    line: Line = (),
) -> Meter:
    """Return a row; one that is not ``alarming`` may be full without anything being wrong."""
    name = names[1] if chinese else names[0]
    if used is None:
        return Meter(name, "尚无数据" if chinese else "not known yet", None, line)
    if not allowed or allowed < 0:
        return Meter(name, f"{shown(used)}（无限制）" if chinese else f"{shown(used)} (no limit)", None, line)
    share = max(0.0, used / allowed)
    level = _level(share, chinese=chinese) if alarming else ""
    text = (
        f"{shown(used)} / {shown(allowed)}（{share * 100:.0f} %{level}）"
        if chinese
        else f"{shown(used)} of {shown(allowed)} ({share * 100:.0f} %{level})"
    )
    return Meter(name, text, share, line, alarming)


def _disk(newest: Sample | None, limit: Callable[[str], float | None], *, chinese: bool) -> Meter:
    """Return the row of the file system that is the fullest, with the sum of all where that is more."""
    fullest, most = "disk_bytes", -1.0
    files = {} if newest is None else newest.files
    for name, held in files.items():
        size = limit("tmp_bytes" if name == "home" else name)
        if size and held / size > most:
            fullest, most = name, held / size
    used = files.get(fullest) if files or newest is None else newest.disk_bytes
    allowed = limit("tmp_bytes" if fullest == "home" else fullest)
    row = _meter(("disk", "磁盘"), used, allowed, bytes_text, chinese=chinese)
    all_bytes = sum(files.values())
    more_en = more_zh = ""
    if used is not None and fullest != "disk_bytes":
        place_en, place_zh = _PLACES.get(fullest, (fullest, fullest))
        more_en, more_zh = f" in {place_en}", f"，位于 {place_zh}"
    if used is not None and all_bytes > used * 1.05:
        more_en += f", {bytes_text(all_bytes)} in all"
        more_zh += f"，共 {bytes_text(all_bytes)}"
    return Meter(row.name, row.text + (more_zh if chinese else more_en), row.share)


def _level(share: float, *, chinese: bool) -> str:
    if share >= FULL:
        return "，接近上限" if chinese else ", nearly full"
    if share >= HIGH:
        return "，偏高" if chinese else ", high"
    return ""


def _line(points: Sequence[tuple[int, float | None]], limit: float | None) -> Line:
    """Return each second's value as a share of the limit; where there is none, of the highest of all."""
    most = limit or max((value or 0 for _, value in points), default=0)
    if not points or most <= 0:
        return ()
    shares = {number: None if value is None else min(1.0, value / most) for number, value in points}
    newest = points[-1][0]
    return tuple(shares.get(number) for number in range(newest - SECONDS + 1, newest + 1))


def _row(meter: Meter) -> str:
    name = f'<th scope="row" style="{_CELL};font-weight:600;white-space:nowrap">{escape(meter.name)}</th>'
    bar = "" if meter.share is None else _bar(meter)
    text = f'<td style="{_CELL};font-variant-numeric:tabular-nums">{escape(meter.text)}</td>'
    return (
        f'<tr style="background:transparent">{name}<td style="{_CELL}">{bar}</td>'
        f'<td style="{_CELL}">{_drawn(meter)}</td>{text}</tr>'
    )


def _bar(meter: Meter) -> str:
    percent = min(100.0, 100 * (meter.share or 0))
    level = "brand"
    if meter.alarming and percent >= 100 * HIGH:
        level = "error" if percent >= 100 * FULL else "warn"
    fallback = {"error": "#b71c1c", "warn": "#b26a00", "brand": "#1565c0"}[level]
    full = f"width:{percent:.1f}%;height:100%;background:var(--jp-{level}-color1,{fallback})"
    return (
        f'<div role="meter" aria-label="{escape(meter.name)}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{percent:.0f}" aria-valuetext="{escape(meter.text)}" style="{_TRACK}">'
        f'<div style="{full}"></div></div>'
    )


def _drawn(meter: Meter) -> str:
    """Return the line as SVG; a gap where nothing was known."""
    pieces: list[list[str]] = [[]]
    for second, share in enumerate(meter.line):
        if share is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{2 * second},{21 - 20 * share:.1f}")
    drawn = "".join(
        f'<polyline points="{" ".join(piece if len(piece) > 1 else piece * 2)}"/>'
        for piece in pieces
        if piece
    )
    if not drawn:
        return ""
    # A square end makes a second that stands alone visible.
    return (
        '<svg width="120" height="22" viewBox="0 0 120 22" aria-hidden="true" style="display:block;fill:none;'
        "stroke:var(--jp-brand-color1,#1565c0);stroke-width:1.5;stroke-linecap:square;"
        f'border-bottom:1px solid var(--jp-border-color1,#bdbdbd)">{drawn}</svg>'
    )


def _text_line(line: Line) -> str:
    """Return the line in twenty characters, the highest of three seconds in each."""
    shown = ""
    for start in range(0, len(line), 3):
        known = [share for share in line[start : start + 3] if share is not None]
        shown += _BARS[min(len(_BARS) - 1, int(max(known) * len(_BARS)))] if known else " "
    return shown.strip()
