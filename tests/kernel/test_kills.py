"""Killing any process of the kernel leaves nothing behind, and the frontend is told or gets a new worker."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import kernel_roles
import pytest

if TYPE_CHECKING:
    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

DRIVER = Path(__file__).parent / "drivers" / "kill_roles.py"
ROLES = ("host", "supervisor", "init", "worker")


def kernelspec(identity: Identity, folder: Path) -> Path:
    """Write the kernelspec `sentinel` of the identity's interpreter below ``folder`` and return JUPYTER_PATH."""
    place = folder / "jupyter" / "kernels" / "sentinel"
    place.mkdir(parents=True)
    spec = {
        "argv": [identity.python, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"],
        "display_name": "Sentinel",
        "language": "python",
        "interrupt_mode": "message",
    }
    (place / "kernel.json").write_text(json.dumps(spec))
    for path in (folder / "jupyter", folder / "jupyter" / "kernels", place, place / "kernel.json"):
        path.chmod(0o755)
    return folder / "jupyter"


def kill(identity: Identity, folder: Path, kills: int, role: str) -> None:
    folder.chmod(0o755)
    for file in (DRIVER, Path(kernel_roles.__file__)):
        shutil.copyfile(file, folder / file.name)
        (folder / file.name).chmod(0o644)
    driver = folder / DRIVER.name
    path = kernelspec(identity, folder)
    done = identity.run(
        identity.python, str(driver), str(path), str(kills), role, timeout=170 if kills < 50 else 3000
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == kills
    for result in results:
        assert result["gone"]
        if role == "host":
            continue
        assert result.get("after", result["next"]) == ["ok", True], (result, done.stderr)
        if result["moment"] is not None:
            # Answered either way, never a hang, and told once: the running cell says what died, or, where it was
            # over by then, the next one.
            assert result["cell"] in (["ok", True], ["SandboxDied", True]), result
            assert (result["cell"][0], result["next"][0]) != ("SandboxDied", "SandboxDied"), result


EACH_MOMENT = 7
"""One kill at each of the driver's moments."""


@pytest.mark.parametrize("role", ROLES)
def test_a_kill_at_each_moment_leaves_nothing_and_hangs_nobody(
    own_user: Identity, tmp_path_factory: pytest.TempPathFactory, role: str
) -> None:
    kill(own_user, tmp_path_factory.mktemp("kills"), EACH_MOMENT, role)


@pytest.mark.parametrize("role", ROLES)
def test_kills_as_an_ordinary_user(ordinary_user: Identity, role: str) -> None:
    _kill_as_an_ordinary_user(ordinary_user, 3, role)  # in the start, at once, and a moment later


def _kill_as_an_ordinary_user(identity: Identity, kills: int, role: str) -> None:
    folder = Path(tempfile.mkdtemp(dir=identity.home.parent))
    try:
        kill(identity, folder, kills, role)
    finally:
        shutil.rmtree(folder)


@pytest.mark.soak
@pytest.mark.parametrize("role", ROLES)
def test_many_kills_as_an_ordinary_user(ordinary_user: Identity, role: str) -> None:
    _kill_as_an_ordinary_user(ordinary_user, 20, role)


@pytest.mark.soak
@pytest.mark.parametrize("role", ROLES)
def test_many_kills(own_user: Identity, tmp_path_factory: pytest.TempPathFactory, role: str) -> None:
    kill(own_user, tmp_path_factory.mktemp("kills"), 150, role)
