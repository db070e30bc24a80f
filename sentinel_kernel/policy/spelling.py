"""Which known name a person meant who typed one that is not known."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def closest(typed: str, known: Iterable[str]) -> str:
    """Return the one of the ``known`` names that is near enough to be meant, or ""."""
    import difflib  # noqa: PLC0415 - only for somebody who mistyped

    return next(iter(difflib.get_close_matches(typed, list(known), 1, 0.7)), "")
