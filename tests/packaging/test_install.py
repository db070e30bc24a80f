"""`sentinel-kernel install` puts the kernelspec where Jupyter finds it, with an absolute interpreter."""

from __future__ import annotations

import json
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel import cli, kernelspecs

if TYPE_CHECKING:
    from pathlib import Path


def installed(prefix: Path, name: str = "sentinel") -> Path:
    return prefix / "share" / "jupyter" / "kernels" / name


def test_install_writes_this_interpreter_and_the_logos(tmp_path: Path) -> None:
    assert cli.main(["install", "--prefix", str(tmp_path)]) == 0
    folder = installed(tmp_path)
    specification = json.loads((folder / "kernel.json").read_text())
    assert specification == kernelspecs.kernel_specification(sys.executable)
    assert {path.name for path in folder.iterdir()} == {
        "kernel.json",
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_profile_gets_a_card_of_its_own(tmp_path: Path) -> None:
    assert cli.main(["install", "--prefix", str(tmp_path), "--profile", "datascience"]) == 0
    specification = json.loads((installed(tmp_path, "sentinel-datascience") / "kernel.json").read_text())
    assert specification["env"]["SENTINEL_PROFILE"] == "datascience"
    assert specification["display_name"] == "Python 3 (Sentinel, datascience)"


def test_name_and_display_name_can_be_chosen(tmp_path: Path) -> None:
    assert cli.main(["install", "--prefix", str(tmp_path), "--name", "lab", "--display-name", "Lab 1"]) == 0
    assert json.loads((installed(tmp_path, "lab") / "kernel.json").read_text())["display_name"] == "Lab 1"


def test_an_unknown_profile_installs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install", "--prefix", str(tmp_path), "--profile", "no-such-profile"]) == 1
    assert "no-such-profile" in capsys.readouterr().err
    assert not (tmp_path / "share").exists()


@pytest.mark.parametrize("name", ["../outside", "with space", ""])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    assert cli.main(["install", "--prefix", str(tmp_path), "--name", name]) == 1
    assert list(tmp_path.iterdir()) == []


def test_install_can_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        assert cli.main(["install", "--prefix", str(tmp_path)]) == 0
