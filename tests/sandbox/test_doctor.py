"""Doctor's table on machines that lack something, each reproduced for real: golden files beside this one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lesser_machine import prefix
from ordinary_user import Identity, ordinary_identity

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("landlock", "user_namespaces", "overlay", "fresh_proc"),
]

GOLDEN = Path(__file__).parent / "golden"
MACHINES = {
    "no-user-namespaces": ("no_namespaces",),
    "docker": ("docker",),
    "covered-proc": ("covered_proc",),
    "no-landlock-either": ("no_landlock", "no_namespaces"),
}
STATUS = {"no-landlock-either": 1}


@pytest.fixture(scope="module")
def user() -> Iterator[Identity]:
    """Give an ordinary user."""
    with ordinary_identity() as made:
        yield made


def doctor(
    user: Identity, how: tuple[str, ...], *arguments: str, spoken: str = "en"
) -> subprocess.CompletedProcess[str]:
    """Run the command as ``user`` on such a machine."""
    command = (*prefix(user.python, *how), user.python, "-m", "sentinel_kernel.cli", "doctor", *arguments)
    return user.run(*command, check=False, env=user.environment() | {"SENTINEL_LANG": spoken})


def normal(text: str) -> str:
    """Return doctor's table without what differs from machine to machine."""
    _, *lines = text.splitlines()
    kept: list[str] = []
    of_share = False
    for line in lines:
        if not line.startswith("   "):
            of_share = "cgroup v2" in line[:40] or "weight of sessions" in line[:40]
        if not of_share:
            kept.append(line)
    text = "\n".join(kept)
    text = re.sub(r"set up in \d+ ms", "set up in N ms", text)
    text = re.sub(r"version \d+", "version N", text)
    return re.sub(r"API level \d+", "API level N", text).strip() + "\n"


@pytest.mark.parametrize("name", MACHINES)
def test_the_table_of_a_machine(user: Identity, name: str) -> None:
    done = doctor(user, MACHINES[name])
    golden = GOLDEN / f"doctor-{name}.txt"
    if os.environ.get("SENTINEL_WRITE_GOLDEN"):
        golden.write_text(normal(done.stdout))
    assert normal(done.stdout) == golden.read_text()
    assert done.returncode == STATUS.get(name, 2), done.stderr


def test_as_json_and_in_chinese(user: Identity) -> None:
    done = doctor(user, MACHINES["no-user-namespaces"], "--json")
    told = json.loads(done.stdout)
    assert (told["boots"], told["rung"], done.returncode) == (True, "landlock", 2)
    known = {one["name"]: one for one in told["environments"]}
    assert known["max_user_namespaces"]["repair_en"] == "sudo sysctl -w user.max_user_namespaces=10000"
    assert known["max_user_namespaces"]["cause_zh"]


def test_the_repair_of_max_user_namespaces_repairs(user: Identity) -> None:
    """The command that doctor prints, run where the setting is: the full rung is there again."""
    before = doctor(user, ("no_namespaces",), "--json")
    repair = next(
        one["repair_en"]
        for one in json.loads(before.stdout)["environments"]
        if one["name"] == "max_user_namespaces"
    ).removeprefix("sudo ")
    rights = "setpriv --inh-caps=-all --ambient-caps=-all --"
    script = f'PATH=$PATH:/usr/sbin:/sbin; {repair} > /dev/null && exec {rights} "$@"'
    machine = prefix(user.python, "repairable_namespaces")
    command = (
        *machine,
        "sh",
        "-c",
        script,
        "sh",
        user.python,
        "-m",
        "sentinel_kernel.cli",
        "doctor",
        "--json",
    )
    done = user.run(*command, check=False)
    assert json.loads(done.stdout)["rung"] == "full", (done.stdout, done.stderr)
    assert done.returncode == 0
