"""Texts of unknown make within an answer's bounds: read where they are text at all, and cut by what they cost."""

from __future__ import annotations

import json

from sentinel_kernel.workspace.line_changes import hunks, line_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.workspace.line_changes import Edit

LINE_CHARACTERS = 300
_LOOKED_AT = 8192


class Budget:
    """How many bytes an answer's texts may still take, as they are sent."""

    def __init__(self, size_bytes: int, lines: int) -> None:
        self.left = size_bytes
        self.lines = lines
        self.cut = False
        """Something did not fit."""

    def take(self, text: str, maximum: int = LINE_CHARACTERS) -> str | None:
        """Return ``text`` cut to ``maximum`` characters, None where there is no room for it any more."""
        shown = text if len(text) <= maximum else text[: maximum - 1] + "…"
        cost = len(json.dumps(shown)) + 1
        if cost > self.left or self.lines <= 0:
            self.cut = True
            return None
        self.left -= cost
        self.lines -= 1
        return shown


def decoded(data: bytes) -> str | None:
    """Return the text that ``data`` is, None where it is none."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            return None
    if b"\0" in data[:_LOOKED_AT]:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass  # an older encoding, or no text: told by how much of it can be printed
    text = data.decode("latin-1")
    head = text[:_LOOKED_AT]
    printed = sum(character.isprintable() or character in "\n\r\t\f" for character in head)
    return text if printed >= 0.95 * len(head) else None


def unified(old: str, new: str, budget: Budget) -> tuple[list[str], int, int]:
    """Return the lines of a unified diff, with how many lines were put in and taken out in all."""
    old_lines, new_lines = _lines(old), _lines(new)
    steps = line_changes(old_lines, new_lines)
    added = sum(step[0] == "+" for step in steps)
    removed = sum(step[0] == "-" for step in steps)
    shown: list[str] = []
    for hunk in hunks(steps):
        if budget.take("@" * 30) is None:
            break
        shown.append(f"@@ -{_span(hunk, '+', 0)} +{_span(hunk, '-', 1)} @@")
        for kind, left, right in hunk:
            line = budget.take(kind + (new_lines[right] if kind == "+" else old_lines[left]))
            if line is None:
                break
            shown.append(line)
        if budget.cut:
            break
    return shown, added, removed


def _span(hunk: Sequence[Edit], other: str, side: int) -> str:
    """Return where a hunk begins on one side, and how many lines it has there: ``diff -u`` leaves out a one."""
    places = [(step[1], step[2])[side] for step in hunk if step[0] != other]
    if not places:
        return f"{(hunk[0][1], hunk[0][2])[side]},0"
    return f"{places[0] + 1}" if len(places) == 1 else f"{places[0] + 1},{len(places)}"


def _lines(text: str) -> Sequence[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines
