"""HTML of outputs: what may be shown in the page, what goes into a frame, and what is left out of both."""

from __future__ import annotations

import hashlib
import html as entities
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.filtering import css, held, recordings
from sentinel_kernel.kernel.filtering.frame import framed
from sentinel_kernel.kernel.filtering.markdown import latex_in_html
from sentinel_kernel.kernel.filtering.plain_html import is_page_class, is_plain
from sentinel_kernel.kernel.filtering.vocabulary import (
    ATTRIBUTES,
    EVERYWHERE,
    LOWER_TAGS,
    QUIET,
    REFERENCES,
    SVG_TAGS,
    TAGS,
    WORDS,
)
from sentinel_kernel.kernel.filtering.work import MOST_CLEANED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.policy.profile import Outputs

MOST_TAGS, MOST_IRREGULAR, DEEPEST = 60_000, 2000, 200
"""Tags that are cleaned for the page, in all; where they are not well nested; and one in the other.

Readers of HTML take time that grows with the square of what is open at once.
"""

ID_PREFIX = "o-"

_ACTIVE = re.compile(r"<script\b|<[^<>]{0,2000}[\s\"'/]on[a-z]{3,}\s*=|javascript:", re.IGNORECASE)
_STYLE = re.compile(r"<style(?=[\s/>])[^<>]*>", re.IGNORECASE)
_STYLE_END = re.compile(r"</style\s*>", re.IGNORECASE)
_NESTED = re.compile(r"<iframe\b[^<>]*?\ssrcdoc\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_FRAME = re.compile(r"<iframe\b([^<>]*+)>", re.IGNORECASE)
_SOURCE = re.compile(r"[\s\"'/]src\s*+=\s*+[\"']?(https://[^\s\"'<>]{1,2000}+)(?=[\s\"']|$)", re.IGNORECASE)
_NAMES = re.compile(r"<([a-zA-Z][a-zA-Z0-9-]*)")
_REMOTE_HINT = re.compile(r"(?:https?:)?//|url\s*\(", re.IGNORECASE)

_DATA = re.compile(
    r"data:(?:image|audio|video)/[a-z0-9.+-]+(?:;[a-z0-9=.+\"-]*)*,[A-Za-z0-9+/=%\s._~!$&'()*,;:@-]*",
    re.IGNORECASE,
)
_FILE = re.compile(
    r"(?:\./)?[\w][\w .()+-]{0,120}\.(?:png|jpe?g|gif|webp|svg|bmp)",
    re.IGNORECASE,
)
_PLAYING = frozenset({"audio", "video", "source"})
_PLAYS_ADDRESS = re.compile(r"<(?:audio|video)\b", re.IGNORECASE)
_PATH = re.compile(r"(?:\./)?[\w][\w .()+%-]*(?:/[\w][\w .()+%-]*)*/?")
_LINK = re.compile(r"(?:https?://[^\s]+|mailto:[^\s]+)", re.IGNORECASE | re.ASCII)
_REFERENCE = re.compile(r"(url\(\s*+[\"']?#)", re.IGNORECASE)
_ID = re.compile(r"[\w][\w:.-]{0,120}")
_HOST = re.compile(r"https://([a-z0-9.-]+)(?::443)?(?:[/?#]|$)", re.IGNORECASE | re.ASCII)
"""A long s is no s of a scheme: what has one is a path on the page's own server."""


def filtered(text: str, rules: Outputs) -> tuple[str, set[str]]:  # noqa: PLR0911 - one a kind
    """Return the HTML to show in the place of ``text`` (empty: none), and the kinds of what was held back."""
    if is_plain(text):
        return (
            (latex_in_html(text), set())
            if rules.html != "plain"
            else ("", {held.ACTIVE} if "<img" in text else set())
        )
    if rules.html == "plain":
        return "", {held.ACTIVE}
    if rules.html == "frame":
        nested = _nested(text)
        if nested or _ACTIVE.search(text) or (rules.hosts and _PLAYS_ADDRESS.search(text)):
            return framed(nested or text, rules.hosts), _loads(nested or text, rules.hosts)
        if not is_quickly_read(text):
            return framed(text, rules.hosts), set()
    elif not is_quickly_read(text):
        return "", {held.TOO_LONG}
    embedded = _embedded(text, rules.hosts)
    if embedded:
        return embedded, set()
    return cleaned(text, rules.hosts, scripts_matter=bool(_ACTIVE.search(text)))


def cleaned(text: str, hosts: Sequence[str] = (), *, scripts_matter: bool = False) -> tuple[str, set[str]]:
    """Return ``text`` as it may stand in the page, without anything active, and what was held back."""
    import nh3  # noqa: PLC0415 - when it is first needed

    kinds: set[str] = {held.HTML_SCRIPT} if scripts_matter else set()
    names = {name.lower() for name in _NAMES.findall(text)}
    unknown = names - LOWER_TAGS - QUIET - {"script"}
    if unknown or "commandlinker" in text.lower():
        kinds.add(held.ACTIVE)
    if _source(text):
        kinds.add(held.REMOTE)
    body, sheets = _without_sheets(text) if "style" in names else (text, "")
    judge = _Attributes(hosts)
    safe = nh3.clean(
        body,
        tags=set(TAGS),
        clean_content_tags={
            "script",
            "style",
            "noscript",
            "template",
            "noembed",
            "noframes",
            "xmp",
            "plaintext",
        },
        attributes={**ATTRIBUTES, "*": set(EVERYWHERE)},
        attribute_filter=judge,
        strip_comments=True,
        link_rel="noopener noreferrer",
        url_schemes={"http", "https", "mailto", "data"},
    )
    safe = latex_in_html(safe)
    kinds |= judge.kinds
    moves = judge.moves
    scope = "so-" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    rules = ""
    if sheets:
        rules, dropped, more = css.scoped(sheets, scope, ID_PREFIX)
        moves |= more
        if dropped:
            kinds |= held.remote(sheets) if _REMOTE_HINT.search(sheets) else {held.ACTIVE}
    if not rules and not moves:
        return safe, kinds
    # What moves could cover what the page says itself; here it is cut off at the output's own edge.
    held_in = ' style="contain:layout paint;overflow:auto;position:relative"' if moves else ""
    sheet = f"<style>{rules}</style>" if rules else ""
    return f'<div id="{scope}"{held_in}>{sheet}{safe}</div>', kinds


_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*+)([^<>]*+)>|<!--[^<>]*-->")
_SEPARATORS = re.compile(r"[\s/\"']++")
_VALUES = (re.compile(r"=(?=\s*+\"([^\"]*+))"), re.compile(r"=(?=\s*+'([^']*+))"))
_MOST_ATTRIBUTES = 8000
"""Attributes of one tag: each is compared with all before it."""

_IN_PICTURE = frozenset(SVG_TAGS.lower().split()) - {"title", "desc"}
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


def is_quickly_read(text: str) -> bool:
    """Tell whether cleaning ``text`` takes time in proportion to its length."""
    tags = text.count("<")
    if len(text) > MOST_CLEANED or tags > MOST_TAGS:
        return False
    if _may_have_long_tag(text):
        return False
    return tags <= MOST_IRREGULAR or _is_well_nested(text, tags)


def _may_have_long_tag(text: str) -> bool:
    """Tell whether a tag could have more than :data:`_MOST_ATTRIBUTES`, wherever readers take it to begin."""
    if len(text) <= 2 * _MOST_ATTRIBUTES:
        return False
    for values in _VALUES:  # a tag does not end at a ">" that is in quotes
        parts, position = [], 0
        for found in values.finditer(text):
            start, end = found.span(1)
            if ">" in found[1]:
                parts += [text[position:start], found[1].replace(">", " ")]
                position = end
        text = "".join((*parts, text[position:]))
    for stretch in text.split(">"):
        start = stretch.find("<")
        if 0 <= start < len(stretch) - 2 * _MOST_ATTRIBUTES:
            separators = _SEPARATORS.finditer(stretch, start)
            if sum(1 for _ in separators) > _MOST_ATTRIBUTES:
                return True
    return False


def _is_well_nested(text: str, tags: int) -> bool:
    """Tell whether all of the ``tags`` (their number) open and close one in the other, for every reader."""
    open_ones: list[str] = []
    in_picture, seen = 0, 0
    for found in _TAG.finditer(text):
        seen += 1
        if found[2] is None:
            continue
        closes, name = found[1], found[2].lower()
        if in_picture and name not in _IN_PICTURE:
            return False  # HTML within a picture ends it
        # Only in pictures does a "/" close an element; what is HTML stays open.
        if name in _VOID or (in_picture and found[3].endswith("/")):
            continue
        if not closes:
            open_ones.append(name)
            if len(open_ones) > DEEPEST:
                return False
            in_picture += name == "svg"
        elif not open_ones or open_ones.pop() != name:
            return False
        else:
            in_picture -= name == "svg"
    return not open_ones and seen == tags


def _without_sheets(text: str) -> tuple[str, str]:
    """Return ``text`` without its style sheets, and those."""
    parts, sheets, position = [], [], 0
    while (start := _STYLE.search(text, position)) is not None:
        end = _STYLE_END.search(text, start.end())
        if end is None:
            break
        parts.append(text[position : start.start()])
        sheets.append(text[start.end() : end.start()])
        position = end.end()
    parts.append(text[position:])
    return "".join(parts), "\n".join(sheets)


class _Attributes:
    """Judges one attribute after the other, and remembers what it left out."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self.kinds: set[str] = set()
        self.moves = False

    def __call__(self, tag: str, name: str, value: str) -> str | None:
        judge: Callable[[_Attributes, str, str], str | None] | None = _JUDGES.get(name)
        if judge is not None:
            return judge(self, tag, value)
        if name in REFERENCES:
            return " ".join(f"{ID_PREFIX}{one}" for one in value.split()[:20])
        if name in WORDS:
            return value
        # A picture's attributes are CSS, whose escapes spell url() in many ways.
        if "\\" in value or ("(" in value and not css.is_value(value)):
            self.kinds.add(held.REMOTE)
            return None
        return _REFERENCE.sub(rf"\1{ID_PREFIX}", value) if "(" in value else value

    def classes(self, _tag: str, value: str) -> str | None:
        if not is_page_class(value):
            return value
        self.kinds.add(held.ACTIVE)
        return " ".join(one for one in value.split() if not is_page_class(one)) or None

    def identifier(self, _tag: str, value: str) -> str | None:
        return f"{ID_PREFIX}{value}" if _ID.fullmatch(value) else None

    def styles(self, _tag: str, value: str) -> str | None:
        kept, dropped, moves = css.declarations(value)
        self.moves |= moves
        if dropped:
            self.kinds |= held.remote(value) if _REMOTE_HINT.search(value) else {held.ACTIVE}
        return kept or None

    def kind(self, tag: str, value: str) -> str | None:
        if tag == "input":
            return value if value.lower() in ("checkbox", "radio", "range", "text") else "text"
        return "button" if tag == "button" else value

    def picture(self, _tag: str, value: str) -> str | None:
        value = value.strip()
        if _FILE.fullmatch(value) or _DATA.fullmatch(value) or _is_listed(value, self._hosts):
            return value
        self.kinds |= held.remote(value)
        return None

    def source(self, tag: str, value: str) -> str | None:
        if tag not in _PLAYING:
            return self.picture(tag, value)
        value = value.strip()
        if _DATA.fullmatch(value) and recordings.is_embedded(value):
            return value
        # A file's content is the cell's, now or later, and so is that of a host.
        self.kinds |= held.remote(value) if _REMOTE_HINT.match(value) else {held.RECORDING}
        return None

    def link(self, tag: str, value: str) -> str | None:
        value = value.strip()
        if value.startswith("#"):
            return f"#{ID_PREFIX}{value[1:]}" if _ID.fullmatch(value[1:]) else None
        if tag == "a" and (_LINK.fullmatch(value) or (_PATH.fullmatch(value) and "%" not in value)):
            return value
        self.kinds.add(held.ACTIVE)
        return None

    def where(self, _tag: str, value: str) -> str | None:
        return "_blank" if value else None


_JUDGES = {
    "class": _Attributes.classes,
    "id": _Attributes.identifier,
    "name": _Attributes.identifier,
    "style": _Attributes.styles,
    "type": _Attributes.kind,
    "src": _Attributes.source,
    "poster": _Attributes.picture,
    "href": _Attributes.link,
    "xlink:href": _Attributes.link,
    "target": _Attributes.where,
    "usemap": lambda _judge, _tag, _value: None,
}


def _is_listed(url: str, hosts: Sequence[str]) -> bool:
    found = _HOST.match(url)
    return found is not None and is_host_listed(found[1].lower(), tuple(hosts))


@lru_cache(maxsize=512)
def is_host_listed(host: str, hosts: tuple[str, ...]) -> bool:
    """Tell whether outputs may load from ``host``."""
    return any(host == one or (one.startswith("*.") and host.endswith(one[1:])) for one in hosts)


def _nested(text: str) -> str:
    """Return the document of a frame that the output itself brings (folium's maps); empty where it has none."""
    found = _NESTED.search(text) if "srcdoc" in text.lower() else None
    return _unescaped(found[1] or found[2] or "") if found is not None else ""


def _source(text: str) -> str:
    """Return the first address that a frame in ``text`` has; empty where none has one."""
    for frame in _FRAME.finditer(text):
        if (found := _SOURCE.search(frame[1])) is not None:
            return found[1]
    return ""


_LONG_NUMBER = re.compile(r"&#[0-9]{8,}+")
_MOST_REFERENCES = 100_000
"""So many are looked up one by one; of more, those are resolved that quoting makes (html.escape)."""

_QUOTING = (
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", '"'),
    ("&#34;", '"'),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&amp;", "&"),
)


def _unescaped(text: str) -> str:
    """Return ``text`` with its references resolved; Python refuses to read numbers of thousands of digits."""
    if text.count("&") <= _MOST_REFERENCES:
        return entities.unescape(_LONG_NUMBER.sub("&#0", text))
    for reference, meant in _QUOTING:
        text = text.replace(reference, meant)
    return text


def _embedded(text: str, hosts: Sequence[str]) -> str:
    """Return a frame of a listed host (a video, a map); empty where the output is none."""
    found = _source(text) if hosts else ""
    if not _is_listed(found, hosts):
        return ""
    source = entities.escape(_unescaped(found))
    return (
        '<iframe sandbox="allow-scripts allow-same-origin allow-presentation" referrerpolicy="no-referrer" '
        f'allow="fullscreen" style="width:100%;height:450px;border:0" src="{source}">'
        "</iframe>"
    )


def _loads(text: str, hosts: Sequence[str]) -> set[str]:
    """Return what is to be told of a framed output that will not look right."""
    from sentinel_kernel.kernel.filtering import loads  # noqa: PLC0415 - where there is a frame

    return loads.lacking(text, lambda address: _is_listed(address, hosts))
