"""The supervisor is started before the host knows what to ask of it: nothing is left where nothing is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sentinel_kernel.kernel.spawning import start_early
from sentinel_kernel.supervisor.meeting_place import PREFIX, is_awaited, own_name


def _ended(pid: int) -> int:
    """Return the status that the child ``pid`` ended with."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_supervisor_that_is_asked_nothing_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    early = start_early(["-f", str(tmp_path / "kernel-1.json")])
    assert early is not None
    early.control.close()  # as where the host is killed before it has asked for anything
    assert _ended(early.pid) == 0
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_dropped_is_gone_and_reaped(tmp_path: Path) -> None:
    early = start_early(["-f", str(tmp_path / "kernel-1.json")])
    assert early is not None
    pid = early.pid
    early.drop()
    early.drop()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)
    assert not Path(f"/proc/{pid}").exists()


def test_none_is_started_where_one_may_wait_or_nothing_tells_for_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kernel = str(tmp_path / "kernel-1.json")
    base = tmp_path / "sentinel-kernel"
    base.mkdir(mode=0o700)
    (base / f"{PREFIX}1.0-abc-3.11-{own_name(kernel)}").touch()
    assert is_awaited(kernel)
    assert not is_awaited(str(tmp_path / "kernel-2.json"))
    assert start_early(["-f", kernel]) is None
    assert start_early(["-f"]) is None
    assert start_early([]) is None


def test_settings_that_can_not_be_read_leave_no_supervisor(tmp_path: Path) -> None:
    # Its output is a pipe that a supervisor would hold open: this ends when there is none.
    done = subprocess.run(
        [sys.executable, "-P", "-E", "-m", "sentinel_kernel", "-f", str(tmp_path / "kernel-1.json")],
        env={**os.environ, "SENTINEL_PROFILE": "no/such profile", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("sentinel_kernel: ")
