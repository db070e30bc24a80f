"""Turns bytes and text from the sandbox into text to show: bounded, on one line, without controls."""

from __future__ import annotations

from sentinel_kernel.policy.unseen import with_escapes

MAXIMUM_CHARACTERS = 200


def shown(raw: bytes | str, maximum: int = MAXIMUM_CHARACTERS) -> str:
    """Return ``raw`` cut to ``maximum`` characters, with everything that can't be seen as an escape."""
    # No character is shorter than its bytes, so what is cut here would not have been shown.
    text = (
        raw[: maximum * 4].decode("utf-8", "backslashreplace")
        if isinstance(raw, bytes)
        else raw[: maximum + 1]
    )
    text = with_escapes(text[: maximum + 1])
    return text if len(text) <= maximum else text[: maximum - 1] + "…"
