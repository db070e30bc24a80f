"""Markdown and LaTeX of outputs: frontends put raw HTML of the one into the page, and let the other make links.

Markdown is not parsed: where it is read differs from frontend to frontend. What could be a tag, a script's address or a
picture of another host gets a character of no width in between, which shows the same and means nothing.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.filtering import held
from sentinel_kernel.kernel.filtering.plain_html import is_plain, without_tags

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
    "(" + "|".join(r"[\s\\]{0,3}".join(one) for one in _SCHEMES) + r")[\s\\]{0,3}\Z", re.IGNORECASE
)
_LONGEST_SCHEME = 4 * max(map(len, _SCHEMES))
_COLON = re.compile(r":(?!image/(?:png|jpeg|gif|webp);)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?=#|(?:Tab|NewLine|colon|lpar|excl|lbrack|lsqb|lt|LT|sol|bsol|nbsp)\b)")
_FENCE = re.compile(r"((?:(?<!`)```|(?<!~)~~~)[`~]*+)([^\r\n]*+)")
_LONGEST_INFORMATION = 1000
"""Characters behind a fence on its line."""

_NOT_LETTERS = re.compile(r"[\W\d_]+")
_DIAGRAM = re.compile("mermaid", re.IGNORECASE)
_LOADING_DIAGRAM = re.compile(
    r"//|https?:|url\s*\(|image-set|@import|<|themeCSS|%%\{|\bimg\b|\bclick\b|\bsrc\b|[\\&]", re.IGNORECASE
)
_COMMANDS = re.compile(
    r"\\(?:href|url|css[a-zA-Z]*|class|style|data|require|html[a-zA-Z]*|includegraphics|mmlToken|text?tip|tooltip|"
    r"mathtip|toggle|action|unicode|bbox|csname|endcsname|setOptions|loadFile)(?![a-zA-Z])"
)
_STYLED = re.compile(
    r"(\\[a-zA-Z]{1,40}\s{0,5}[\[{][^\[\]{}]{0,300}(?:url|image|image-set|src|element|cross-fade))(?=\s{0,5}\()",
    re.IGNORECASE,
)
"""An argument of any command, known or not, that would load were it read as a style."""

_SPELLED_BACKSLASH = re.compile(r"&(?:#(?:0*+92(?!\d)|[xX]0*+5[cC](?![\da-fA-F]));?|bsol;)")
_SPELLED = re.compile(
    r"&(?:#(?:0*+(?:9|1[0-3]|32|40|6[5-9]|[78]\d|9[01]|9[7-9]|1[01]\d|12[0-3]|160)(?!\d)"
    r"|[xX]0*+(?:9|[aAcCdD]|20|28|4[1-9a-fA-F]|5[\dabAB]|6[1-9a-fA-F]|7[\dabAB]|[aA]0)(?![\da-fA-F]))"
    r"|nbsp|(?:Tab|NewLine|NonBreakingSpace|lpar|lbrack|lsqb|lbrace|lcub);)"
)
"""References of HTML that stand for a letter, a bracket or a space: what a command and its argument are made of."""

_FORMULA = re.compile(
    r"\$|\\(?:[(\[]|begin\b)|&(?:dollar;|#(?:0*+36(?!\d)|[xX]0*+24(?![\da-fA-F])))", re.IGNORECASE
)
"""Where one of these is, a page looks for LaTeX; elsewhere a path of Windows stays what it is."""

_SPACES = ("&nbsp;", "&#160;", "&#xa0;", "&#xA0;")
"""Those that honest outputs are full of."""


def filtered(text: str, hosts: Sequence[str] = ()) -> tuple[str, set[str]]:
    """Return the Markdown to show in the place of ``text``, and the kinds of what was held back."""
    kinds: set[str] = set()

    def tag(found: re.Match[str]) -> str:
        whole = found.group()
        if whole[-1] == ">" and _is_harmless_tag(whole):
            return whole
        kinds.add(held.ACTIVE)
        return f"<{_BREAK}{whole[1:]}"

    if ("```" in text or "~~~" in text) and _LOADING_DIAGRAM.search(text):
        unled = _FENCE.sub(_without_diagram, text)
        if unled != text:
            text = unled
            kinds.add(held.REMOTE)
    if "<" in text:
        text = _TAG.sub(tag, text)
    if "&" in text:
        text = _ENTITY.sub("&amp;", text)
    if ":" in text:
        text = _without_schemes(text)
    if "![" in text:
        text, remote = _images(text, tuple(hosts))
        kinds |= remote
    return latex_in_html(text), kinds


@lru_cache(maxsize=256)  # of 2,000 characters each
def _is_harmless_tag(tag: str) -> bool:
    return _AUTOLINK.fullmatch(tag, 1) is not None or is_plain(tag)


def latex(text: str) -> str:
    r"""Return ``text`` without the commands of MathJax that make links, styles and names (``\href`` and its like)."""
    return _STYLED.sub(rf"\1{_BREAK}", _COMMANDS.sub(r"\\text", text)) if "\\" in text else text


def latex_in_html(text: str) -> str:
    """Return HTML as :func:`latex` does text, where a page may read other text than stands here.

    It reads behind references and across <wbr>, and leaves out tags that mean nothing where they are (``</b>`` without
    a ``<b>``, ``<td>`` without a table). Where a command comes of that, no backslash begins one any more.
    """
    spelled = ("&#" in text or "&bsol;" in text) and _SPELLED_BACKSLASH.search(text) is not None
    if "\\" not in text and not spelled:
        return text
    made = latex(text)
    read = without_tags(made)
    for space in _SPACES:
        read = read.replace(space, " ")
    read = _SPELLED_BACKSLASH.sub(r"\\", read)
    is_spelled = _SPELLED.search(read) is not None
    if not is_spelled and _FORMULA.search(read) is None:
        return text
    if not is_spelled and latex(read) == read:
        return made
    return _SPELLED_BACKSLASH.sub(rf"\g<0>{_BREAK}", made.replace("\\", f"\\{_BREAK}"))


def _without_schemes(text: str) -> str:
    """Return ``text`` with a break behind each scheme that acts, found from its colon: text is long, colons are few."""
    parts, position = list[str](), 0
    for colon in _COLON.finditer(text):
        scheme = _SCHEME.search(text, max(position, colon.start() - _LONGEST_SCHEME), colon.start())
        if scheme is not None:
            parts += (text[position : scheme.end(1)], _BREAK)
            position = scheme.end(1)
    return "".join((*parts, text[position:]))


def _without_diagram(found: re.Match[str]) -> str:
    """Return the beginning of a fence so that no frontend draws it, whatever it trims, folds or skips."""
    if len(found[2]) > _LONGEST_INFORMATION:
        return f"{_BREAK.join(found[1])}{found[2]}"  # no fence then: it would take long to be read
    mark, rest = found[1], _DIAGRAM.sub("text", found[2])
    # Letters alone, as unlike readers take them for the same: other spaces, marks and widths are none.
    letters = _NOT_LETTERS.sub("", unicodedata.normalize("NFKC", rest)).casefold()
    return f"{mark}text" if "mermaid" in letters else f"{mark}{rest}"


def is_harmless_diagram(text: str) -> bool:
    """Tell whether a Mermaid diagram loads nothing and leads nowhere."""
    return _LOADING_DIAGRAM.search(text) is None


def _images(text: str, hosts: tuple[str, ...]) -> tuple[str, set[str]]:
    """Return ``text`` with pictures that are here or of a listed host alone; the others become links."""
    from sentinel_kernel.kernel.filtering.html import is_host_listed  # noqa: PLC0415 - when it is first needed

    parts, position, named, remote = list[str](), 0, set[str](), False
    while (start := text.find("![", position)) >= 0:
        parts.append(text[position:start])
        local, found = _LOCAL_IMAGE.match(text, start), None
        if local is None:
            found = _HOSTED_IMAGE.match(text, start)
            local = found if found is not None and is_host_listed(found[1].lower(), hosts) else None
        if local is not None:
            parts.append(local.group())
            position = local.end()
        else:
            parts.append(f"!{_BREAK}[")
            position = start + 2
            remote = True
            if found is not None and len(named) <= held.MOST_NAMED:
                named.add(found[1].lower())
    parts.append(text[position:])
    return "".join(parts), held.named(held.REMOTE, *sorted(named)) if remote else set()
