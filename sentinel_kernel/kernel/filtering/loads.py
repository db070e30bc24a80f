"""What a framed output will lack: the hosts that its scripts and styles come from, and libraries of other outputs.

Only words for the person come of it; what a frame may load is its policy's to say (frame.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.filtering import held

if TYPE_CHECKING:
    from collections.abc import Callable

_START, _END = 100_000, 500_000
"""Characters that are looked at, from either end: libraries that come with an output are between."""

_SHORT = 50_000
"""Scripts that are longer are libraries, which name many addresses and load none of them."""

_ATTRIBUTE = re.compile(
    r"<(?:script|link|img)\b[^<>]*?\s(?:src|href)\s*+=\s*+[\"']?((?:https?:)?//[^\s\"'>]+)", re.IGNORECASE
)
_SCRIPTS = re.compile(r"<script\b", re.IGNORECASE)
_SCRIPT = re.compile(r"[^<>]{0,2000}>(.*?)</script", re.IGNORECASE | re.DOTALL)
_CDNS = (
    r"cdn\.jsdelivr\.net|unpkg\.com|cdnjs\.cloudflare\.com|cdn\.plot\.ly|cdn\.(?:pydata|bokeh)\.org|esm\.(?:sh|run)|"
    r"cdn\.skypack\.dev|d3js\.org|code\.jquery\.com|ajax\.googleapis\.com|(?:maps|fonts)\.googleapis\.com"
)
_QUOTED = re.compile(
    rf"[\"'`]((?:https?:)?//(?:(?:{_CDNS})/|[^\s\"'`/<>]+/[^\s\"'`<>?#]*\.(?:m?js|css)\b)[^\s\"'`<>]*)",
    re.IGNORECASE,
)
_IMPORTED = re.compile(r"@import\s+(?:url\(\s*)?[\"']?((?:https?:)?//[^\s\"')]+)", re.IGNORECASE)
_VEGA = re.compile(r"[\"']?vega-?(?:lite|embed)\b", re.IGNORECASE)
_PLOTLY = re.compile(
    r"plotly\.js v\d|\bfrom\s*+[\"'][^\"']*plotly|\bimport\s*+[\"'][^\"']*plotly", re.IGNORECASE
)


def lacking(text: str, is_listed: Callable[[str], bool]) -> set[str]:
    """Return the kinds to tell of for the framed document ``text``; ``is_listed`` says which addresses it may load."""
    ends = text if len(text) <= _START + _END else f"{text[:_START]}\n{text[-_END:]}"
    asked = _ATTRIBUTE.findall(ends)
    parts = _SCRIPTS.split(ends)[1:]  # one by one: what never ends is read once
    bodies = [found[1] for one in parts if (found := _SCRIPT.match(one)) is not None]
    scripts = [one for one in bodies if len(one) <= _SHORT]
    asked += [one for script in scripts for one in _QUOTED.findall(script)]
    asked += _IMPORTED.findall(ends)
    refused = [one for one in asked if not is_listed(one)]
    kinds = held.remote("\n".join(refused)) if refused else set[str]()
    if refused and any(_VEGA.search(one) for one in refused):
        kinds |= held.named(held.REMOTE, ":altair")
    if "Plotly.newPlot(" in ends and not any("plotly" in one for one in asked) and not _PLOTLY.search(text):
        kinds |= held.named(held.SHARED, ":plotly")
    return kinds
