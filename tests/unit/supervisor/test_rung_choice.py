"""The landlock rung's start: what cells' environment leads to, and the note that there is such a sandbox."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.errors import BootError
from sentinel_kernel.supervisor import rung_choice, rung_sandbox, strays
from sentinel_kernel.supervisor.certificates import PLACE
from sentinel_kernel.supervisor.channels import LESSER
from sentinel_kernel.supervisor.sandbox import DIED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the note lies; nothing of others is swept."""
    monkeypatch.setattr(rung_sandbox, "base_directory", lambda: str(tmp_path))
    monkeypatch.setattr(rung_sandbox, "sweep_private_folders", lambda: None)
    monkeypatch.setattr(strays, "end_strays", lambda: None)
    return tmp_path / LESSER


def test_no_variable_leads_to_certificates_that_are_not_there() -> None:
    environment = {
        "SSL_CERT_FILE": f"{PLACE}/ssl_cert_file.pem",
        "SSL_CERT_DIR": f"/etc/ssl/certs:{PLACE}/folder1",
        "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
        "HOME": "/root",
    }
    plan: Any = SimpleNamespace(environment=environment)
    folders: Any = SimpleNamespace(home="/h", tmp="/t", output="")
    assert rung_choice._environment(plan, folders) == {
        "REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
        "HOME": "/h",
        "TMPDIR": "/t",
        "SENTINEL_RUNG": "landlock",
    }


@pytest.mark.parametrize(
    ("marked", "stays"),
    [((False, False), False), ((False, True), True), ((True,), True)],
    ids=["nobody is there", "one starts meanwhile", "one is there"],
)
def test_the_note_goes_only_where_nobody_is_there_before_and_after(
    note: Path, monkeypatch: pytest.MonkeyPatch, marked: tuple[bool, ...], stays: bool
) -> None:
    seen: Iterator[bool] = iter(marked)
    monkeypatch.setattr(strays, "any_marked", lambda: next(seen))
    note.touch()
    rung_sandbox.sweep(str(note))
    process = rung_sandbox._gone.pop()
    _wait_for(process)
    assert note.exists() == stays


def test_a_note_that_was_removed_during_the_start_is_there_afterwards(
    note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(plan=SimpleNamespace(started_by_root=False))
    sandbox = SimpleNamespace(listener=None, pid=1, calls=None)

    def start(*_: object) -> Any:
        note.unlink()  # as the sweep of another kernel does that has found nobody yet
        return sandbox

    monkeypatch.setattr(rung_choice, "_lesser_preparation", lambda *_: (made, None, SimpleNamespace()))
    monkeypatch.setattr(rung_choice, "open_folders", lambda _: {})
    monkeypatch.setattr(rung_sandbox, "start_listed", start)
    monkeypatch.setattr("sentinel_kernel.supervisor.rung_calls.RungCalls", lambda *_: None)
    note.touch()
    anything: Any = None
    assert rung_choice._start(anything, "", BootError("clone", 1, ""), anything, anything, None)[1] is sandbox
    assert note.exists()


def _wait_for(process: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, 0)


def test_a_process_that_is_not_in_proc_has_ended_or_is_hidden() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    pidfds = [os.pidfd_open(pid), os.pidfd_open(os.getpid())]
    os.waitpid(pid, 0)
    steps = []
    for pidfd in pidfds:
        with pytest.raises(BootError) as caught:
            rung_sandbox.check_seen(pid, pidfd)
        steps.append(caught.value.step)
    rung_sandbox.check_seen(os.getpid(), pidfds[1])  # positive control
    for pidfd in pidfds:
        os.close(pidfd)
    assert steps == [DIED, "see_processes"]
