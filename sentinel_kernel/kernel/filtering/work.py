"""How much of the host's time and memory one message's texts may take to be filtered; what takes more is held back.

The host has one thread, which also interrupts and stops. Times are those of an ordinary machine for the worst text that
has so many characters and marks (tests/unit/kernel/filtering/test_work.py drives each), and memory goes with them: a
mark that a filter stops at costs some hundred bytes, where a character that it passes over costs some.
"""

from __future__ import annotations

from sentinel_kernel.kernel.filtering import terminal

MOST_NANOSECONDS = 1_000_000_000
MOST_CHARACTERS = 32 * 1024 * 1024
"""Of texts that are rewritten, in a message; a copy or two of each are kept."""

MOST_CLEANED = 2 * 1024 * 1024
"""Characters of HTML that are cleaned for the page; longer ones go into a frame, which costs a copy alone."""

_Mark = tuple[str, int, int, int]
"""What a filter stops at, its nanoseconds there, how many characters it may look at from there, nanoseconds for each.
"""

_LATEX: _Mark = ("\\", 1000, 350, 80)
_MARKDOWN: tuple[_Mark, ...] = (
    _LATEX,
    ("<", 2000, 2000, 15),
    ("![", 1500, 700, 150),
    (":", 1000, 0, 0),
    ("&", 150, 0, 0),
    ("```", 700, 1000, 1000),
    ("~~~", 700, 1000, 1000),
)
_HTML: tuple[_Mark, ...] = (
    ("<", 250, 2000, 6),
    ("\\", 400, 350, 10),
    ("&", 300, 0, 0),
    ("&#", 1000, 0, 0),
    ("&bsol;", 1000, 0, 0),
)
_CLEANING = 100_000
"""However short a text is that is cleaned: the cleaner is made anew for each (nh3)."""

_MARKS: dict[str, tuple[int, int, tuple[_Mark, ...]]] = {
    "text/markdown": (15_000, 8, _MARKDOWN),
    "text/html": (_CLEANING, 8, _HTML),
    "text/latex": (8_000, 4, (_LATEX,)),
    "image/svg+xml": (20_000, 40, (("<", 1500, 0, 0), ("=", 1000, 0, 0), ("{", 1500, 0, 0))),
    "text/vnd.mermaid": (8_000, 120, ()),
    "application/json": (8_000, 60, ()),
}
"""By MIME type (the last: a text within JSON): nanoseconds for a text, for each of its characters, and marks."""

_CLEANED = 150

_CONTROL = 500

_TAG, _READ = 1000, 30
"""Of a chart's text: for each mark of a tag and once, and for each character."""


class Work:
    """What is left for one message."""

    def __init__(self) -> None:
        self._nanoseconds, self._characters = MOST_NANOSECONDS, MOST_CHARACTERS

    def takes(self, kind: str, text: str) -> bool:
        """Tell whether ``text`` of a MIME type may be filtered too; it is counted then. Others than known are texts."""
        if kind not in _MARKS:
            return self.takes_text(text)
        once_a_text, each, marks = _MARKS[kind]
        brief = kind == "text/html" and len(text) <= MOST_CLEANED
        cost = once_a_text + (_CLEANED if brief else each) * len(text)
        for mark, once, reach, beyond in marks:
            found = text.count(mark)
            cost += found * once + min(found * reach, len(text)) * beyond
        return self._spend(cost, len(text))

    def takes_cleaning(self) -> bool:
        """Tell whether a text that was counted as another's may be cleaned as HTML, too."""
        return self._spend(_CLEANING, 0)

    def takes_text(self, text: str) -> bool:
        """Tell whether a text for terminals may be filtered too: without controls it costs nothing."""
        found = terminal.controls(text)
        return not found or self._spend(found * _CONTROL, 0)

    def takes_tags(self, text: str) -> bool:
        """Tell whether the tags of a chart's text may be looked at too; it is counted then."""
        return self._spend((text.count("<") + 1) * _TAG + len(text) * _READ, len(text))

    def _spend(self, nanoseconds: int, characters: int) -> bool:
        if nanoseconds > self._nanoseconds or characters > self._characters:
            return False
        self._nanoseconds -= nanoseconds
        self._characters -= characters
        return True
