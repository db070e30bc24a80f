"""A recursion without end has an end, whatever sys.setrecursionlimit is set to, and is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = "class Level:\n    def __getattr__(self, name):\n        return getattr(self, name + '_')\nLevel().y"


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_a_recursion_without_end_is_told(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_SPARE="off") as book:
        book.run(
            "import sys\nkept = 1\ndef call(n):\n    return call(n + 1) + 1\nsys.setrecursionlimit(10**9)"
        )
        deep = book.run("call(0)").reply
        assert deep["ename"] == "RecursionError"
        assert "recursions end at 1,000,000 calls here" in deep["evalue"]
        assert book.run("print(kept, sys.getrecursionlimit())").text == "1 1000000000\n"
        # Through native code it is the C library's stack that is full, as under plain ipykernel.
        died = book.run(NATIVE).reply
        assert died["ename"] == "SandboxDied"
        assert (
            "SIGSEGV: functions called each other, or one itself, until the stack was full" in died["evalue"]
        )
