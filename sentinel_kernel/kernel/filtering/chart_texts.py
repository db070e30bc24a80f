"""Texts of a Plotly chart: tags that plotly.js makes elements of are spelled as here, or are none any more.

plotly.js (lib/svg_text_utils.js) finds its few tags in texts that it has joined, filled in and formatted before,
resolves some references, and sets styles and links. None of that is done here: a ``<`` stays where it begins a tag that
is spelled out here, or where no tag can come of it whatever follows. Elsewhere a character of no width stands behind
it, as in Markdown's, so that what is joined with it is no tag either.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import held

if TYPE_CHECKING:
    from sentinel_kernel.kernel.filtering.work import Work

_BREAK = "\u200b"
_NAMES = "sup|sub|span|s|u|br|b|i|em|a"
_COLOURS = "|".join(rf"(?<=[\s:;,]{one})" for one in ("rgb", "rgba", "hsl", "hsla"))
_STYLE = rf"(?:[\w\s#.,%:;!+-]++|(?:{_COLOURS})\([\d ,.%/+-]*+\))*+"
"""No quotes, references, escapes or comments: all readers see the same, in which only colours have brackets."""

_LINK = r"(?:https?://|mailto:)[\w.~:/?#\[\]@!$&()*+,;=%-]*+"
"""No spaces and quotes, behind which plotly.js looks for attributes, nor ``{``, by which templates are filled."""

_OTHER = r"[\w .:,-]*+"


def _quoted(value: str) -> str:
    return f"(?:\"{value}\"|'{value}')"


_ATTRIBUTES = (
    rf"(?:[ \n]++(?:style={_quoted(_STYLE)}|href={_quoted(_LINK)}|target={_quoted('_blank')}"
    rf"|(?:class|rel|title)={_quoted(_OTHER)}))*+"
)
_TAG = rf"(?:/(?:{_NAMES}|extra)|extra|br[ ]?/?|(?:{_NAMES}){_ATTRIBUTES}[ ]?)>"
_NONE = rf"[0-9{_BREAK}]|[ ]++[^\s\ufeff]"
"""Behind ``<``: a name of a tag does not begin so, and neither formats nor joining take it away."""

_STRAY = re.compile(rf"<(?!{_TAG}|{_NONE})(?:(/?(?:{_NAMES}))(?=[ \r\n>])[^<>]*+>)?", re.IGNORECASE)
_AT_MOST = "<="
"""What a constraint of a contour plot is, and the beginning of no tag."""


def clean(figure: dict[str, Any], work: Work) -> tuple[bool, set[str]]:
    """Make the texts of a figure harmless in place; tell whether any was changed, and what was held back.

    Where that is :data:`held.TOO_LONG`, not all of the figure was looked at, and it must not be shown.
    """
    changed, kinds = False, set[str]()
    waiting: list[Any] = [figure]
    while waiting:
        value = waiting.pop()
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        tagged = [(key, one) for key, one in pairs if type(one) is str and "<" in one and one != _AT_MOST]
        for key, text in tagged:
            if not work.takes_tags(text):
                return changed, {held.TOO_LONG}
            made = _AT_MOST if text == "<" and _is_constraint(value, key) else _cleaned(text, kinds)
            if made != text:
                value[key] = made
                changed = True
        waiting.extend(
            one
            for one in (value.values() if isinstance(value, dict) else value)
            if isinstance(one, dict | list)
        )
    return changed, kinds


def _cleaned(text: str, kinds: set[str]) -> str:
    def harmless(found: re.Match[str]) -> str:
        if found[1] is None:
            return f"<{_BREAK}"  # looks the same: nothing to tell of
        kinds.add(held.ACTIVE)
        return f"<{found[1]}>"

    return _STRAY.sub(harmless, text)


def _is_constraint(value: dict[str, Any] | list[Any], key: object) -> bool:
    """Tell whether a text is a constraint of a contour plot, for which ``<`` and ``<=`` mean the same."""
    return isinstance(value, dict) and (
        key == "contours.operation" or (key == "operation" and value.get("type") == "constraint")
    )
