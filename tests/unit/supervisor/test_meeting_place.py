"""The name under which a supervisor waits for its next host: short enough for a socket, and each kernel's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.supervisor import rendezvous
from sentinel_kernel.supervisor.meeting_place import base_directory, is_awaited

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LONG = "n" * 240


def test_long_places_and_names_are_met_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / LONG
    (deep / "sentinel-kernel").mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert len(base_directory()) > len(LONG)
    kernel = f"/x/{LONG}.json"
    door = rendezvous.Door(kernel)
    try:
        assert is_awaited(kernel)
        found = rendezvous.connect(kernel)
        assert found is not None
        found[0].close()
    finally:
        door.close()
    assert not is_awaited(kernel)


def test_kernels_whose_files_have_one_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sentinel-kernel").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    door = rendezvous.Door("/one/kernel.json")
    try:
        assert is_awaited("/one/kernel.json")
        for other in ("/another/kernel.json", "/one/kernel.json2", f"/one/{LONG}a", f"/one/{LONG}b"):
            assert not is_awaited(other)
            assert rendezvous.connect(other) is None
    finally:
        door.close()
    assert rendezvous.socket_name(f"/one/{LONG}a") != rendezvous.socket_name(f"/one/{LONG}b")
