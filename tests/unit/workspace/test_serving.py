"""What the files process does of what the supervisor asks for, from one packet to the next."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.supervisor.held_folders import HeldFolder, HeldFolders
from sentinel_kernel.workspace.serving import layers_of
from sentinel_kernel.workspace.setup import FilesSetup
from sentinel_kernel.workspace.store import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def held(tmp_path: Path) -> Iterator[HeldFolders]:
    """Return a workspace of plain folders: ``upper`` is what cells wrote, ``lower`` the host's."""
    for name in ("upper", "lower", "history"):
        (tmp_path / name).mkdir()
    upper, lower, history = (
        os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("upper", "lower", "history")
    )
    yield HeldFolders([HeldFolder("workspace", str(tmp_path / "lower"), upper, upper, lower)], history)
    for descriptor in (upper, lower, history):
        os.close(descriptor)


def test_a_folder_whose_owner_nobody_can_tell_is_written_to_as_the_sandbox(
    held: HeldFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = FilesSetup("k", StoreSettings(str(tmp_path / "store")), Surroundings(), writer=(7, 8))
    status = (tmp_path / "lower").stat()
    assert layers_of(held, setup)["workspace"].owner == (status.st_uid, status.st_gid)  # positive control
    lower, status_of = held.folders[0].lower, os.fstat

    def without_status(descriptor: int) -> os.stat_result:
        if descriptor == lower:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return status_of(descriptor)

    monkeypatch.setattr(os, "fstat", without_status)
    assert layers_of(held, setup)["workspace"].owner == (7, 8)
