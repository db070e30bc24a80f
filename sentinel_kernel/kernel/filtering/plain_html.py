"""HTML that is plainly harmless, told without a parser: it passes byte for byte, as tables of pandas do.

Every ``<`` begins a tag that is spelled out here, with attributes in double quotes. None of these elements changes
how the text behind it is read (HTML, "Tokenization"), so that all see the same tags.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sentinel_kernel.kernel.filtering import css

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_TAGS = 2000
"""How many different tags are looked at; harmless documents repeat few."""

_PIECE = 256 * 1024

_TAGS = re.compile(r"<[^<>]*>?")
_END = re.compile(
    r"</(?:a|b|blockquote|br|center|code|dd|div|dl|dt|em|font|h[1-6]|i|li|ol|p|pre|s|small|span|strong|sub|sup|"
    r"table|tbody|td|tfoot|th|thead|tr|u|ul)>"
)
_START = re.compile(
    r"<(?:b|blockquote|br|caption|center|code|dd|div|dl|dt|em|font|h[1-6]|hr|i|li|ol|p|pre|s|small|span|strong|sub|sup|"
    r"table|tbody|td|tfoot|th|thead|tr|u|ul)"
    r"((?:[ \t\n\f\r]+(?:align|valign|border|class|color|colspan|rowspan|scope|style|title|width|height)="
    r"\"[^\"<>&]*\")*)[ \t\n\f\r]*/?>"
)
_ATTRIBUTE = re.compile(r"(class|style)=\"([^\"]*)\"")
_PAGE_CLASS = re.compile(r"(?:^|\s)(?:jp-|lm-|p-|sentinel|notebook|cm-|bp\d?-)", re.IGNORECASE)
_ALIGNMENTS = re.compile(
    r"<style scoped>\s*(?:\.dataframe [a-z :-]+\{\s*(?:(?:vertical|text)-align: [a-z]+;\s*)+\}\s*)+</style>"
)
"""What pandas puts before each table (pandas, io/formats/html.py): alignments within tables of its own class."""

_ANY_TAG = r'</?[a-zA-Z](?:[^<>"]++|"[^"]*+")*>'
_ELEMENT = re.compile(_ANY_TAG)
_STRETCH = re.compile(rf"(?:[^<]++|{_ANY_TAG}|<){{1,4096}}")
_OUTSIDE_CELLS = re.compile(
    r"<(?:table|/?(?:tbody|thead|tfoot|tr|colgroup)|col|/(?:td|th|caption))(?=[\s/>])"
    r'(?:[^<>"]++|"[^"]*+")*>[ \t\n\f\r]*+'
    r"(?!</?(?:table|tbody|thead|tfoot|tr|td|th|caption|colgroup|col)[\s/>]|\Z)"
)
"""A tag behind which a table has no text of its own, and something else than the next such tag behind it."""

TAG_MARK = "\0"
"""No page shows this character (HTML, "Tokenization"), and no text has it any more where tags are marked."""

_REPLACEMENT = "\ufffd"
"""What browsers show in its place where they show anything."""


def without_mark(text: str) -> str:
    """Return ``text`` with another character for each :data:`TAG_MARK`.

    Never with none: what stood on both sides was judged and measured apart, and must not be one word behind that.
    """
    return text.replace(TAG_MARK, _REPLACEMENT)


def is_plain(html: str) -> bool:
    """Tell whether ``html`` has nothing but text, tables and the like."""
    if "<style" in html:
        html = _ALIGNMENTS.sub(TAG_MARK, html)  # no tag has one: what stands on both sides makes none
    known = set[str]()
    for piece in _pieces(html):
        tags = set(_TAGS.findall(piece)) - known
        known |= tags
        if len(known) > _MOST_TAGS or not all(map(_is_plain_tag, tags)):
            return False
    return True


def marked_text(html: str) -> str:
    """Return the text of ``html``, in which each tag is whole, with :data:`TAG_MARK` where tags are.

    Which of them part the text and which a page leaves out (``</b>`` without a ``<b>``) is not told here. Attributes
    may hold ``<`` and ``>``, as browsers and sanitizers write them.
    """
    if "<style" in html:
        html = _ALIGNMENTS.sub(TAG_MARK, html)
    return "".join(_ELEMENT.sub(TAG_MARK, piece[0]) for piece in _STRETCH.finditer(html))


def has_text_outside_cells(html: str) -> bool:
    """Tell whether a page may show text of ``html`` elsewhere than it stands (HTML, "foster parented").

    Text that stands in a table, and in no cell of it, is moved before the table, and joins what is there.
    """
    return _OUTSIDE_CELLS.search(html) is not None


def _pieces(html: str) -> Iterator[str]:
    """Yield ``html`` in pieces, each up to a tag's beginning: a list of all tags is many times as long as the text."""
    position = 0
    while position < len(html):
        end = html.find("<", position + _PIECE)
        end = end if end > 0 else len(html)
        yield html[position:end]
        position = end


def _is_plain_tag(tag: str) -> bool:
    return _is_brief_plain_tag(tag) if len(tag) <= css.MOST_REMEMBERED else _judged(tag)


def _judged(tag: str) -> bool:
    if _END.fullmatch(tag) is not None:
        return True
    start = _START.fullmatch(tag)
    if start is None:
        return False
    for name, value in _ATTRIBUTE.findall(start[1]):
        if name == "class" and is_page_class(value):
            return False
        # The style passes as it is, and is judged without its comments.
        if name == "style" and (css.COMMENT in value or css.declarations(value)[1:] != (False, False)):
            return False
    return True


_is_brief_plain_tag = lru_cache(maxsize=1024)(_judged)


def is_page_class(value: str) -> bool:
    """Tell whether a class is one of the page's own, which would look or act like a part of it."""
    return _PAGE_CLASS.search(value) is not None
