"""Text from the sandbox for an assistant: bounded with a count of what was left out, without hidden characters."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from sentinel_kernel.policy.unseen import is_seen, with_escapes

_CONTROL_SEQUENCE = re.compile(
    # ECMA-48: control sequences such as colours, and strings (OSC, DCS, SOS, PM, APC) with their ends.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
_KEPT = "\n\t"
_DEEP = 40
_LONGEST_KEY = 200


def cleaned(text: str) -> str:
    """Return ``text`` as a person would read it: no terminal sequences, every character that can't be seen escaped.

    Lines that a carriage return writes over show what was written last, as a progress bar does.
    """
    if is_seen(text):
        return text
    plain = _CONTROL_SEQUENCE.sub("", text)
    if "\r" in plain:
        lines = plain.replace("\r\n", "\n").split("\n")
        plain = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return with_escapes(plain, _KEPT)


def clean_json(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with every text in it cleaned; what lies too deep is left out."""
    if isinstance(value, str):
        return cleaned(value)
    if depth > _DEEP:
        return None
    if isinstance(value, dict):
        return {cleaned(str(key)[:_LONGEST_KEY]): clean_json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item, depth + 1) for item in value]
    return value


class Excerpt:
    """The beginning and the end of a text that comes in pieces, at most ``most`` characters in all."""

    def __init__(self, most: int) -> None:
        self._head_room = most - most // 3
        self._tail_room = most // 3
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self.length = 0
        """How many characters came."""

    def add(self, piece: str) -> None:
        """Take the next piece."""
        self.length += len(piece)
        if self._head_room:
            taken = piece[: self._head_room]
            self._head.append(taken)
            self._head_room -= len(taken)
            piece = piece[len(taken) :]
        piece = piece[-self._tail_room :] if self._tail_room else ""
        if not piece:
            return
        self._tail.append(piece)
        self._tail_length += len(piece)
        while self._tail_length - len(self._tail[0]) >= self._tail_room:
            self._tail_length -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """How many characters in the middle are left out."""
        tail = min(self._tail_length, self._tail_room)
        return self.length - sum(map(len, self._head)) - tail

    def text(self) -> str:
        """Return what was kept, cleaned, with a mark where something is left out."""
        head = "".join(self._head)
        tail = "".join(self._tail)[-self._tail_room :] if self._tail_room else ""
        if self.left_out:
            return f"{cleaned(head)}\n[... {self.left_out} characters left out ...]\n{cleaned(tail)}"
        return cleaned(head + tail)


def shortened(text: str, most: int) -> tuple[str, int]:
    """Return ``text`` cleaned, its middle left out where it is longer than ``most``, and how much was left out."""
    excerpt = Excerpt(most)
    excerpt.add(text)
    return excerpt.text(), excerpt.left_out
