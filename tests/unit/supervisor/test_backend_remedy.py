"""What is to be done for control groups fits why there are none: version 1 counts, or nothing is delegated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sentinel_kernel import probes
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import cgroup
from sentinel_kernel.supervisor import group_tree
from sentinel_kernel.supervisor.backend import Backends

if TYPE_CHECKING:
    from pathlib import Path


def _refused(*_: object) -> object:
    raise UnsupportedHost("Nothing is delegated.")


def _absent() -> object:
    raise FileNotFoundError(2, "no control groups of version 2 are mounted here", "memory,pids")


@pytest.mark.parametrize(
    ("found", "cause", "remedy"),
    [
        (("memory", "pids"), "with control groups of version 1", "systemd.unified_cgroup_hierarchy=1"),
        (None, "No control groups of version 2 are mounted", "systemd.unified_cgroup_hierarchy=1"),
        ((), "Nothing is delegated.", "loginctl enable-linger"),
    ],
    ids=["version 1", "none mounted", "not delegated"],
)
def test_the_repair_fits_the_cause(
    found: tuple[str, ...] | None,
    cause: str,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "cgroup.controllers").write_text("" if found else "memory pids\n")
    place = None if found is None else cgroup.Place(str(tmp_path), str(tmp_path), found)
    monkeypatch.setattr(cgroup, "own_place", _absent if place is None else lambda: place)
    monkeypatch.setattr(group_tree, "find_tree", _refused)
    monkeypatch.setattr("sentinel_kernel.supervisor.backend._scope_tree", _refused)
    (probe,) = (one for one in probes.PROBES if one.name == "control_groups")
    with pytest.raises(UnsupportedHost) as caught:
        probe.run()
    told = caught.value.remedy or probe.remedy
    assert cause in caught.value.message
    assert remedy in told
    assert told.startswith("Not needed: ")
    assert ("linger" in told) is (found == ())
    with pytest.raises(UnsupportedHost) as caught:
        Backends().make("systemd")
    assert remedy in caught.value.remedy
    assert "at auto" in caught.value.remedy
