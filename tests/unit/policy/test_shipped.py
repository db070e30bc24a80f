"""Where shipped data is found: in a source tree, in a wheel, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy import shipped
from sentinel_kernel.policy.shipped import shipped_directory

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["profiles", "mappings", "kernelspec"])
def test_a_source_tree_has_it_at_its_top(name: str) -> None:
    assert Path(shipped_directory(name)).is_dir()


def test_a_wheel_has_it_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "sentinel_kernel"
    (package / "profiles").mkdir(parents=True)
    (tmp_path / "site-packages" / "mappings").mkdir()  # somebody else's
    monkeypatch.setattr(shipped, "_PACKAGE", str(package))
    assert shipped_directory("profiles") == str(package / "profiles")
    with pytest.raises(SentinelError, match="mappings"):
        shipped_directory("mappings")
