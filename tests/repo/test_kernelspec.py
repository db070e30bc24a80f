"""The shipped kernel.json is what install writes; the logos are what Jupyter expects."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from sentinel_kernel import kernelspecs

FOLDER = Path(__file__).resolve().parents[2] / "kernelspec"


def test_the_shipped_kernel_json_is_generated() -> None:
    assert (FOLDER / "kernel.json").read_text() == kernelspecs.kernel_json(
        kernelspecs.kernel_specification("python")
    )


def test_the_host_starts_without_the_notebooks_folder_on_its_path() -> None:
    argv = json.loads((FOLDER / "kernel.json").read_text())["argv"]
    assert argv[1:] == ["-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"]


@pytest.mark.parametrize("size", [32, 64])
def test_a_logo_has_the_size_in_its_name(size: int) -> None:
    data = (FOLDER / f"logo-{size}x{size}.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (size, size)


def test_the_drawing_runs_no_script_and_loads_nothing() -> None:
    drawing = (FOLDER / "logo-svg.svg").read_text()
    assert drawing.startswith("<svg ")
    assert "script" not in drawing
    assert "href" not in drawing
