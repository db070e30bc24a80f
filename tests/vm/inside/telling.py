"""Runs checks one after the other and prints each outcome as a JSON document for the outside."""

from __future__ import annotations

import json
import time
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 120.0
"""An emulated processor is some twenty times as slow as a real one, on a machine that does other things too."""


def tell(**fields: Any) -> None:
    """Print one document."""
    print(f"@@ {json.dumps(fields)}", flush=True)


def check(name: str, action: Callable[[], Any]) -> None:
    """Run ``action`` and tell how it went; what it returns is told too."""
    began = time.monotonic()
    try:
        seen, ok = action(), True
    except Exception:  # noqa: BLE001 - whatever it is, the outside has to hear of it
        seen, ok = traceback.format_exc()[-3000:], False
    tell(check=name, ok=ok, seen=seen, seconds=round(time.monotonic() - began, 1))


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of ``condition``.

    Raises:
        TimeoutError: there was none in time.

    """
    deadline = time.monotonic() + SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so in {SECONDS:.0f} s: {what}")
        time.sleep(0.05)
    return value
