"""The table of mechanisms once more on the landlock rung: a machine that refuses namespaces, a user and root."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lesser_machine import prefix
from readable_place import readable_place
from supervised import Supervised

from tests.escape.test_mechanisms import Host

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("landlock", "landlock_rung")]

NAMES_ARE_SEEN = {"mounts: folders above the root"}
"""SECURITY.md says so: that a path is there can be told on this rung; what is in it can't."""

_RUN = (
    "import os, runpy, sys; os.chdir({workspace!r}); "
    "sys.argv = ['run.py', os.environ['SENTINEL_OUTPUT'] + '/result.json', 'targets.json', 'inside']; "
    "sys.path.insert(0, 'mechanisms'); runpy.run_path('mechanisms/run.py', run_name='__main__')"
)
_LEAST = 250
OLDEST = 4
"""The least version of Landlock that will do."""
_WHO = ["user", "root"] if os.geteuid() == 0 else ["user"]


@pytest.mark.parametrize("who", _WHO)
@pytest.mark.parametrize("version", [0, pytest.param(OLDEST, marks=pytest.mark.soak)])
def test_no_mechanism_gets_anything_on_the_landlock_rung(
    who: str, version: int, record_property: Callable[[str, object], None]
) -> None:
    with (
        readable_place(root=who == "root") as (someone, place),
        contextlib.closing(Host(someone, place)) as host,
    ):
        for folder in (host.home, host.workspace):
            folder.chmod(0o755)
        for path in (host.workspace / "targets.json", *(host.workspace / "mechanisms").iterdir()):
            path.chmod(0o644)
        kept = ("HOME", "MY_API_TOKEN", "XDG_CONFIG_HOME")
        variables = {name: value for name, value in host.environment().items() if name in kept}
        machine = prefix(someone.python, "docker" if who == "root" else "no_namespaces")
        profiles = [str(host.runtime / "sentinel-kernel" / "profiles")]
        with Supervised(
            someone, place / "state", command_prefix=machine, environment=variables
        ) as supervised:
            payload = [supervised.python, "-c", _RUN.format(workspace=str(host.workspace))]
            fault = {"fault": {"step": "landlock_version", "errno": version}} if version else {}
            supervised.start(
                host.workspace, "attacked", payload=payload, profile_directories=profiles, **fault
            )
            ready = supervised.wait("ready")
            assert ready["rung"] == "landlock"
            assert supervised.wait("worker_died", 240)["cause"]["status"] == 0
            found = json.loads((Path(ready["rung_words"]["output"]) / "result.json").read_text())
        assert (host.workspace / "given.txt").read_text() == host.canary
    tried = Counter(one["category"] for one in found.values())
    record_property("figures", "\n".join(f"{name:20} {count:5}" for name, count in tried.items()))
    assert {name for name, one in found.items() if one["got"] == "ok"} == NAMES_ARE_SEEN
    assert host.canary not in json.dumps(found)
    assert len(found) >= _LEAST
