"""The warm spare: who takes it, who may not, and what becomes of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import leaks
import pytest
from live_kernel import SECONDS, Notebook, notebook
from waiting import wait_until

from sentinel_kernel.supervisor import rendezvous

pytestmark = pytest.mark.sandbox


def _children(pid: int) -> set[int]:
    """Return the living children of a process."""
    found = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def _supervisor(book: Notebook) -> int:
    """Return the supervisor that serves a kernel: whoever holds the other end has a sandbox below it."""
    every = {pid for pid in leaks.descendants() if b"supervisor/__main__.py" in _command(pid)}
    # The audit's writer is a fork of the supervisor, and its child.
    known = list(every - {child for pid in every for child in _children(pid)})
    assert len(known) == 1, f"one supervisor serves {book.host_pid}: {known}"
    return known[0]


def _sandboxes(supervisor: int) -> set[int]:
    """Return pid 1 of each sandbox of a supervisor whose interpreter runs."""
    return {pid for pid in _children(supervisor) if b"sentinel_kernel.worker.init" in _command(pid)}


def _with_spare(book: Notebook) -> tuple[int, int]:
    """Run a cell, wait for the spare, and return pid 1 of the sandbox in use and of the spare."""
    assert book.run("x = 1").reply["status"] == "ok"
    supervisor = _supervisor(book)
    used = {pid for pid in _sandboxes(supervisor) if _children(pid)}
    assert len(used) == 1
    wait_until(lambda: len(_sandboxes(supervisor)) == 2, "a spare is made", SECONDS)
    return used.copy().pop(), (_sandboxes(supervisor) - used).pop()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _served_by(book: Notebook) -> set[int]:
    """Return pid 1 of each sandbox in which a worker runs."""
    return {pid for pid in _sandboxes(_supervisor(book)) if _children(pid)}


def test_reset_takes_the_spare_and_nothing_of_the_old_sandbox(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", SENTINEL_COMMIT="none") as book:
        old, spare = _with_spare(book)
        book.run("x = 2; open('left.txt', 'w').write('x'); open('/tmp/left.txt', 'w').write('x')")
        result = book.run("%sentinel_reset\nimport os\n('x' in dir(), os.listdir('.'), os.listdir('/tmp'))")
        assert result.reply["status"] == "ok"
        assert "(False, [], [" in result.bundles("text/plain")[-1]
        assert "left.txt" not in result.bundles("text/plain")[-1]
        assert _served_by(book) == {spare}
        assert not _alive(old)


def test_kill_takes_the_spare_and_the_next_cell_runs_in_it(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        _, spare = _with_spare(book)
        died = book.run("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)")
        assert died.reply["ename"] == "SandboxDied"
        assert book.run("1 + 1").reply["status"] == "ok"
        assert _served_by(book) == {spare}


@pytest.mark.parametrize("now", [False, True], ids=["asked to end", "killed"])
def test_restart_hands_the_spare_to_the_next_host(tmp_path: Path, *, now: bool) -> None:
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", SENTINEL_COMMIT="none") as book:
        _, spare = _with_spare(book)
        supervisor, host = _supervisor(book), book.host_pid
        book.run("x = 5; open('left.txt', 'w').write('x')")
        book.manager.restart_kernel(now=now)
        book.client.wait_for_ready(timeout=SECONDS)
        assert book.host_pid != host
        told = book.run("'x' in dir()")
        assert told.bundles("text/plain")[-1] == "False"
        assert "changed file was saved" in "".join(told.bundles("text/plain"))
        assert _supervisor(book) == supervisor
        assert _served_by(book) == {spare}
        assert book.run("y = 1").reply["execution_count"] == 2


def test_restart_without_a_spare_goes_on_with_the_same_supervisor(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_SPARE="off") as book:
        book.run("1")
        supervisor = _supervisor(book)
        book.manager.restart_kernel()
        book.client.wait_for_ready(timeout=SECONDS)
        assert book.run("1").reply["status"] == "ok"
        assert _supervisor(book) == supervisor
        assert len(_sandboxes(supervisor)) == 1


def test_host_killed_and_never_restarted_leaves_nothing(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        old, spare = _with_spare(book)
        supervisor = _supervisor(book)
        os.kill(book.host_pid, signal.SIGKILL)
        wait_until(lambda: not _alive(old), "the sandbox in use is gone at once", SECONDS)
        wait_until(lambda: not _alive(spare) and not _alive(supervisor), "then the spare is", SECONDS)


def test_shutdown_for_good_does_not_wait_for_another_host(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        _, spare = _with_spare(book)
        supervisor = _supervisor(book)
        book.client.shutdown()
        # Without a door there is no next host to wait for: the reply to "stop" is its last word.
        wait_until(lambda: not _alive(supervisor), "the supervisor is gone", rendezvous.KEEP_SECONDS - 1)
        assert not _alive(spare)


def test_spare_that_is_killed_is_missed_by_nobody(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        _, spare = _with_spare(book)
        os.kill(spare, signal.SIGKILL)
        wait_until(lambda: not _alive(spare), "it is reaped", SECONDS)
        assert book.run("%sentinel_reset\n1").reply["status"] == "ok"
        assert _with_spare(book)[1] != spare


def test_profile_that_was_edited_meanwhile_counts(tmp_path: Path) -> None:
    profiles = tmp_path / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    mine = profiles / "mine.json"
    mine.write_text(json.dumps({"description": "before", "extends": "strict"}))
    with notebook(tmp_path, SENTINEL_PROFILE="mine", XDG_CONFIG_HOME=str(tmp_path / "config")) as book:
        _, spare = _with_spare(book)
        mine.write_text(
            json.dumps({"description": "after", "extends": "strict", "resources": {"open_files": 321}})
        )
        result = book.run("%sentinel_reset\nimport resource\nresource.getrlimit(resource.RLIMIT_NOFILE)[0]")
        assert result.bundles("text/plain")[-1] == "321"
        assert not _alive(spare)


def test_workspace_that_was_replaced_meanwhile_counts(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        _, spare = _with_spare(book)
        (tmp_path / "work").rename(tmp_path / "old")
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "new.txt").write_text("new")
        result = book.run("%sentinel_reset\nopen('new.txt').read()")
        assert result.bundles("text/plain")[-1] == "'new'"
        assert not _alive(spare)


def test_door_in_a_folder_of_somebody_else_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "sentinel-kernel").mkdir(mode=0o700)
    door = rendezvous.Door("/x/kernel.json")
    try:
        found = rendezvous.connect("/x/kernel.json")
        assert found is not None
        assert found[1] == os.getpid()
        found[0].close()
        assert rendezvous.connect("/x/another.json") is None
        (tmp_path / "sentinel-kernel").chmod(0o755)
        assert rendezvous.connect("/x/kernel.json") is None
        with pytest.raises(OSError, match="not a private folder"):
            rendezvous.Door("/x/kernel.json")
    finally:
        door.close()
    assert not list((tmp_path / "sentinel-kernel").iterdir())


def test_sweep_leaves_doors_that_are_open_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    base = tmp_path / "sentinel-kernel"
    base.mkdir(mode=0o700)
    left = rendezvous.Door("/x/left.json")
    left.sock.close()  # as a killed supervisor leaves it
    kept = rendezvous.Door("/x/kept.json")
    assert len(list(base.iterdir())) == 2
    rendezvous.sweep(str(base))
    assert [entry.name for entry in base.iterdir()] == [rendezvous.socket_name("/x/kept.json")]
    assert rendezvous.connect("/x/left.json") is None
    kept.close()


def test_cell_in_a_workspace_around_the_run_folder_sees_no_door(tmp_path: Path) -> None:
    run = tmp_path / "work" / "run"
    (run / "sentinel-kernel").mkdir(mode=0o700, parents=True)
    (run / "sentinel-kernel" / "decoy").touch()
    (run / "shown.txt").touch()
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", XDG_RUNTIME_DIR=str(run)) as book:
        shown = book.run("import os; sorted(os.listdir('run'))").bundles("text/plain")
        assert shown == ["['sentinel-kernel', 'shown.txt']"]
        listed = book.run("os.listdir('run/sentinel-kernel')")
        assert listed.reply["status"] == "error" or listed.bundles("text/plain") == ["[]"]
