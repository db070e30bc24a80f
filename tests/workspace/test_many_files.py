"""Trees of very many small files: listed, saved and committed within bounds, which are told, and within the memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel_kernel.supervisor.files_process import MEMORY_BYTES
from sentinel_kernel.workspace.bounds import Bounds
from sentinel_kernel.workspace.saving import MAXIMUM_FILES

DRIVER = Path(__file__).parent / "drivers" / "many_files.py"
IN_EACH = 1000


@pytest.mark.parametrize("folders", [1, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(0)])])
def test_many_small_files(tmp_path: Path, folders: int) -> None:
    files = folders * IN_EACH
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(tmp_path), str(folders)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(told)
    looked_at = min(files + folders, Bounds().entries)
    assert told["listed"] == looked_at
    assert told["answered"] == looked_at
    assert (told["compared"] > 100, told["exported"]) == (True, 1)
    assert bool(told["left_out"]) == (files + folders > looked_at)
    assert told["saved"] == min(files, MAXIMUM_FILES)
    assert told["not_saved"] == files - told["saved"]
    assert told["told_of"] <= 21
    assert told["failed"] == 0
    assert told["committed"] == looked_at
    assert files - folders - 1 <= told["there"] <= files
    assert told["discarded"] >= looked_at - folders
    # A folder stays with those in it that lie beyond what is looked at.
    beyond = files + folders - looked_at
    assert told["held"] <= beyond + bool(beyond)
    assert told["peak_bytes"] < MEMORY_BYTES
