"""What plotly.js makes of a chart's texts, ported from its lib/svg_text_utils.js: its styles and its links.

It reads texts that it has joined before (a tick's prefix and its text), filled in (``%{customdata[0]}``) and taken
parts out of (``<extra>``). :func:`shown` gives all that may come of two of a chart's texts.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE = r"[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""JavaScript's ``\\s``."""

_ANY = r"[^\n\r\u2028\u2029]"
_NEWLINES = re.compile(r"\r\n?|\n")
_SPLIT_TAGS = re.compile(r"(<[^<>]*>)")
_ONE_TAG = re.compile(rf"<(/?)([^ >]*)(?:{_SPACE}+({_ANY}*))?>")
_TAGS = frozenset({"sup", "sub", "s", "u", "b", "i", "a", "span", "em"})
_ATTRIBUTE = r"(?:^|{0}|[\"'])(?:{1}){0}*={0}*(?:\"([^\"]*)\"|'([^']*)')"
_STYLE = re.compile(_ATTRIBUTE.format(_SPACE, "[sS][tT][yY][lL][eE]"))
_HREF = re.compile(_ATTRIBUTE.format(_SPACE, "[hH][rR][eE][fF]"))
_REFERENCE = re.compile(r"&(#[0-9]+|#x[0-9a-fA-F]+|[a-z]+);")
_NAMED = {
    "mu": "\u03bc",
    "amp": "&",
    "lt": "<",
    "gt": ">",
    "nbsp": "\xa0",
    "times": "\xd7",
    "plusmn": "\xb1",
    "deg": "\xb0",
}
_EXTRA = re.compile(r"<extra>(.*)</extra>", re.DOTALL)
_TEMPLATE = re.compile(r"%\{[^\s%{}:]*(?:[:|][^}]*)?\}")


def _resolved(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        name = found[1]
        if name[0] != "#":
            return _NAMED.get(name, found[0])
        number = int("0" + name[1:], 0) if name[1] == "x" else int(name[1:])
        return chr(number) if 0 < number <= 0x10FFFF else found[0]

    return _REFERENCE.sub(meant, text)


def read(text: str) -> tuple[list[str], list[str]]:
    """Return the styles and the addresses that plotly.js sets for a text that it shows."""
    styles, links = list[str](), list[str]()
    for part in _SPLIT_TAGS.split(_NEWLINES.sub(" ", text)):
        tag = _ONE_TAG.search(part)
        if tag is None or tag[2].lower() not in _TAGS or tag[1]:
            continue
        for wanted, found in ((styles, _STYLE), (links, _HREF)):
            one = found.search(tag[3] or "")
            if one is not None:
                wanted.append(_resolved(one[1] or one[2] or ""))
    return styles, links


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def shown(figure: Any) -> Iterator[str]:
    """Yield each text of a figure as it may be shown: alone, before another one, and filled in by another one."""
    all_texts = list(dict.fromkeys(_texts(figure)))
    for one, other in itertools.product(all_texts, ["", *all_texts]):
        filled = _TEMPLATE.sub(lambda _found, other=other: other, one)
        for text in (one + other, filled):
            yield from (text, _EXTRA.sub("", text))
