"""Texts of widgets that a page may typeset: they stay, without the LaTeX that makes links, styles and names."""

from __future__ import annotations

import re
from typing import Any

from sentinel_kernel.kernel.filtering import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.kernel.filtering.work import Work

_MATHEMATICS = re.compile(r"\$|\\(?:[(\[]|begin\b)")
"""Where one of these is, a page looks for LaTeX."""


def label(value: str, kinds: set[str], work: Work) -> str:
    """Return what stands for a text that a page may typeset: LaTeX that makes no links and styles."""
    if "\\" not in value or _MATHEMATICS.search(value) is None:
        return value
    if not work.takes("text/latex", value):
        kinds.add(held.TOO_LONG)
        return ""
    from sentinel_kernel.kernel.filtering import markdown  # noqa: PLC0415 - when it is first needed

    return markdown.latex(value)


def part_commands(value: Any, seen: Any, work: Work, *, foreign: bool) -> bool:  # noqa: ANN401 - what JSON holds
    """Part the commands that come of texts of which a page makes one; tell whether there may be any.

    A page puts commas between them (ECMAScript, Array.prototype.toString).
    """
    from sentinel_kernel.kernel.filtering import markdown  # noqa: PLC0415 - when it is first needed

    found = list(_texts(value, seen))
    whole = ",".join([holder[place] for holder, place in found])
    if not foreign and _MATHEMATICS.search(whole) is None:
        return False
    if work.takes("text/markdown" if foreign else "text/latex", whole):
        made = markdown.latex_in_html(whole) if foreign else markdown.latex(whole)
        if made == whole:
            return False
    for holder, place in found:
        holder[place] = markdown.without_commands(holder[place])
    return True


def _texts(value: Any, seen: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - what JSON holds
    """Yield what holds each text within a value, and where, in their order."""
    waiting = [(value, iter(value.items() if isinstance(value, dict) else enumerate(value)))]
    while waiting:
        current, places = waiting[-1]
        for place, inner in places:
            if isinstance(inner, str):
                yield current, place
            elif isinstance(inner, seen):
                waiting.append((inner, iter(inner.items() if isinstance(inner, dict) else enumerate(inner))))
                break
        else:
            waiting.pop()
