"""A sandbox that computes much gives way to others while it does: its sessions weigh less (sched(7), autogroups)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import kernel_roles
import pytest
from lesser_machine import prefix
from readable_place import readable_place
from supervised import own_folder

from sentinel_kernel.supervisor.backend import NICE

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("autogroup")]

_DRIVERS = Path(__file__).parent / "drivers"

_WHO = [
    pytest.param(who, marks=pytest.mark.requires("landlock" if "landlock" in who else "user_namespaces"))
    for who in ("user", "user, landlock", *(("root", "root, landlock") if os.geteuid() == 0 else ()))
]


@pytest.mark.parametrize("who", _WHO)
def test_it_weighs_less_while_it_computes_and_as_much_as_others_afterwards(who: str) -> None:
    with readable_place(root=who.startswith("root")) as (owner, home):
        someone = replace(owner, home=home)
        for name in ("tmp", "work"):
            own_folder(someone, home / name).chmod(0o755)
        for source in (_DRIVERS / "run_cells.py", _DRIVERS / "weights.py", Path(kernel_roles.__file__)):
            (home / source.name).write_bytes(source.read_bytes())
        machine: tuple[str, ...] = ()
        if "landlock" in who:
            machine = prefix(someone.python, "docker" if someone.uid == 0 else "no_namespaces")
        command = (someone.python, str(home / "weights.py"), str(NICE))
        done = someone.run(*machine, *command, cwd=home / "work")
    told = json.loads(done.stdout.splitlines()[-1])
    born = told.pop("born with")  # who is root may have set it back by then
    assert born == NICE or (born == 0 and who.startswith("root"))
    assert told == {
        "fresh": [0, 0],
        "the others while it gives way": [0, 0],
        "at rest": True,
        "a session of its own": True,
        "ended": "-9\n",
        "the others beside decoys": [0, 0],
    }
