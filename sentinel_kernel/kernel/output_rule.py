"""What the worker may not put into an output: scripts, and anything that passes for the host's own word.

JupyterLab runs `application/javascript` outputs with the person's login, so they never leave here. Every
message is read as JSON: what a client could not read is not sent to one (13 us for 5 kB; 0.9 ms for a picture of
1 MB; 15 ms for numbers by the megabyte). Long ones are searched as bytes first: a walk through all values takes
as long again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import ProtocolError, TooLargeError
from sentinel_kernel.kernel.well_formed import METADATA_BYTES, check_content, read
from sentinel_kernel.kernel.wire import METADATA, encode
from sentinel_kernel.policy import mime
from sentinel_kernel.record import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sentinel_kernel.kernel.filtering.messages import Filtered
    from sentinel_kernel.kernel.wire import Json, Part

VIOLATION_TYPE = mime.VIOLATION_TYPE
NOTICE_TYPE = mime.NOTICE_TYPE

TOO_LONG = "too-long"
"""As filtering/held.py calls what is more than can be looked through."""

OUTPUT_BYTES = 512 * 1024 * 1024

BUNDLES = frozenset({"display_data", "execute_result", "update_display_data"})
"""Messages whose content is one MIME bundle."""

_FLAT = {"stream": 2, "status": 1}
"""Messages that are so many texts, where they are as they should be: there is nowhere to hide in."""

_ALWAYS_SEARCHED_BYTES = 64 * 1024
_SUSPECT = (b"script", b"sentinel", b"\\u", b"\\/", b"\0")
"""What a long message must not contain to pass without a search: a held-back type has one of the words in it, or hides
letters behind the only two escapes that can, or is not UTF-8."""

_SCRIPT = re.compile(r"\s*(application|text)/(x-)?(java|ecma|j|live)script", re.IGNORECASE)
_RESERVED = re.compile(r"\s*application/(vnd|x)[.-]sentinel", re.IGNORECASE)


class Judged(Record):
    """What became of a content: as it was (``content`` None), changed, or not to be forwarded at all."""

    content: Json | None = None
    drop: bool = False
    script: bool = False
    reserved: bool = False
    malformed: bool = False
    kinds: frozenset[str] = frozenset()
    """What the output filter held back (filtering/held.py)."""


UNTOUCHED = Judged()


def judge(
    msg_type: str,
    content: Part,
    host_display_ids: Collection[str],
    output_filter: Callable[[str, Part, Json], Filtered | None] = lambda *_message: None,
) -> Judged:
    """Judge one message's content. Total: whatever clients cannot read safely is dropped.

    Types that nobody may use are removed here; what the others hold is the ``output_filter``'s to judge.
    """
    is_bundle = msg_type in BUNDLES
    try:
        value = read(content, OUTPUT_BYTES)
        check_content(msg_type, value)
    except TooLargeError:
        return Judged(drop=True, kinds=frozenset({TOO_LONG}))
    except ProtocolError:
        return Judged(drop=True, malformed=True)
    long = len(content) > _ALWAYS_SEARCHED_BYTES
    found = _Found()
    if is_bundle and _display_id(value) in host_display_ids:
        return Judged(drop=True, reserved=True)
    # Nothing is left out of what clients render no bundle of: some keep all that a message says.
    if len(value) != _FLAT.get(msg_type) and (
        not long or suspect(content, host_display_ids if is_bundle else ())
    ):
        # Bundles lie deeper too: in the state of an Output widget, in user expressions, in a pager's payload.
        found.search(value)
    filtered = output_filter(msg_type, content, value)
    changed = found.script or found.reserved or (filtered is not None and filtered.changed)
    kinds = frozenset() if filtered is None else filtered.kinds
    drop = filtered is not None and filtered.drop
    if not changed and not drop:
        return Judged(kinds=kinds) if kinds else UNTOUCHED
    drop = drop or (is_bundle and not value.get("data"))
    return Judged(None if drop else value, drop, found.script, found.reserved, kinds=kinds)


def judge_metadata(judged: Judged, parts: list[Part]) -> Judged:
    """Judge a message's own metadata, and change it in ``parts`` where it names what is the host's.

    ``judged`` is what was found in its content; a message whose metadata clients can't read is dropped.
    """
    raw = parts[METADATA]
    if judged.drop or raw == b"{}":
        return judged
    try:
        value = read(raw, METADATA_BYTES)
        if not suspect(raw, ()):
            return judged
        found = _Found()
        found.search(value)
        if not found.reserved and not found.script:
            return judged
        parts[METADATA] = encode(value)
    except ProtocolError:
        return Judged(drop=True, malformed=True)
    return replace(judged, script=judged.script or found.script, reserved=judged.reserved or found.reserved)


def suspect(content: Part, host_display_ids: Collection[str]) -> bool:
    """Tell whether the bytes may hold what is held back, however it is written."""
    lowered = bytes(content).lower()
    if any(word in lowered for word in _SUSPECT):
        return True
    return any(display_id.encode("ascii") in lowered for display_id in host_display_ids)


def _display_id(content: Json) -> str:
    transient = content.get("transient")
    display_id = transient.get("display_id") if isinstance(transient, dict) else None
    return display_id if isinstance(display_id, str) else ""


class _Found:
    """Removes what is held back from JSON values, and remembers of which kind it was."""

    def __init__(self) -> None:
        self.script = self.reserved = False

    def search(self, value: object) -> None:
        """Remove from ``value`` and all that it holds (iteratively: the worker chooses the depth)."""
        waiting: list[Any] = [value]
        while waiting:
            current = waiting.pop()
            if isinstance(current, dict):
                self.remove_from(current)
                waiting.extend(inner for inner in current.values() if isinstance(inner, dict | list))
            elif isinstance(current, list):
                waiting.extend(inner for inner in current if isinstance(inner, dict | list))

    def remove_from(self, bundle: dict[str, Any]) -> None:
        """Remove the keys that are held back from one object."""
        for key in [key for key in bundle if _SCRIPT.match(key) or _RESERVED.match(key)]:
            if _RESERVED.match(key):
                self.reserved = True
            else:
                self.script = True
            del bundle[key]
