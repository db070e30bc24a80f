"""Kernels under chaos for a moment: a bystander notices nothing, every cell is answered, nothing is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

PROGRAM = Path(__file__).with_name("run.py")


def chaos(kernels: int, minutes: float) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "chaos", "--kernels", str(kernels), "--minutes", str(minutes)],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n0 wrong" in done.stdout
    assert "nothing is left" in done.stdout


def test_a_moment_of_chaos() -> None:
    chaos(3, 0.3)


@pytest.mark.soak
def test_a_long_chaos() -> None:
    chaos(4, 10)
