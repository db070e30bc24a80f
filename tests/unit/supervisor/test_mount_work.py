"""The work folder of a layer that writes through is removed, and nothing that has got its name meanwhile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.linux.locks import try_lock_whole
from sentinel_kernel.supervisor import mount_work

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _left(place: Path) -> Path:
    """Return a work folder as a killed supervisor has left it."""
    left = place / ".sentinel-work-left"
    (left / "work" / "inner").mkdir(parents=True)
    (left / "index").mkdir()
    (left / "work").chmod(0)
    return left


def test_a_folder_that_was_left_is_removed(tmp_path: Path) -> None:
    left = _left(tmp_path)
    mount_work.sweep(str(tmp_path))
    assert not left.exists()


def test_one_that_is_held_stays(tmp_path: Path) -> None:
    left = _left(tmp_path)
    held = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert try_lock_whole(held)
        mount_work.sweep(str(tmp_path))
        assert left.exists()
        mount_work.discard(str(left), held)
        assert not left.exists()
    finally:
        os.close(held)


def test_another_folder_that_has_got_its_name_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, away = _left(tmp_path), tmp_path / "away"
    other = tmp_path / "other"
    (other / "work").mkdir(parents=True)
    (other / "work" / "dear").touch()
    (other / "work").chmod(0o500)

    def exchanged(descriptor: int) -> bool:
        left.rename(away)
        other.rename(left)
        return try_lock_whole(descriptor)

    monkeypatch.setattr(mount_work, "try_lock_whole", exchanged)
    mount_work.sweep(str(tmp_path))
    assert list(away.iterdir()) == []
    assert (left / "work" / "dear").exists()
    assert (left / "work").stat().st_mode & 0o777 == 0o500


def test_a_link_in_it_leads_nowhere(tmp_path: Path) -> None:
    left, elsewhere = tmp_path / ".sentinel-work-left", tmp_path / "elsewhere"
    left.mkdir()
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "dear").touch()
    (left / "work").symlink_to(elsewhere)
    mount_work.sweep(str(tmp_path))
    assert not left.exists()
    assert (elsewhere / "dear").exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o755
