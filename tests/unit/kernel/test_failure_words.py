"""An explained error that is too large to be read goes on as it came."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.kernel.failures import Failures
from sentinel_kernel.kernel.wire import CONTENT

VIOLATION = {"message": {"en": "m", "zh": "m"}, "hint": {"en": "h", "zh": "h"}, "remedies": []}


@pytest.mark.parametrize(
    ("value", "told"),
    [("v", True), ("v" * (17 << 20), False), ([[]] * (3 << 20), False)],
    ids=["short", "too long", "too many lists"],
)
def test_an_error_that_can_not_be_read_is_left_as_it_is(value: object, *, told: bool) -> None:
    failures = Failures(SimpleNamespace(settings=SimpleNamespace(language="en")))  # type: ignore[arg-type] # all it asks
    content = json.dumps({"ename": "E", "evalue": value, "traceback": []}).encode()
    parts: list[Any] = [b""] * (CONTENT + 1)
    parts[CONTENT] = content
    failures._say(VIOLATION, parts)  # type: ignore[arg-type] # JSON
    assert (parts[CONTENT] != content) is told
    assert (b"Sentinel: m HINT: h" in bytes(parts[CONTENT])) is told
