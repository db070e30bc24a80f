"""What is said of the magics above a line that was refused."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.magic_effects import in_effect
from sentinel_kernel.worker.leading_block import parse_leading_block


def said(code: str, *, chinese: bool = False) -> str:
    return in_effect(parse_leading_block(code).lines, chinese=chinese)


def test_what_has_changed_something_is_named_and_pages_are_not() -> None:
    code = "%sentinel_profile datascience\n%sentinel_status\n%sentinel_limit\n%sentinel_undo\n1"
    assert said(code) == (
        " But the lines above it have taken effect, which stays: `%sentinel_profile datascience`, `%sentinel_undo`."
    )
    assert said("%sentinel_profile web") == (
        " But the line above it has taken effect, which stays: `%sentinel_profile web`."
    )
    assert said("%sentinel_profile web", chinese=True) == (
        "但其上方的行已经生效，并会保持：`%sentinel_profile web`。"
    )


@pytest.mark.parametrize("code", ["1", "%sentinel_status\n%sentinel_profile\n%sentinel_limit"])
def test_nothing_is_said_where_nothing_has_changed(code: str) -> None:
    assert said(code) == said(code, chinese=True) == ""
