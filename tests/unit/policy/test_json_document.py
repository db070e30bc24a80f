"""Strict reading of JSON documents: every fault is an error that names its place."""

from __future__ import annotations

import pytest

from sentinel_kernel.errors import MappingError, ProfileError
from sentinel_kernel.policy.json_document import MAXIMUM_BYTES, Reader, parse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not JSON"),
        (b"{", "line 1"),
        (b"[]", "no JSON object"),
        (b'"a"', "no JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"x": {"b": 1, "b": 2}}', "'b'"),
        (b"\xff{}", "UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "usable"),
        (b'{"a": ' + b"[" * 100_000 + b"}", "usable"),
        (b" " * (MAXIMUM_BYTES + 1), "longer"),
    ],
)
def test_a_document_that_is_none_is_an_error(text: bytes, said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        parse(text)


def test_the_error_is_of_the_class_that_the_caller_wants() -> None:
    with pytest.raises(MappingError):
        parse(b"[]", MappingError)


def test_a_byte_order_mark_is_no_fault() -> None:
    assert parse(b"\xef\xbb\xbf{}") == {}


def test_a_key_that_nobody_took_is_an_error_that_names_it() -> None:
    reader = Reader({"memory_byte": 1, "_note": "kept"}, "$.resources", free_prefixes=("_",))
    reader.integer("memory_bytes", 1, 10)
    with pytest.raises(ProfileError, match="memory_byte") as caught:
        reader.finish()
    assert caught.value.json_path == "$.resources.memory_byte"
    assert "memory_bytes" in caught.value.remedy


def test_values_have_the_types_that_they_must() -> None:
    reader = Reader({"t": 1, "f": 1, "i": True, "l": [1], "o": {}, "c": "x"}, "$")
    for take in (
        lambda: reader.text("t"),
        lambda: reader.text("absent"),
        lambda: reader.flag("f", default=True),
        lambda: reader.integer("i", 0, 1),
        lambda: reader.list_of_texts("l"),
        lambda: reader.objects("o"),
        lambda: reader.choice("c", ("a", "b"), "a"),
    ):
        with pytest.raises(ProfileError):
            take()


def test_only_an_object_can_be_read() -> None:
    with pytest.raises(ProfileError):
        Reader([], "$.network")
