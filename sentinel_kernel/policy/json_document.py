"""Strict reading of JSON documents that people write: every fault is an error that names its place."""

from __future__ import annotations

import json

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.spelling import closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

MAXIMUM_BYTES = 1 << 20
_SHOWN = 60


class _DuplicateKey(ValueError):
    """A key that an object has twice; json itself would silently keep the last."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(key)
            seen.add(key)
    return result


def _no_constant(name: str) -> object:
    what = f"{name} is not JSON"
    raise ValueError(what)


def parse(text: bytes | str, error: type[ProfileError] = ProfileError) -> dict[str, Any]:
    """Return the JSON object in ``text``.

    Raises:
        ProfileError: (or ``error``) it is not UTF-8, not JSON, no object, too long, or has a key twice.

    """
    if len(text) > MAXIMUM_BYTES:
        raise error(f"The file is longer than {MAXIMUM_BYTES} bytes.", "$", "Split it with 'extends'.")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        document = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except _DuplicateKey as fault:
        key = str(fault)[:_SHOWN]
        raise error(
            f"The key {key!r} is there twice in one object.", f"$..{key}", "Keep one of them."
        ) from None
    except UnicodeDecodeError as fault:
        raise error(f"The file is not UTF-8 (byte {fault.start}).", "$", "Save it as UTF-8.") from None
    except json.JSONDecodeError as fault:
        raise error(
            f"The file is not JSON: {fault.msg}, line {fault.lineno}, column {fault.colno}.",
            "$",
            "Correct it there.",
        ) from None
    except (ValueError, RecursionError) as fault:
        # Numbers with thousands of digits, NaN, and nesting beyond the interpreter's depth.
        raise error(f"The file is not usable JSON: {str(fault)[:_SHOWN]}.", "$", "Simplify it.") from None
    if not isinstance(document, dict):
        raise error("The file holds no JSON object.", "$", "Its outermost brackets must be { }.")
    return document


class Reader:
    """Takes typed values out of one JSON object; keys that nobody took are errors.

    ``error`` is the class to raise, ``place`` the JSON path of the object.
    """

    def __init__(
        self,
        document: object,
        place: str,
        error: type[ProfileError] = ProfileError,
        free_prefixes: tuple[str, ...] = (),
    ) -> None:
        """Read ``document``. Keys that start with one of ``free_prefixes`` are notes for people."""
        if not isinstance(document, dict):
            raise error("An object { } belongs here.", place)
        self._document: Mapping[str, Any] = document
        self._place = place
        self._error = error
        self._left = {key for key in document if not key.startswith(free_prefixes or ("\0",))}
        self._known: list[str] = []

    def place(self, key: str) -> str:
        """Return the JSON path of ``key``."""
        return f"{self._place}.{key}"

    def has(self, key: str) -> bool:
        """Tell whether ``key`` is there (null counts)."""
        self._known.append(key)
        return key in self._document

    def take(self, key: str) -> Any:  # noqa: ANN401 - what JSON holds
        """Return the value of ``key`` as it is, None where it is absent."""
        self._known.append(key)
        self._left.discard(key)
        return self._document.get(key)

    def text(self, key: str, default: str | None = None, maximum: int = 4000) -> str:
        """Return a text; ``default`` None makes the key a must."""
        value = self.take(key)
        if not self.has(key):
            if default is None:
                raise self._error(f"The key {key!r} is missing.", self._place)
            return default
        if not isinstance(value, str) or len(value) > maximum:
            raise self._error(f"{key!r} is a text of at most {maximum} characters.", self.place(key))
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.take(key)
        if not self.has(key):
            return default
        if not isinstance(value, bool):
            raise self._error(f"{key!r} is true or false.", self.place(key))
        return value

    def integer(self, key: str, lowest: int, highest: int, default: int | None = None) -> int | None:
        """Return a whole number in the range, or None for null (``default`` where the key is absent)."""
        value = self.take(key)
        if not self.has(key):
            return default
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise self._error(f"{key!r} is a whole number from {lowest} to {highest}.", self.place(key))
        return value

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """Return one of ``choices``."""
        value = self.text(key, default)
        if value not in choices:
            raise self._error(f"{value[:_SHOWN]!r} is none of {', '.join(choices)}.", self.place(key))
        return value

    def list_of_texts(self, key: str, maximum: int = 4000) -> tuple[str, ...]:
        """Return a list of texts; empty where the key is absent."""
        value = self.take(key)
        if not self.has(key):
            return ()
        if not isinstance(value, list):
            raise self._error(f"{key!r} is a list [ ].", self.place(key))
        for index, item in enumerate(value):
            if not isinstance(item, str) or not 0 < len(item) <= maximum:
                raise self._error("A text that is not empty belongs here.", f"{self.place(key)}[{index}]")
        return tuple(value)

    def objects(self, key: str) -> list[tuple[object, str]]:
        """Return the items of a list, each with its JSON path."""
        value = self.take(key)
        if not self.has(key):
            return []
        if not isinstance(value, list):
            raise self._error(f"{key!r} is a list [ ].", self.place(key))
        return [(item, f"{self.place(key)}[{index}]") for index, item in enumerate(value)]

    def finish(self) -> None:
        """Raise where the object has a key that was not taken: a misspelt limit must not mean no limit."""
        if not self._left:
            return
        key = min(self._left)
        known = sorted(set(self._known))
        meant = closest(key[:_SHOWN], known)
        raise self._error(
            f"The key {key[:_SHOWN]!r} is unknown.",
            self.place(key[:_SHOWN]),
            (f"Did you mean {meant!r}? " if meant else "") + f"Known here: {', '.join(known)}.",
        )
