"""Characters that nobody sees are shown as escapes wherever text from the sandbox is read."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.kernel.rendering import printable
from sentinel_kernel.mcp.plain_text import cleaned
from sentinel_kernel.policy.committable import by_itself
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.unseen import is_seen, with_escapes

if TYPE_CHECKING:
    from collections.abc import Callable

# Default_Ignorable_Code_Point (DerivedCoreProperties.txt, Unicode 16.0), and the blank of Braille.
IGNORED = [
    *(0x00AD, 0x034F, 0x061C, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810)),
    *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x2800, 0x3164),
    *(*range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4)),
    *(*range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]
READERS = [with_escapes, cleaned, shown, printable]


@pytest.mark.parametrize("reader", READERS)
def test_what_no_reader_sees_is_an_escape(reader: Callable[[str], str]) -> None:
    for number in IGNORED:
        for text in (f"a{chr(number)}b", f"{chr(number)} ", f"\U0001f600\ufe0f{chr(number)}"):
            if text.isprintable():
                assert not is_seen(text), hex(number)
            read = reader(text)
            assert chr(number) not in read.replace("\U0001f600\ufe0f", ""), hex(number)
            assert f"\\x{number:02x}" in read or f"{number:04x}" in read, hex(number)


@pytest.mark.parametrize("reader", READERS)
def test_what_people_write_stays(reader: Callable[[str], str]) -> None:
    for text in (
        "naïve Ω déjà-vu",
        "河流 한국어 日本語 हिन्दी العربية ไทย",
        "\u2764\ufe0f \u2600\ufe0e \U0001f3d4\ufe0f 1\ufe0f\u20e3",
        "e\u0301 x\u0305",
    ):
        assert is_seen(text)
        assert reader(text) == text


def test_one_bit_behind_letters_or_digits_is_no_channel() -> None:
    hidden = "r\ufe0fiv\ufe0fer 1\ufe0f2\ufe0e \u2764\ufe0f\ufe0f"
    assert with_escapes(hidden) == ("r\\ufe0fiv\\ufe0fer 1\\ufe0f2\\ufe0e \u2764\ufe0f\\ufe0f")


def test_no_other_printable_character_is_taken_for_unseen() -> None:
    unseen = {
        number
        for number in range(sys.maxunicode + 1)
        if chr(number).isprintable() and not is_seen(chr(number))
    }
    assert unseen == {number for number in IGNORED if chr(number).isprintable()}
    assert all(unicodedata.category(chr(number)) in ("Mn", "Lo", "So") for number in unseen)


def test_a_name_with_such_a_character_is_asked_about() -> None:
    assert by_itself("results/rivers.csv")
    assert not by_itself("results/riv\u3164ers.csv")
