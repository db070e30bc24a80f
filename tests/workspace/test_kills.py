"""Kill -9 of each process in a cell that writes, a commit, a shutdown: every file is whole, in the folder or saved."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernel_roles
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

DRIVER = Path(__file__).parent / "drivers" / "kill_moments.py"
ROLES = ("host", "supervisor", "init", "worker", "files", "audit")
PHASES = ("cell", "commit", "shutdown")
SEED = 20
MOMENTS = 50
PATHS = 48
"""That a cell of the driver writes: half of them new, half over files of the host."""


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Identity, Path]]:
    """Return who runs the kernels, and a folder of theirs."""
    identity: Identity = request.getfixturevalue(request.param)
    folder = Path(tempfile.mkdtemp(dir=identity.home.parent))
    folder.chmod(0o755)
    yield identity, folder
    shutil.rmtree(folder)


def trials(place: tuple[Identity, Path], role: str, phase: str, moments: int) -> list[dict[str, Any]]:
    """Return what came of so many kills: each process ended by that, and every file is whole.

    A file that a cell may not have written is one that its output does not name, where the kill was in the cell.
    """
    identity, folder = place
    kernels = folder / "jupyter" / "kernels" / "sentinel"
    kernels.mkdir(parents=True)
    spec = {
        "argv": [identity.python, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"],
        "display_name": "Sentinel",
        "language": "python",
        "interrupt_mode": "message",
    }
    (kernels / "kernel.json").write_text(json.dumps(spec))
    driver, taken = folder / DRIVER.name, folder / "kernel_roles.py"
    shutil.copyfile(DRIVER, driver)
    shutil.copyfile(kernel_roles.__file__, taken)
    for path in (kernels.parent.parent, kernels.parent, kernels, kernels / "kernel.json", driver, taken):
        path.chmod(0o755)
    command = (identity.python, str(driver), str(folder / "jupyter"), role, phase, str(moments), str(SEED))
    done = identity.run(*command, timeout=180 + 120 * moments)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == moments
    for result in results:
        assert not result["faults"], result
        assert result["killed"], result
        assert result["folder"] + result["store"] + result["unwritten"] == PATHS, result
        assert phase == "cell" or result["unwritten"] == 0, result
    return results


def table(results: list[dict[str, Any]]) -> str:
    """Return what came of the kills, one line for each process and phase."""
    lines = [
        f"{'process':12} {'while':10} {'kills':>6} {'in folder':>10} {'in store':>9} {'not begun':>10} {'lost':>5}"
    ]
    for role in ROLES:
        for phase in PHASES:
            of = [one for one in results if (one["role"], one["phase"]) == (role, phase)]
            if of:
                sums = [sum(one[name] for one in of) for name in ("folder", "store", "unwritten")]
                kills = sum(one["killed"] for one in of)
                lines.append(f"{role:12} {phase:10} {kills:6} {sums[0]:10} {sums[1]:9} {sums[2]:10} {0:5}")
    return "\n".join(lines)


@pytest.mark.parametrize("place", ["own_user"], indirect=True)
@pytest.mark.parametrize(
    ("role", "phase"), [("supervisor", "cell"), ("files", "commit"), ("host", "shutdown")]
)
def test_a_kill_loses_no_file(place: tuple[Identity, Path], role: str, phase: str) -> None:
    trials(place, role, phase, 1)


@pytest.mark.parametrize("place", ["ordinary_user"], indirect=True)
def test_a_kill_loses_no_file_of_an_ordinary_user(place: tuple[Identity, Path]) -> None:
    trials(place, "files", "shutdown", 1)


@pytest.mark.soak
@pytest.mark.parametrize("place", ["own_user", "ordinary_user"], indirect=True)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("role", ROLES)
def test_kills_at_random_moments(place: tuple[Identity, Path], role: str, phase: str) -> None:
    print(table(trials(place, role, phase, MOMENTS)))
