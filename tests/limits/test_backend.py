"""What enforces the limits on this machine, and what is said where that is less than was asked for.

Control groups that carry memory and processors are tried in a virtual machine (tests/vm); dividing a tree, sweeping it
and being made inside of a group need no controllers and are tried here, where root may make groups.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lacking import lacking
from supervised import Supervised
from waiting import wait_until

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux.cgroup import own_place
from sentinel_kernel.supervisor import user_scope
from sentinel_kernel.supervisor.backend import Backends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

pytestmark = pytest.mark.sandbox

_ROOT = Path(__file__).resolve().parents[2]
_BEGIN = """
    import os, signal, sys
    from sentinel_kernel.abi.sched import CloneFlags
    from sentinel_kernel.linux.cgroup import Group, own_place
    from sentinel_kernel.linux.namespaces import clone_into
    from sentinel_kernel.supervisor import group_tree
    group_tree.NEEDED = group_tree.WELCOME = ()
    path = sys.argv[1]
"""


def _tree() -> str:
    """Return where the tree of version 2 is mounted, or skip."""
    try:
        return own_place().mount
    except OSError as error:
        pytest.skip(f"no control groups of version 2: {error}")


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a fresh group of version 2 that nobody is in."""
    path = Path(_tree()) / f"test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no group can be made: {error}")
    yield path
    wait_until(lambda: not _processes(path), "the group is empty")
    for child in path.iterdir():
        if child.is_dir():
            child.rmdir()
    path.rmdir()


def _processes(path: Path) -> str:
    return "".join((one / "cgroup.procs").read_text() for one in (path, *filter(Path.is_dir, path.iterdir())))


def _divide(path: Path, code: str) -> subprocess.Popen[str]:
    """Run ``code`` as a process that divides the group."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_BEGIN) + textwrap.dedent(code), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )


def test_what_keeps_the_limits_is_named_with_the_reason(identity: Identity) -> None:
    folder = Path(tempfile.mkdtemp(prefix="place-", dir=identity.home))  # where an ordinary user may go
    work = _work(identity, folder)
    with Supervised(identity, folder) as supervised:
        supervised.run(work, ["/usr/bin/true"])
        ready = next(event for event in supervised.events if event["event"] == "ready")
    assert ready["backend"] in ("cgroup", "systemd", "fallback")
    assert ready["backend_detail"]
    if "memory" in own_place().legacy and ready["backend"] == "fallback":
        assert "memory, pids with control groups of version 1, which are not used" in ready["backend_detail"]


@pytest.mark.parametrize("wanted", ["cgroup", "systemd"])
def test_a_back_end_that_is_asked_for_and_missing_is_an_error_with_its_repair(
    own_user: Identity, tmp_path: Path, wanted: str
) -> None:
    if Backends().make("auto").name != "fallback":
        pytest.skip("this machine has it")
    work = _work(own_user, tmp_path)
    with Supervised(own_user, tmp_path, environment={"SENTINEL_LIMITS_BACKEND": wanted}) as supervised:
        supervised.start(work, payload=["/usr/bin/true"])
        told = supervised.wait("unavailable")
        assert f"SENTINEL_LIMITS_BACKEND={wanted} is not to be had: " in told["cause_en"]
        # It depends on the cause: no control groups of version 2 are mounted, or none is delegated.
        assert told["remedy_en"].startswith(("Start JupyterLab in ", "To have it: "))
        assert "SENTINEL_LIMITS_BACKEND" in told["remedy_en"]
        # What was wrong is no reason not to go on with another one.
        assert supervised.run(work, ["/usr/bin/true"], limits_backend="fallback")["status"] == 0


def test_a_back_end_that_is_none_is_refused_with_the_names_of_those_that_are() -> None:
    with pytest.raises(UnsupportedHost) as caught:
        Backends().make("docker")
    assert "auto, cgroup, systemd, fallback" in str(caught.value)


def test_leaves_of_killed_supervisors_are_swept_and_those_of_living_ones_stay(group: Path) -> None:
    code = """
        leaf = group_tree.Tree(Group(path)).make_leaf()
        child, _ = clone_into(CloneFlags(0), leaf.descriptor)
        if child == 0:
            os.closerange(0, 1000)
            signal.pause()
        print(leaf.path, child, flush=True)
        signal.pause()
    """
    killed, living = _divide(group, code), _divide(group, code)
    try:
        old, victim = str(killed.stdout and killed.stdout.readline()).split()
        kept, sleeper = str(living.stdout and living.stdout.readline()).split()
        assert Path(old, "cgroup.procs").read_text().split() == [victim]
        killed.kill()
        killed.wait()
        next_one = _divide(group, "print(group_tree.Tree(Group(path)).make_leaf().path)")
        assert next_one.communicate()[0].startswith(f"{group}/sentinel-{next_one.pid}-")
        assert not Path(old).exists()
        assert Path(kept, "cgroup.procs").read_text().split() == [sleeper]
        os.kill(int(sleeper), signal.SIGKILL)
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()
    last = _divide(group, "group_tree.Tree(Group(path))")
    last.communicate()
    assert [child.name for child in group.iterdir() if child.is_dir()] == []


def test_a_supervisor_alone_in_its_group_moves_into_a_leaf_and_back(group: Path) -> None:
    code = """
        group_tree._gives = lambda group: False
        with open(f"{path}/cgroup.procs", "w") as file:
            file.write("0")
        tree = group_tree.Tree(Group(path))
        print(own_place().path)
        tree.close()
        print(own_place().path, [name for name in os.listdir(path) if name.startswith("sentinel-")])
    """
    process = _divide(group, code)
    output = process.communicate()[0]
    assert output.splitlines() == [f"{group}/sentinel-supervisor-{process.pid}", f"{group} []"]


def test_a_group_with_others_in_it_is_not_divided(group: Path) -> None:
    code = """
        group_tree._gives = lambda group: False
        with open(f"{path}/cgroup.procs", "w") as file:
            file.write("0")
        if os.fork() == 0:
            signal.pause()
        from sentinel_kernel.linux.cgroup import Place
        try:
            group_tree.find_tree(Place(path, path, ()))
        except Exception as error:
            print(error)
        os.kill(0, signal.SIGKILL)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_BEGIN) + textwrap.dedent(code), str(group)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert "holds 2 processes: it is not this kernel's alone" in process.communicate()[0]
    assert [child.name for child in group.iterdir() if child.is_dir()] == []


def test_without_a_systemd_of_the_user_no_scope_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(UnsupportedHost, match="No systemd of this user runs"):
        user_scope.enter_scope()


def test_a_message_bus_that_hangs_delays_a_start_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any(os.access(path, os.X_OK) for path in user_scope._BUSCTL):
        lacking("busctl is not installed (apt-get install systemd)")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(user_scope, "_SECONDS", 0.3)
    (tmp_path / "systemd").mkdir()
    (tmp_path / "systemd" / "private").touch()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "bus"))
        silent.listen()
        with pytest.raises(UnsupportedHost, match=r"busctl (took too long|gave 1)"):
            user_scope.enter_scope()


def _work(identity: Identity, folder: Path) -> Path:
    work = folder / "work"
    work.mkdir()
    if os.geteuid() == 0:
        for path in (folder, work):
            os.chown(path, identity.uid, identity.uid)
    return work
