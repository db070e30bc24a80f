"""Markdown and LaTeX of outputs: frontends put raw HTML of the one into the page, and let the other make links.

Markdown is not parsed: where it is read differs from frontend to frontend. What could be a tag, a script's address or a
picture of another host gets a character of no width in between, which shows the same and means nothing.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from html.entities import html5
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.filtering import held
from sentinel_kernel.kernel.filtering.plain_html import (
    TAG_MARK,
    has_text_outside_cells,
    is_plain,
    marked_text,
    without_mark,
)

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
    re.IGNORECASE | re.ASCII,
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
_NAMES = (
    "href|url|class|style|data|require|includegraphics|mmlToken|text?tip|tooltip|mathtip|toggle|action|unicode|bbox|"
    "csname|endcsname|setOptions|loadFile"
)
_BEGINNINGS = "css|html"
"""Of names of commands: ``cssId``, ``htmlData`` ..."""


def _across_tags(names: str) -> str:
    return re.sub(r"(?<=[\w?])(?=\w)", f"{TAG_MARK}*+", names)


_SPACE = r"[\s\ufeff]*+"
"""What MathJax passes over between a command and its argument: what JavaScript takes for a space."""

_COLOUR = r"\{[a-zA-Z0-9#.,!% -]{0,100}+\}"
_COLOURS = {
    "fcolorbox": rf"(?:\[[a-zA-Z]{{0,20}}+\]{_SPACE})?{_COLOUR}",
    "definecolor": rf"\{{[a-zA-Z0-9_ -]{{1,100}}+\}}{_SPACE}\{{[a-zA-Z]{{1,20}}+\}}{_SPACE}{_COLOUR}",
}
"""Commands that put what they are told into a style, by what they may be told: a colour, which ends no declaration."""


def _colours(*, across_tags: bool) -> str:
    return "|".join(
        rf"{_across_tags(name) if across_tags else name}(?![a-zA-Z])(?!{_SPACE}{plain})"
        for name, plain in _COLOURS.items()
    )


_COMMANDS = re.compile(
    rf"\\(?:(?:{_NAMES}|(?:{_BEGINNINGS})[a-zA-Z]*)(?![a-zA-Z])|{_colours(across_tags=False)})"
)
_COMMANDS_ACROSS_TAGS = re.compile(
    rf"\\{TAG_MARK}*+(?:(?:{_across_tags(_NAMES)})(?![a-zA-Z])|{_across_tags(_BEGINNINGS)}|{_colours(across_tags=True)})"
)
"""Whichever of the tags between and behind the letters part the text."""

_STYLED = re.compile(
    rf"(\\[a-zA-Z]{{1,40}}{_SPACE}[\[{{][^\[\]{{}}]{{0,300}}(?:url|image|image-set|src|element|cross-fade))"
    rf"(?={_SPACE}\()",
    re.IGNORECASE,
)
"""An argument of any command, known or not, that would load were it read as a style."""

_SPELLED_BACKSLASH = re.compile(r"&(?:#(?:0*+92(?![0-9])|[xX]0*+5[cC](?![0-9a-fA-F]));?|bsol;)")
_NAMED = {
    name[:-1]: meant
    for name, meant in html5.items()
    if name[-1] == ";" and (meant.isspace() or meant in ("$", "(", "[", "{", "\\"))
}
_REFERENCE = re.compile(
    r"&(?:#(?:0*+([1-9][0-9]{0,6}+)(?![0-9])|[xX]0*+([1-9a-fA-F][0-9a-fA-F]{0,5}+)(?![0-9a-fA-F]));?"
    rf"|(nbsp);?|({'|'.join(_NAMED)});)"
)
"""References of HTML to what formulas and commands are made of: numbers, spaces, and names of none but letters."""

_FORMULA = re.compile(r"\$|\\(?:[(\[]|begin\b)")
"""Where one of these is, a page looks for LaTeX; elsewhere a path of Windows stays what it is."""

_CUT_FORMULA = re.compile(r"\\(?:b(?:e(?:g(?:in?)?)?)?)?\0")
_CUT_COMMAND = re.compile(rf"\\[a-zA-Z]{{0,40}}+(?:{_SPACE}[\[{{][^\[\]{{}}\0]{{0,300}}+|{_SPACE})\0")
"""What a tag cuts off."""

_SPACES = ("&nbsp;", "&#160;", "&#xa0;", "&#xA0;")
"""Those that honest outputs are full of."""


def filtered(text: str, hosts: Sequence[str] = ()) -> tuple[str, set[str]]:
    """Return the Markdown to show in the place of ``text``, and the kinds of what was held back."""
    text = without_mark(text)
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
    if "&dollar;" in text or _FORMULA.search(text) is not None:
        text = latex(
            text
        )  # also what looks like a tag: an address in <>, what is in code or behind a backslash
    return latex_in_html(text), kinds


@lru_cache(maxsize=256)  # of 2,000 characters each
def _is_harmless_tag(tag: str) -> bool:
    return _AUTOLINK.fullmatch(tag, 1) is not None or is_plain(tag)


def latex(text: str) -> str:
    r"""Return ``text`` without the commands of MathJax that make links, styles and names (``\href`` and its like)."""
    if "\\" not in text:
        return text
    return _STYLED.sub(rf"\1{_BREAK}", _COMMANDS.sub(r"\\text", without_mark(text)))


def latex_in_html(text: str) -> str:
    """Return HTML as :func:`latex` does text, where a page may read other text than stands here.

    It reads behind references and across <wbr>, leaves out tags that mean nothing where they are (``</b>`` without a
    ``<b>``, ``<td>`` without a table), and moves what a table has outside of its cells. Where a command may come of
    that, no backslash begins one any more.
    """
    text = without_mark(text)
    spelled = ("&#" in text or "&bsol;" in text) and _SPELLED_BACKSLASH.search(text) is not None
    if "\\" not in text and not spelled:
        return text
    made = latex(text)
    marked = _as_read(made)
    read = marked.replace(TAG_MARK, "")
    if _FORMULA.search(read) is None and not _goes_on_elsewhere(_CUT_FORMULA, marked, made):
        return text
    acts = _COMMANDS_ACROSS_TAGS.search(marked) or _STYLED.search(read)
    if not acts and not _goes_on_elsewhere(_CUT_COMMAND, marked, made):
        return made
    return without_commands(made)


def without_commands(text: str) -> str:
    """Return ``text`` with a break behind each backslash, however it is spelled: none begins a command any more."""
    return _SPELLED_BACKSLASH.sub(rf"\g<0>{_BREAK}", text.replace("\\", f"\\{_BREAK}"))


def _goes_on_elsewhere(cut: re.Pattern[str], marked: str, text: str) -> bool:
    """Tell whether what a tag cuts off may go on with a text that does not follow here."""
    return cut.search(marked) is not None and has_text_outside_cells(text)


def _as_read(text: str) -> str:
    """Return the text that a page makes formulas of, marked where tags are."""
    marked = marked_text(text)
    if "&" not in marked:
        return marked
    for space in _SPACES:
        marked = marked.replace(space, " ")
    return _REFERENCE.sub(_meant, marked)  # only now: a tag ends a reference


def _meant(reference: re.Match[str]) -> str:
    decimal, hexadecimal, space, name = reference.groups()
    if decimal or hexadecimal:
        number = int(decimal) if decimal else int(hexadecimal, 16)
        return chr(number) if number <= sys.maxunicode else "\ufffd"
    return _NAMED[space or name]


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
