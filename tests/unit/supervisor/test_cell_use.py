"""What one cell has used: its own, whatever ran before it, and exact even where it is shorter than a tick."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.cell_summary import CellSummary
from sentinel_kernel.supervisor import processes
from sentinel_kernel.supervisor.meter import Meter
from sentinel_kernel.supervisor.processes import Process, process_seconds
from sentinel_kernel.supervisor.recorder import Recorder

if TYPE_CHECKING:
    import pytest

_MIB = 1 << 20


def test_a_processs_own_time_is_no_number_of_ticks() -> None:
    code = "print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # it has run by then
    process = Process(child.pid, keep_open=True)
    try:
        before = process_seconds(child.pid)
        seconds = process.cpu_seconds()
        assert before is not None
        assert seconds >= before > 0
        assert process.tasks == 1
    finally:
        child.communicate(b"\n")
        process.close()
    assert process_seconds(child.pid) is None, "it is gone"
    assert process.cpu_seconds() == 0.0


def test_where_there_is_no_clock_ticks_count(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(1, keep_open=False)
    fields = ["S", *["0"] * 10, "7", "5", "30", "20", "0", "0", "4", *["0"] * 30]
    monkeypatch.setattr(process.__class__, "_read", lambda *_: b"1 (x) " + " ".join(fields).encode())
    monkeypatch.setattr(processes, "process_seconds", lambda _: None)
    assert process.cpu_seconds() == 62 / processes._TICKS
    monkeypatch.setattr(processes, "process_seconds", lambda _: 0.1234)
    assert process.cpu_seconds() == 0.1234 + 50 / processes._TICKS


class _Sandbox(Meter):
    """A meter of a sandbox whose figures are given."""

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        super().__init__(lambda _, fields: sent.append(fields["sample"]))
        self.memory, self.seconds, self.looks = 50 * _MIB, 1.0, 0
        use = SimpleNamespace(shown_bytes=0, total_bytes=0, disk_bytes=0, held_bytes={})
        held: dict[str, Any] = {
            "_current": SimpleNamespace(peak_tasks=0, worker_pid=-1),
            "_use": use,
            "_processes": SimpleNamespace(cpu_seconds=lambda: self.seconds, tasks=3),
            "_shares": SimpleNamespace(refused=False),
            "_soft": SimpleNamespace(begin_cell=lambda _: None, told=False),
            "_headroom": SimpleNamespace(
                forget=lambda: None, begin_cell=lambda *_: None, has_grown=lambda _: False
            ),
            "_sizes": SimpleNamespace(memory_bytes=1 << 30),
            "_cpu_seconds": 0.0,
            "_cpu_total": 0.0,
            "_cpu_percent": 0.0,
            "_cpu_at": 0.0,
            "_data_now": 0,
            "_peak": 0,
            "_least_allowed": 1 << 30,
            "_measured_at": 0.0,
        }
        vars(self).update(held)

    def _measure(self) -> None:
        self.looks += 1
        self._use.shown_bytes = self.memory
        self._measured_at = time.monotonic()
        self._peak = max(self._peak, self.memory)
        self._read_cpu(self.seconds)

    def allowed_bytes(self) -> int:
        return 1 << 30

    def _take_sizes(self, current: object) -> None:
        assert current is self._current

    def _leave_headroom(self, allowed: int) -> None:
        assert allowed

    def _interval(self, took: float = 0.0) -> float:
        return took + 60.0

    def cell(self, *, memory: int, seconds: float) -> None:
        """Run a cell that ends well within no time."""
        self.begin_cell({})
        self.memory, self.seconds = memory, self.seconds + seconds
        self._begun_at = time.monotonic()  # it is a short one, however slow this machine is
        self.end_cell({"status": "ok"})


def test_a_short_cell_that_somebody_looks_at_has_its_own_figures() -> None:
    sent: list[dict[str, Any]] = []
    meter = _Sandbox(sent)
    meter.watch(on=True)
    meter._told_limits = meter._sizes
    meter.cell(memory=325 * _MIB, seconds=0.3)
    meter._measured_at = 0.0
    meter.memory = 60 * _MIB  # the library gave it back by and by
    meter.cell(memory=61 * _MIB, seconds=0.0021)
    assert [sample["cpu_seconds"] for sample in sent] == [0.3, 0.002]
    assert [sample["memory_peak_bytes"] // _MIB for sample in sent] == [325, 61]


def test_a_short_cell_that_nobody_looks_at_costs_nothing() -> None:
    sent: list[dict[str, Any]] = []
    meter = _Sandbox(sent)
    for _ in range(3):
        meter.cell(memory=_MIB, seconds=0.001)
    assert (meter.looks, sent) == (0, [])


def test_the_audit_has_a_cells_own_use_or_none() -> None:
    meter = _Sandbox([])
    headroom: Any = meter._headroom
    headroom.has_grown = lambda _: True  # the worker is another size than it was seen with
    recorder = Recorder(lambda *_: None, lambda: meter.sample)
    rows: list[tuple[str, dict[str, Any]]] = []
    delivery: Any = SimpleNamespace(
        settings=SimpleNamespace(path="/audit.db"), awake=False, report=lambda *row: rows.append(row)
    )
    recorder._delivery = delivery

    def cell(msg_id: str, *, memory: int, seconds: float, begun_at: float | None = None) -> None:
        for keeper in (meter, recorder):
            keeper.begin_cell({"msg_id": msg_id})
        meter.memory, meter.seconds = memory, meter.seconds + seconds
        meter._begun_at = time.monotonic() if begun_at is None else begun_at
        for keeper in (meter, recorder):
            keeper.end_cell({"msg_id": msg_id, "status": "ok"})

    cell("first and short", memory=50 * _MIB, seconds=0.001)
    cell("long", memory=325 * _MIB, seconds=2.5, begun_at=0.0)
    meter.memory = 60 * _MIB
    cell("short", memory=61 * _MIB, seconds=0.001)
    recorder.begin_cell({"msg_id": "answered"})
    recorder.end_cell({"msg_id": "answered", "status": "error"})
    cell("long again", memory=70 * _MIB, seconds=0.5, begun_at=0.0)
    recorder.begin_cell({"msg_id": "dies at once"})
    recorder.sandbox_gone({"kind": "signal", "signal": 9})
    found = [(row["msg"], row["mem_peak_bytes"], row["cpu_seconds"]) for kind, row in rows if kind == "end"]
    assert found == [
        ("first and short", None, None),
        ("long", 325 * _MIB, 2.5),
        ("short", None, None),
        ("answered", None, None),
        ("long again", 70 * _MIB, 0.5),
        ("dies at once", None, None),
    ]


def test_a_sample_of_an_earlier_cell_is_not_shown_as_this_ones() -> None:
    shown: list[str] = []
    old: Any = SimpleNamespace(memory_peak_bytes=325 * _MIB, cpu_seconds=0.3)
    host: Any = SimpleNamespace(
        usage=SimpleNamespace(newest=old, watch=lambda *_, **__: None),
        displays=SimpleNamespace(refusals=0, new_id=lambda: "id"),
        settings=SimpleNamespace(language="en"),
        outbox=SimpleNamespace(display=lambda bundle, *_: shown.append(bundle["text/plain"])),
    )
    summary = CellSummary(host, on=True)
    cell: Any = SimpleNamespace(
        request=SimpleNamespace(msg_id="m", header=b"{}"), silent=False, execution_count=4
    )
    summary.begins(cell)
    summary.ends(cell)
    assert "325" not in shown[0]
    assert "CPU not known" in shown[0]
    summary.begins(cell)
    host.usage.newest = SimpleNamespace(memory_peak_bytes=61 * _MIB, cpu_seconds=0.002)
    summary.ends(cell)
    assert "peak memory 61 MiB; CPU 2 ms" in shown[1]
