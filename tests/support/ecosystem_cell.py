"""One entry of the ecosystem's list: cells to run one after another, and what their last lines must print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """Cells of one notebook.

    ``prints`` is what all of them print together, as a regular expression. ``answers`` go to what asks for
    input, in order. ``needs`` are modules without which it is left out; ``strict`` is a part of what `strict`
    says where it refuses (empty: it works there as well).
    """

    name: str
    sources: tuple[str, ...]
    prints: str
    answers: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    strict: str = ""


def entry(
    name: str,
    *sources: str,
    prints: str,
    answers: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    strict: str = "",
) -> Entry:
    """Return the entry ``name`` with its cells, whose first and last line breaks are layout."""
    return Entry(name, tuple(source.strip("\n") for source in sources), prints, answers, needs, strict)
