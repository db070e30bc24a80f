"""Inputs that are nearly right: what is right, with a few edits; by chance or as Hypothesis draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

PIECES = (
    *(
        b"null",
        b"true",
        b"1e999",
        b"-1",
        b"{}",
        b"[]",
        b'""',
        b'"',
        b"\\ud800",
        b"\\u0000",
        b"\0",
        b"\n",
        b"\xff",
    ),
    *(b"9" * 400, b'{"a":' * 60, b"[" * 300, b"\x1b[31m", b"=1", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"),
    *(b"]]", b"}}", b'{"a":1,"a":2}', b"%00", b"\r\n", b": ", b"File", b"most recent call first"),
)
KINDS = 4


def edited(data: bytes, kind: int, place: int, piece: bytes) -> bytes:
    """Return ``data`` with one edit: a byte, a piece put in, a piece cut out, or a piece said twice."""
    at = place % (len(data) + 1)
    if kind == 0:
        return data[:at] + piece[:1] + data[at + 1 :]
    if kind == 1:
        return data[:at] + piece + data[at:]
    if kind == 2:
        return data[:at] + data[at + 1 + len(piece) :]
    return data[:at] + data[at : at + 40] + data[at:]


def by_chance(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return an input: mostly a right one with up to five edits, else random bytes."""
    if not seeds or chance.random() < 0.1:
        return chance.randbytes(chance.randrange(200))
    data = chance.choice(seeds)
    for _ in range(chance.randrange(6)):
        piece = chance.choice(PIECES) if chance.random() < 0.7 else chance.randbytes(chance.randrange(1, 5))
        data = edited(data, chance.randrange(KINDS), chance.randrange(1 << 16), piece)
    return data


@st.composite
def nearly(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """Draw an input as :func:`by_chance` makes it."""
    data = draw(st.sampled_from(seeds)) if seeds else b""
    edits = st.tuples(
        st.integers(0, KINDS - 1),
        st.integers(0, 1 << 16),
        st.sampled_from(PIECES) | st.binary(min_size=1, max_size=5),
    )
    for kind, place, piece in draw(st.lists(edits, max_size=5)):
        data = edited(data, kind, place, piece)
    return data


def inputs(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return what a target is given."""
    return nearly(seeds) | st.binary(max_size=300)
