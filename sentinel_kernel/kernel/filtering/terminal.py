"""Text for terminals and pages: colours stay, all other escapes and controls go.

Escapes move the cursor over what the host has said, set titles, write the clipboard (OSC 52) and make links whose text
is another address (OSC 8). A carriage return and a backspace stay: progress bars need them; so do NUL and NEL, which
move nothing that a line feed does not.
"""

from __future__ import annotations

import re

_ESCAPE = (
    r"[\x01-\x07\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"  # first, so that the search skips all else
    r"(?:(?<=\x1b)(?!\[[0-9;:]{0,64}+m)(?:"  # not a colour
    r"[\]PX^_][^\x00-\x1f\x7f-\x9f]{0,4096}+(?:\x1b\\|[\x07\x9c])"  # OSC, DCS, SOS, PM, APC
    r"|\[[0-9:;<=>?]{0,64}+[ -/]{0,8}+[@-~]?"  # CSI
    r"|[ -/]{0,8}+[0-Z\\^-~]?)"
    r"|(?<=[\x90\x98\x9d-\x9f])[^\x00-\x1f\x7f-\x9f]{0,4096}+(?:\x1b\\|[\x07\x9c])"
    r"|(?<=\x9b)[0-9:;<=>?]{0,64}+[ -/]{0,8}+[@-~]?"
    r"|(?<!\x1b))"
)
_UNWANTED = re.compile(rf"{_ESCAPE}(?:{_ESCAPE}){{0,1000}}+")
"""Escapes that go, as many as stand together: none is an object of its own, and a colour is not even found."""

_CONTROLS = re.compile(r"[\x01-\x07\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_ASCII_CONTROLS = bytes([*range(1, 8), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])
_WRITES_OVER = re.compile(r"\r(?!\n)|\x08")
_BIDI = re.compile(r"[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029]")
_MARKS = re.compile(
    r"([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)


def controls(text: str) -> int:
    """Return how many controls ``text`` has: each may be an escape, and takes its time."""
    if _CONTROLS.search(text) is None:
        return 0
    data = text.encode("utf-8", "replace")
    found = len(data) - len(data.translate(None, _ASCII_CONTROLS))
    return found if text.isascii() else found + data.count(b"\xc2") - data.count(b"\xc2\xa0")


def plain(text: str) -> str:
    """Return ``text`` with its colours and without other escapes."""
    if _CONTROLS.search(text) is None:
        return text
    return _UNWANTED.sub("", text)


def line(text: str) -> str:
    """Return ``text`` for a prompt: also without what turns the direction of writing, or covers other lines.

    Nor does it write over what stands in front of it: a prompt is no progress bar.
    """
    return _MARKS.sub(r"\1", _BIDI.sub("", _WRITES_OVER.sub("", plain(text))))
