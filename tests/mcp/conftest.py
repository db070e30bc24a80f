"""One server for the tests of a module: a kernel takes seconds to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from assistant import Assistant, assistant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that cells see."""
    folder = tmp_path_factory.mktemp("mcp") / "work"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def helper(workspace: Path) -> Iterator[Assistant]:
    """Yield an assistant whose server may have two kernels."""
    with assistant(workspace, "--max-kernels", "2") as connected:
        yield connected
