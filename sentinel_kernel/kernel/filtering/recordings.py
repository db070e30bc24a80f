"""Whether what a page is to play is a recording, by its first bytes, and not a list of where others are.

Browsers take what begins as a playlist (#EXTM3U) for one whatever its type and name say, and load what it names, from
any host: HTTP Live Streaming, RFC 8216. Frames are not asked, their own rules hold for what is played in them.
"""

from __future__ import annotations

import base64
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.kernel.wire import Part

_HEAD_BYTES = 16
_RECORDING = re.compile(
    rb"RIFF.{4}(?:WAVE|AVI )|FORM.{4}AIF[FC]|OggS|fLaC|ID3|\.snd|caff|FLV\x01|#!AMR|\x1aE\xdf\xa3|\0\0\x01[\xba\xb3]"
    rb"|\xff[\xe0-\xff]|.{4}(?:ftyp|moov|mdat|free|skip|wide)",
    re.DOTALL,
)
"""What containers begin with: RIFF, AIFF, Ogg, FLAC, MP3, AU, CAF, FLV, AMR, Matroska, MPEG, and those of ISO 14496-12.
"""

_DATA = re.compile(
    r"data:(?:audio|video)/[a-z0-9.+-]+(?:;[a-z0-9=.+\"-]*)*;base64,([A-Za-z0-9+/]{12,24})", re.IGNORECASE
)
_PLAYS = re.compile(r"(?:Audio|Video)", re.IGNORECASE)


def is_recording(data: Part) -> bool:
    """Tell whether bytes begin as a recording does; none at all play nothing."""
    return len(data) == 0 or _RECORDING.match(bytes(memoryview(data)[:_HEAD_BYTES])) is not None


def is_embedded(address: str) -> bool:
    """Tell whether an address is a recording's own bytes."""
    found = _DATA.match(address)
    return found is not None and _is_text_of_one(found[1])


def is_text_of_one(text: str) -> bool:
    """Tell whether base64, as MIME bundles hold it, is that of a recording."""
    return _is_text_of_one(re.sub(r"\s+", "", text[: 4 * _HEAD_BYTES])[:24])


def _is_text_of_one(text: str) -> bool:
    try:
        return is_recording(base64.b64decode(text[: len(text) // 4 * 4], validate=True))
    except ValueError:
        return False


def plays(names: Iterable[object]) -> bool:
    """Tell whether a widget's model or view of one of these names may play what its state holds."""
    return any(isinstance(name, str) and _PLAYS.search(name) for name in names)
