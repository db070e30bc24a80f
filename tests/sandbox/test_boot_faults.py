"""Every boot step that fails is reported by name with its errno, and leaves the host as it was."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from leaks import descendants
from waiting import wait_until

from sentinel_kernel.boot.sequence import step_names

if TYPE_CHECKING:
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]


def test_each_step_fails_closed_and_the_host_is_untouched(supervised: Supervised, workspace: Path) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    listing = sorted(path.name for path in workspace.iterdir())
    for step in step_names():
        marker = workspace / "ran"
        supervised.start(
            workspace,
            payload=["/bin/sh", "-c", f"touch '{marker}'"],
            fault={"step": step, "errno": errno.EDQUOT},
        )
        event = supervised.wait("unavailable")
        assert event["step"] == step
        assert event["errno"] == errno.EDQUOT
        for language in ("en", "zh"):
            assert event[f"cause_{language}"]
            assert event[f"remedy_{language}"]
        wait_until(lambda: not descendants(supervised.process.pid), "the failed child is gone")
        assert sorted(path.name for path in workspace.iterdir()) == listing
        assert Path("/proc/self/mountinfo").read_text() == mounts
        assert not list((supervised.state / "run" / "sentinel-kernel").iterdir())
    # The same supervisor can still make a sandbox: nothing was used up.
    assert supervised.run(workspace, ["/bin/true"])["status"] == 0


def test_a_payload_that_does_not_exist_is_named(supervised: Supervised, workspace: Path) -> None:
    supervised.start(workspace, payload=["/nowhere/python"])
    event = supervised.wait("unavailable")
    assert event["step"] == "execute"
    assert event["errno"] == errno.ENOENT


def test_the_root_folder_is_refused_as_workspace(supervised: Supervised) -> None:
    supervised.start(Path("/"), payload=["/bin/true"])
    event = supervised.wait("unavailable")
    assert "workspace" in event["cause_en"]
    assert "folder of your notebooks" in event["remedy_en"]


def test_a_profile_that_is_not_there_is_named(supervised: Supervised, workspace: Path) -> None:
    supervised.start(workspace, "no-such-profile", payload=["/bin/true"])
    event = supervised.wait("unavailable")
    assert "no-such-profile" in event["cause_en"]
