"""The writer process: floods with exact counts, several kernels at once, full disks, and its coming and going."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_rows import looked_into

from sentinel_kernel.audit import chain
from sentinel_kernel.audit.schema import open_for_reading
from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    from ordinary_user import Identity

DRIVER = Path(__file__).parent / "drivers" / "deliver.py"


def command(mode: str, *arguments: object) -> list[str]:
    return [sys.executable, "-P", str(DRIVER), mode, *map(str, arguments)]


def deliver(mode: str, *arguments: object, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    done = subprocess.run(
        [*prefix, *command(mode, *arguments)], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def flood(path: Path, seconds: float, kinds: int) -> None:
    told = deliver("flood", path, seconds, kinds)
    with looked_into(path) as connection:
        counted = connection.execute("SELECT sum(count), count(*) FROM syscall_events").fetchone()
        execution = connection.execute("SELECT refusals, status FROM executions").fetchone()
    print(
        f"{told['events']} events, {told['rate']:.0f} a second, {counted[1]} rows, {path.stat().st_size} bytes"
    )
    assert told["events"] >= 10_000 * seconds
    assert counted[0] == told["events"]
    assert execution == (told["events"], "completed")
    assert counted[1] <= 80 * 10  # kinds that are told apart, times windows that double
    assert path.stat().st_size < 1 << 20
    assert told["states"] == []


def test_a_flood_is_counted_exactly_in_a_bounded_file(tmp_path: Path) -> None:
    flood(tmp_path / "audit.db", 2, 100)


@pytest.mark.soak
def test_ten_thousand_a_second_for_ten_seconds(tmp_path: Path) -> None:
    flood(tmp_path / "audit.db", 10, 100)


def test_four_kernels_write_and_one_reads_at_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    cells = 60
    kernels = [
        subprocess.Popen(command("cells", path, cells, f"run-{number}"), stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    walks = 0
    while any(kernel.poll() is None for kernel in kernels):
        with contextlib.suppress(
            SentinelError
        ):  # there is no database, or no whole one, before the first row
            connection = open_for_reading(str(path))
            assert chain.verify(connection).faults == ()
            connection.close()
            walks += 1
    told = [json.loads(kernel.communicate()[0]) for kernel in kernels]
    assert [kernel.returncode for kernel in kernels] == [0] * 4
    assert walks > 0
    # A kill may have waited for three other kernels' rows; nothing was lost.
    assert all((state["state"], state["lost"]) == ("on", 0) for one in told for state in one["states"]), told
    with looked_into(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert chain.verify(connection).faults == ()
        ended = "SELECT run_id, count(*), count(end_ts), sum(refusals) FROM executions GROUP BY run_id"
        kills = cells // 10
        assert connection.execute(ended).fetchall() == [
            (f"run-{number}", cells, cells, cells * 5 + kills) for number in range(4)
        ]
        killed = "SELECT count(*) FROM syscall_events WHERE action = 'KILL' AND result = 'killed'"
        assert connection.execute(killed).fetchone() == (4 * kills,)
        assert connection.execute("SELECT count(*) FROM resource_samples").fetchone() == (4 * cells,)
        # Each row belongs to the execution of its own kernel.
        strangers = """
            SELECT count(*) FROM syscall_events JOIN executions ON executions.id = exec_id
            WHERE syscall_events.run_id <> executions.run_id
        """
        assert connection.execute(strangers).fetchone() == (0,)


def mounting() -> tuple[str, ...]:
    return (shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount")


@pytest.mark.requires("user_namespaces")
def test_a_full_disk_is_told_once_refuses_ask_counts_kill_and_is_written_when_there_is_room(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    told = deliver("full", folder / "audit.db", folder, prefix=mounting())
    assert "full" in told["failing"]["reason"], told["failing"]
    assert "Free some space" in told["failing"]["remedy"]
    assert len(told["told"]) <= 2, "the same trouble is told once"
    assert told["allowed"] is False
    assert told["late"] == 1
    assert told["again"] is True
    assert told["integrity"] == "ok"
    assert told["faults"] == []
    assert told["kills"] == 1
    assert told["asks"] == [["asked: once"], ["asked: once"]]
    assert told["executions"] == [told["number"] + 2] * 2
    assert ["late"] in told["notes"]


@pytest.mark.requires("user_namespaces")
def test_a_read_only_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    told = deliver("readonly", folder / "audit.db", folder, prefix=mounting())
    first = told["states"][0]
    assert first["state"] == "failing"
    assert "Read-only" in first["reason"]
    assert str(folder) in first["remedy"]
    assert told["allowed"] is False
    assert told["executions"] == [1, 1]
    assert told["faults"] == []


def test_a_folder_of_somebody_elses_is_told(ordinary_user: Identity, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    closed = Path("/proc/1") / "audit"
    code = (
        "import sys; sys.argv = ['x'];"
        f"exec(open({str(DRIVER)!r}).read().split('if __name__')[0]);"
        f"played = Played({str(closed / 'audit.db')!r}); played.begin('c'); played.end('c');"
        "print(played.states[0]['state'], played.states[0]['reason'], played.recorder.answering(violation(1), 'once'))"
    )
    driver = ordinary_user.home / "deliver.py"
    driver.write_text(DRIVER.read_text())
    code = code.replace(str(DRIVER), str(driver))
    done = ordinary_user.run(ordinary_user.python, "-P", "-c", code)
    assert done.stdout.startswith("failing /proc/1/audit"), done.stdout
    assert done.stdout.rstrip().endswith("False")


def test_a_writer_ends_where_nothing_runs_and_another_comes(tmp_path: Path) -> None:
    told = deliver("rest", tmp_path / "audit.db", "")
    assert told["counts"] == [[1, 1], [2, 2]]
    assert told["executions"] == [3, 3]
    assert told["faults"] == []
    assert told["states"] == []


def test_a_database_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    told = deliver("moved", tmp_path / "audit.db", tmp_path / "other.db")
    assert told["executions"] == [1, 1]
    assert told["faults"] == []
    assert told["states"] == []
    with looked_into(tmp_path / "other.db") as connection:
        assert connection.execute("SELECT count(*) FROM executions").fetchone() == (2,)
        assert chain.verify(connection).faults == ()


def test_a_writer_that_is_killed_is_told_and_replaced(tmp_path: Path) -> None:
    told = deliver("killed_writer", tmp_path / "audit.db", "")
    assert [state["state"] for state in told["states"]] == ["failing", "on"]
    assert "ended" in told["states"][0]["reason"]
    assert told["executions"] == [1, 1]
    assert told["faults"] == []
