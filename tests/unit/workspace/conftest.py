"""What tests of the workspace share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.workspace.answering import Workspace
from sentinel_kernel.workspace.journal import Journal
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.store import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Return a workspace of plain folders: ``upper`` is what cells wrote, ``lower`` the host's."""
    for name in ("upper", "lower", "history"):
        (tmp_path / name).mkdir()
    flags = os.O_RDONLY | os.O_DIRECTORY
    upper, lower, history = (os.open(tmp_path / name, flags) for name in ("upper", "lower", "history"))
    layer = Layer(name="workspace", path=str(tmp_path / "lower"), upper=upper, merged=upper, lower=lower)
    yield Workspace(
        {"workspace": layer}, Surroundings(), Journal(history, None), StoreSettings(str(tmp_path / "store"))
    )
    for descriptor in (upper, lower, history):
        os.close(descriptor)
