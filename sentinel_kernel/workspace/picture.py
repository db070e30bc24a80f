"""What kind of picture some bytes are and how large it is drawn, from its first bytes: nothing is decoded."""

from __future__ import annotations

from sentinel_kernel.record import Record

MOST_BYTES = 512 * 1024
"""A larger picture is not shown: it would stand in the notebook, as text a third longer."""

MOST_PIXELS = 24_000_000
"""A small file can claim any size; a browser takes four bytes a pixel."""

_PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_GIF = (b"GIF87a", b"GIF89a")
_JPEG = b"\xff\xd8\xff"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that tell the size (ITU T.81, table B.1)."""


class Picture(Record):
    """A picture as its header says: its MIME type, and its width and height in pixels."""

    mime: str
    width: int
    height: int

    @property
    def drawable(self) -> bool:
        """Whether a browser can be asked to draw it."""
        return 0 < self.width * self.height <= MOST_PIXELS


def read_picture(data: bytes) -> Picture | None:
    """Return what ``data`` begins, None where it is no PNG, JPEG, GIF or WebP."""
    if data.startswith(_PNG):
        return Picture("image/png", _big(data, 16, 4), _big(data, 20, 4))
    if data[:6] in _GIF:
        return Picture("image/gif", _little(data, 6, 2), _little(data, 8, 2))
    if data.startswith(_JPEG):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _jpeg(data: bytes) -> Picture | None:
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker in _FRAMES:
            return Picture("image/jpeg", _big(data, place + 7, 2), _big(data, place + 5, 2))
        place += 2 + max(2, _big(data, place + 2, 2))
    return None


def _webp(data: bytes) -> Picture | None:
    kind = data[12:16]
    if kind == b"VP8X":
        return Picture("image/webp", 1 + _little(data, 24, 3), 1 + _little(data, 27, 3))
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return Picture("image/webp", _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF)
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        bits = _little(data, 21, 4)
        return Picture("image/webp", 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    return None


def _big(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "big")


def _little(data: bytes, place: int, size: int) -> int:
    return int.from_bytes(data[place : place + size], "little")
