"""The wheel carries all that is needed, and works from an empty folder; so does the editable install."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ordinary_user import build_wheel

if TYPE_CHECKING:
    from ordinary_user import Identity

ROOT = Path(__file__).resolve().parents[2]
LIST_DATA = """
import json, os
from sentinel_kernel.policy.profile import list_profiles
from sentinel_kernel.policy.shipped import shipped_directory
places = {kind: shipped_directory(kind) for kind in ("profiles", "mappings")}
print(json.dumps({"names": list_profiles([]), **{k: sorted(os.listdir(p)) for k, p in places.items()}}))
"""


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return set(zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))).namelist())


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return set(listed.split())


@pytest.mark.parametrize("folder", ["profiles", "mappings"])
def test_the_wheel_has_every_data_file_inside_the_package(members: set[str], folder: str) -> None:
    wanted = {f"sentinel_kernel/{path}" for path in tracked(folder)}
    assert wanted
    assert wanted <= members


def test_the_wheel_has_the_kernelspec_as_shared_data(members: set[str]) -> None:
    place = ".data/data/share/jupyter/kernels/sentinel/"
    assert {name.partition(place)[2] for name in members if place in name} == {
        Path(path).name for path in tracked("kernelspec")
    }


def test_the_wheel_has_every_module_and_nothing_but_the_package(members: set[str]) -> None:
    modules = {path for path in tracked("sentinel_kernel") if path.endswith(".py")}
    assert {name for name in members if name.endswith(".py")} == modules
    assert "sentinel_kernel/policy/violation.schema.json" in members
    tops = {name.partition("/")[0] for name in members}
    assert {top for top in tops if not top.startswith("sentinel_jupyter_kernel-")} == {"sentinel_kernel"}


def data_seen_by(python: str, folder: Path, *prefix: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [*prefix, python, "-P", "-c", LIST_DATA], cwd=folder, capture_output=True, text=True, check=True
    )
    seen: dict[str, list[str]] = json.loads(done.stdout)
    return seen


def test_a_wheel_in_an_empty_folder_sees_the_same_data_as_the_tree(
    ordinary_user: Identity, tmp_path: Path
) -> None:
    editable = data_seen_by(sys.executable, tmp_path)
    assert {"strict", "datascience", "web"} <= set(editable["names"])
    assert json.loads(ordinary_user.run(ordinary_user.python, "-P", "-c", LIST_DATA).stdout) == editable


def test_the_wheel_alone_puts_the_kernel_into_the_launcher(ordinary_user: Identity) -> None:
    listed = ordinary_user.run(ordinary_user.python, "-m", "jupyter", "kernelspec", "list", "--json").stdout
    specification = json.loads(listed)["kernelspecs"]["sentinel"]
    assert specification["resource_dir"].startswith(str(Path(ordinary_user.python).parents[1]))
    assert specification["spec"]["display_name"] == "Python 3 (Sentinel)"
