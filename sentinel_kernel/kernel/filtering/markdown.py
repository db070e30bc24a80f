"""Markdown and LaTeX of outputs: frontends put raw HTML of the one into the page, and let the other make links.

Markdown is not parsed: where it is read differs from frontend to frontend. What could be a tag, a script's address or a
picture of another host gets a character of no width in between, which shows the same and means nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.filtering import held
from sentinel_kernel.kernel.filtering.plain_html import is_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

_BREAK = "\u200b"
_TAG = re.compile(r"<(?=[a-zA-Z/!?])([^<>]{0,2000}>?)")
_AUTOLINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"']+>")
_LOCAL_IMAGE = re.compile(
    r"!\[[^\[\]\n]{0,500}\]\(\s{0,5}<?(?:data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+|attachment:[\w.-]+|"
    r"(?:\./)?[\w][\w .+-]{0,120}\.(?:png|jpe?g|gif|webp|svg))>?(?:\s{1,5}\"[^\"\n<>]{0,200}\")?\s{0,5}\)",
    re.IGNORECASE,
)
_HOSTED_IMAGE = re.compile(
    r"!\[[^\[\]\n]{0,500}\]\(\s{0,5}<?https://([a-z0-9.-]+)(?::443)?(?:/[^\s<>()\\&]*)?>?\s{0,5}\)",
    re.IGNORECASE,
)
_SCHEMES = (
    "javascript",
    "vbscript",
    "livescript",
    "data",
    "blob",
    "file",
    "filesystem",
    "view-source",
    "feed",
)
_SCHEME = re.compile(
    "("
    + "|".join(r"[\s\\]{0,3}".join(one) for one in _SCHEMES)
    + r")([\s\\]{0,3}:)(?!image/(?:png|jpeg|gif|webp);)",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?=#|(?:Tab|NewLine|colon|lpar|excl|lbrack|lsqb|lt|LT|sol|bsol|nbsp)\b)")
_DIAGRAM = re.compile(r"((?:```+|~~~+)[ \t]*)mermaid", re.IGNORECASE)
_LOADING_DIAGRAM = re.compile(
    r"//|url\s*\(|@import|<|themeCSS|%%\{|\bimg\s*:|\bclick\b|\bsrc\b|[\\&]", re.IGNORECASE
)
_COMMANDS = re.compile(
    r"\\(?:href|url|cssId|class|style|data|require|html(?:Id|Class|Style|Data)|includegraphics|mmlToken|texttip|"
    r"mathtip|toggle|unicode)(?![a-zA-Z])"
)


def filtered(text: str, hosts: Sequence[str] = ()) -> tuple[str, set[str]]:
    """Return the Markdown to show in the place of ``text``, and the kinds of what was held back."""
    kinds: set[str] = set()

    def tag(found: re.Match[str]) -> str:
        rest = found[1]
        if _AUTOLINK.fullmatch(rest) or (rest.endswith(">") and is_plain(found.group())):
            return found.group()
        kinds.add(held.ACTIVE)
        return f"<{_BREAK}{rest}"

    if _LOADING_DIAGRAM.search(text) and _DIAGRAM.search(text):
        text = _DIAGRAM.sub(r"\1text", text)
        kinds.add(held.REMOTE)
    if "<" in text:
        text = _TAG.sub(tag, text)
    if "&" in text:
        text = _ENTITY.sub("&amp;", text)
    if ":" in text:
        text = _SCHEME.sub(rf"\1{_BREAK}\2", text)
    if "![" in text:
        text, remote = _images(text, tuple(hosts))
        kinds |= remote
    return latex(text), kinds


def latex(text: str) -> str:
    r"""Return ``text`` without the commands of MathJax that make links, styles and names (``\href`` and its like)."""
    return _COMMANDS.sub(r"\\text", text) if "\\" in text else text


def is_harmless_diagram(text: str) -> bool:
    """Tell whether a Mermaid diagram loads nothing and leads nowhere."""
    return _LOADING_DIAGRAM.search(text) is None


def _images(text: str, hosts: tuple[str, ...]) -> tuple[str, set[str]]:
    """Return ``text`` with pictures that are here or of a listed host alone; the others become links."""
    from sentinel_kernel.kernel.filtering.html import is_host_listed  # noqa: PLC0415 - when it is first needed

    parts, position, kinds = [], 0, set()
    while (start := text.find("![", position)) >= 0:
        parts.append(text[position:start])
        local = _LOCAL_IMAGE.match(text, start)
        if local is None and hosts:
            found = _HOSTED_IMAGE.match(text, start)
            local = found if found is not None and is_host_listed(found[1].lower(), hosts) else None
        if local is not None:
            parts.append(local.group())
            position = local.end()
        else:
            parts.append(f"!{_BREAK}[")
            position = start + 2
            kinds.add(held.REMOTE)
    parts.append(text[position:])
    return "".join(parts), kinds
