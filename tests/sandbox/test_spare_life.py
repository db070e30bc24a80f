"""When a spare is made and when it goes, with the clock and the memory in the test's hand."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ordinary_user import Identity

DRIVER = Path(__file__).parents[1] / "kernel" / "drivers" / "keep_spare.py"

pytestmark = [pytest.mark.sandbox]


def test_spare_needs_ample_memory_fits_its_request_alone_and_goes_when_idle(
    identity: Identity, workspace: Path, place: Path
) -> None:
    ran = subprocess.run(
        [*identity.prefix, identity.python, "-P", "-c", DRIVER.read_text(), str(workspace)],
        env=identity.environment() | {"XDG_RUNTIME_DIR": str(place), "XDG_CACHE_HOME": str(place / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    assert ran.stdout.splitlines() == [
        "scarce memory: False",
        "in the place of another: True",
        "warm: True",
        "for another profile: False False",
        "idle for long: False",
        "children: []",
    ], ran.stderr
