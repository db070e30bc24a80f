"""A back end that refuses, a sandbox that is gone: the supervisor goes on, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.policy.plan import Sizes
from sentinel_kernel.supervisor import current as current_module
from sentinel_kernel.supervisor import switching, thread_signals
from sentinel_kernel.supervisor.backend import Backend, Backends, GroupBackend
from sentinel_kernel.supervisor.cell_clock import CellClock

if TYPE_CHECKING:
    from pathlib import Path

_SIZES = Sizes(1 << 30, 1, 64, 1 << 20, 1 << 20, 1 << 20, None, None)


class _Refusing(Backend):
    """Refuses every size."""

    def set(self, sizes: Sizes, *, processors: bool = True) -> list[str]:
        """Refuse."""
        del sizes, processors
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Plan(SimpleNamespace):
    """What is changed by replacing it, as records are."""


def _replaced(record: Any, **changed: Any) -> Any:
    return type(record)(**{**vars(record), **changed})


@pytest.fixture
def sandboxed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a stand-in of a sandbox whose back end refuses."""
    real = switching.replace

    def replace(record: Any, **changed: Any) -> Any:
        return _replaced(record, **changed) if isinstance(record, _Plan) else real(record, **changed)

    monkeypatch.setattr(switching, "replace", replace)
    monkeypatch.setattr(current_module, "replace", replace)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield SimpleNamespace(
        sandbox=SimpleNamespace(resize=lambda _: [], pid=child.pid),
        backend=_Refusing("because"),
        preparation=_Plan(plan=_Plan(sizes=_SIZES, cpus=())),
        worker_pid=child.pid,
        unsettled=0,
    )
    child.communicate(b"\n")


def test_sizes_that_the_group_refuses_stay(sandboxed: Any) -> None:
    wanted = Sizes(2 << 30, 1, 65, 1 << 20, 1 << 20, 1 << 20, None, 1 << 30)
    assert switching.apply_sizes(sandboxed, wanted) == ["memory_bytes", "pids"]
    sizes = sandboxed.preparation.plan.sizes
    assert (sizes.memory_bytes, sizes.pids, sizes.file_size_bytes) == (1 << 30, 64, 1 << 30)


def test_processors_that_are_not_there_any_more(sandboxed: Any) -> None:
    sandboxed.preparation = _Plan(plan=_Plan(sizes=_SIZES, cpus=(1023,)))
    current_module.limit_processors(sandboxed)
    assert len(os.sched_getaffinity(sandboxed.worker_pid)) == 1
    assert set(sandboxed.preparation.plan.cpus) <= os.sched_getaffinity(0)
    assert "Bad file descriptor" in sandboxed.backend.detail


class _Leaf:
    """A group's leaf that keeps what is written."""

    def __init__(self, path: str = "", *, refuses: bool = False) -> None:
        self.path, self.refuses, self.closed = path, refuses, False
        self.descriptor = 0
        self.refused: set[str] = set()
        self.written: dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Have it all."""
        return bool(name)

    def read(self, name: str) -> str:
        """Use nothing."""
        return "0" if name else ""

    def counts(self, name: str) -> dict[str, int]:
        """Count nothing."""
        return {"usage_usec": 0} if name else {}

    def write(self, name: str, text: str) -> None:
        """Keep it."""
        if self.refuses or name in self.refused:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        self.written[name] = text

    def close(self) -> None:
        """Be closed."""
        self.closed = True


def test_numbers_beyond_the_linux_kernels_are_clamped() -> None:
    leaf = _Leaf()
    tree = SimpleNamespace(controllers=("cpu", "memory", "pids"), path="/")
    backend = GroupBackend("cgroup", leaf, tree)  # type: ignore[arg-type] - stand-ins
    backend.set(Sizes(None, 1 << 40, 1 << 50, 0, 0, 0, None, None))
    assert int(leaf.written["cpu.max"].split()[0]) < 1 << 44
    assert int(leaf.written["pids.max"]) < 1 << 22


@pytest.mark.parametrize(
    ("controllers", "refuses", "obstacle"),
    [(("io",), False, ""), (("io",), True, "disk"), (("memory",), False, "controller")],
)
def test_a_disk_whose_speed_can_not_be_limited_is_not_said_to_be(
    controllers: tuple[str, ...], obstacle: str, *, refuses: bool
) -> None:
    leaf = _Leaf()
    leaf.refused = {"io.max"} if refuses else set()
    tree = SimpleNamespace(controllers=controllers, path="/")
    backend = GroupBackend("cgroup", leaf, tree, ("8:0",))  # type: ignore[arg-type] - stand-ins
    assert (backend.io_obstacle, backend.holds_io) == (obstacle, not obstacle)


def test_a_leaf_that_can_not_be_used_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "leaf"
    path.mkdir()
    leaf = _Leaf(str(path), refuses=True)
    backends = Backends()
    tree = SimpleNamespace(controllers=("cpu",), path="/", make_leaf=lambda: leaf, close=lambda: None)
    backends._tree, backends._known = tree, "auto"  # type: ignore[assignment]
    assert backends.make("auto").name == "fallback"
    assert leaf.closed
    assert not path.exists()


def test_a_cell_that_begins_after_the_death_asks_nothing_of_the_sandbox() -> None:
    """Its group is closed by then."""
    sizes = Sizes(None, None, None, 0, 0, 0, None, None, cpu_seconds=10)
    dead = SimpleNamespace(
        sandbox=object(), preparation=_Plan(plan=_Plan(sizes=sizes, cpus=())), backend=None
    )
    clock = CellClock(lambda *_: None, lambda _: None, lambda: False)
    clock.sandbox_ready(dead, 1)  # type: ignore[arg-type] - a stand-in
    clock.sandbox_gone({})
    clock.begin_cell({"msg_id": "late"})
    assert clock.due_seconds() is None
    assert clock.catch_up() is None


@pytest.mark.parametrize(("end", "caught"), [("SigBlk:\t0\nSigCgt:\t{:x}\n", True), ("", False)])
def test_signals_behind_many_groups_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, *, caught: bool
) -> None:
    place = tmp_path / "status"
    place.write_text("Name:\tx\nGroups:\t" + "1234567890 " * 2000 + "\n" + end.format(1 << 9))
    real = os.open
    monkeypatch.setattr(thread_signals.os, "open", lambda _, flags: real(place, flags))
    assert thread_signals.catches(1, 10) is caught
