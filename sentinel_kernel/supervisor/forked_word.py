"""What a forked process of the supervisor's own says: read so that a packet that is cut, or is none, ends nobody."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_word(packet: bytes, most: int) -> dict[str, Any] | None:
    """Return the JSON object that ``packet`` is; None where it fills ``most`` bytes (it was cut) or is no object.

    Who says such a thing is broken, and counts as gone: what it meant is not known.
    """
    if not packet or len(packet) >= most:
        return None
    try:
        word = json.loads(packet)
    except (ValueError, RecursionError):
        return None
    return word if isinstance(word, dict) else None
