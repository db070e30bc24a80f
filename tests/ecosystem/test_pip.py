"""`%pip` in a cell: from a folder of wheels into the sandbox's own layer, and what it says where there is no index."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from live_kernel import notebook

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

NAME = "ecosystem_tiny"
METADATA = f"{NAME}-1.0.dist-info"


def _wheel(folder: Path) -> None:
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / f"{NAME}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{NAME}.py", "answer = 42\n")
        wheel.writestr(f"{METADATA}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
        wheel.writestr(f"{METADATA}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{METADATA}/RECORD", "")


def _installed_outside() -> list[Path]:
    return list(Path(sysconfig.get_path("purelib")).glob(f"{NAME}*"))


@pytest.mark.parametrize("profile", ["datascience", "strict"])
def test_from_a_folder_of_wheels_into_the_sandbox_alone(profile: str, tmp_path: Path) -> None:
    _wheel(tmp_path / "work" / "wheels")
    with notebook(tmp_path, SENTINEL_PROFILE=profile) as book:
        installed = book.run(f"%pip install --no-index --find-links wheels {NAME}")
        assert f"Successfully installed {NAME.replace('_', '-')}" in installed.text.replace("_", "-")
        assert not installed.bundles(VIOLATION_TYPE)
        assert book.run(f"import {NAME}\nprint({NAME}.answer)").text == "42\n"
        assert "1.0" in book.run(f"%pip show {NAME}").text
        assert _installed_outside() == []
        assert "Successfully uninstalled" in book.run(f"%pip uninstall -y {NAME}").text


@pytest.mark.parametrize(
    ("profile", "said"), [("datascience", "no name server"), ("strict", "has no network")]
)
def test_without_a_way_to_an_index_it_fails_with_the_reason(profile: str, said: str, tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE=profile) as book:
        refused = book.run(f"%pip install --retries 0 --timeout 5 {NAME}")
        assert "No matching distribution found" in refused.text
        [told] = refused.bundles(VIOLATION_TYPE)[:1]
        assert said in told["message"]["en"]
        assert "download" in told["hint"]["en"].lower()


@pytest.mark.parametrize("profile", ["strict", "datascience"])
def test_wheels_that_the_host_has_fetched_are_installed_under_any_profile(
    profile: str, tmp_path: Path
) -> None:
    _wheel(tmp_path / "index")
    cache = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "index"),
    }
    fetched = subprocess.run(
        [sys.executable, "-m", "sentinel_kernel.cli", "wheels", "add", NAME],
        env={**os.environ, **cache},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{NAME}-1.0-py3-none-any.whl" in fetched.stdout
    with notebook(tmp_path, SENTINEL_PROFILE=profile, XDG_CACHE_HOME=cache["XDG_CACHE_HOME"]) as book:
        installed = book.run(f"%pip install --no-index {NAME}")
        assert "Successfully installed" in installed.text, installed.text
        assert not installed.bundles(VIOLATION_TYPE)
        assert book.run(f"import {NAME}\nprint({NAME}.answer)").text == "42\n"
        folder = tmp_path / "cache" / "sentinel-kernel" / "wheels"
        written = book.run(f"open('{folder}/x.whl', 'w')")
        assert written.reply["ename"] in ("OSError", "PermissionError")
        assert [path.name for path in folder.iterdir()] == [f"{NAME}-1.0-py3-none-any.whl"]
