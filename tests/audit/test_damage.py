"""Settings, databases and writers that are not as they should be: told with words, counted, and survived."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from audit_rows import cell, fill, looked_into, now_ms, run
from sample_violations import refusal

from sentinel_kernel.audit import chain, export, place
from sentinel_kernel.audit.chinese import chinese
from sentinel_kernel.audit.place import REMEDY, REQUIRED, AuditSettings, read_audit_settings, settings_beside
from sentinel_kernel.audit.retention import prune
from sentinel_kernel.audit.schema import open_for_reading, open_for_writing
from sentinel_kernel.audit.writer import Writer
from sentinel_kernel.cli import main
from sentinel_kernel.errors import BootError, SentinelError
from sentinel_kernel.kernel.audit_page import AuditPage, _trouble
from sentinel_kernel.supervisor import preparation
from sentinel_kernel.supervisor.audit_delivery import AuditDelivery
from sentinel_kernel.supervisor.audit_process import AuditProcess, _packet
from sentinel_kernel.supervisor.hidden_places import audit_folder
from sentinel_kernel.supervisor.recorded import _MOST_KINDS, Refusals
from sentinel_kernel.supervisor.recorder import Recorder
from sentinel_kernel.supervisor.remedies import describe

if TYPE_CHECKING:
    from pathlib import Path

    from sentinel_kernel.policy.violation import Violation


def violation(number: int) -> Violation:
    now = int(time.time() * 1000)
    return refusal(f"v{number}", number=41, first_time_ms=now, last_time_ms=now)


def test_more_kinds_than_are_remembered_are_kept_until_reported_and_dropped_counted_beyond_a_bound() -> None:
    refusals = Refusals()
    for number in range(_MOST_KINDS):
        refusals.add(violation(number), None)
    assert refusals.dropped == 0
    refusals.answer(violation(_MOST_KINDS), "once", None)
    refusals.answer(violation(_MOST_KINDS + 1), "no", None)
    assert refusals.dropped == 2
    assert refusals.due_seconds(0.0) >= 0.0
    assert len(list(refusals.reports(everything=True))) == _MOST_KINDS
    assert not refusals.due


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", "1e400G"])
def test_sizes_that_are_no_numbers_are_told_and_have_nothing_deleted(value: str) -> None:
    for name in ("SENTINEL_AUDIT_DAYS", "SENTINEL_AUDIT_BYTES"):
        settings = read_audit_settings({"HOME": "/home/ada", name: value})
        assert settings.path == "/home/ada/.local/state/sentinel-kernel/audit.db"
        assert settings.problem == ""
        assert name in settings.doubts[0]
        assert len(settings.doubts) == 1
        # What was to be kept is not known: all of it is.
        kept = (settings.days, settings.maximum_bytes)
        assert kept == ((36_500, 256 << 20) if name.endswith("DAYS") else (90, 1 << 62))


def test_an_age_beyond_a_century_is_a_century_and_ends_no_writer(tmp_path: Path) -> None:
    settings = read_audit_settings({"HOME": "/home/ada", "SENTINEL_AUDIT_DAYS": "1e300"})
    assert settings.days == 36_500
    path = tmp_path / "audit.db"
    fill(path, 2)
    with contextlib.closing(open_for_writing(str(path))) as connection:
        assert prune(connection, float("inf"), 1 << 30).rows == 0
        writer = Writer(None, AuditSettings(str(path)))  # type: ignore[arg-type]
        told: list[dict[str, Any]] = []
        writer._send = told.append  # type: ignore[method-assign]
        writer._connection = connection
        connection.execute("UPDATE chain SET pruned_ts = 'never'")
        writer._keep_within()
    assert writer._failures == 1
    assert told[-1]["state"] == "failing"


@pytest.mark.parametrize("name", ["XDG_STATE_HOME", "HOME"])
def test_a_relative_folder_is_told_by_the_name_of_its_variable(name: str) -> None:
    settings = read_audit_settings({"HOME": "/h", name: "here"})
    assert settings.path == ""
    assert settings.problem.startswith(f"{name} must be")
    assert chinese(settings.problem).startswith(f"{name} 必须")


def test_a_lab_that_requires_the_audit_starts_no_sandbox_without(tmp_path: Path) -> None:
    state = tmp_path / ".local" / "state" / "sentinel-kernel"
    message = {"profile": "strict", "python": "python3", "workspace": str(state / "work")}
    asked = {"SENTINEL_AUDIT": "", "XDG_STATE_HOME": "", "HOME": str(tmp_path)}
    without = preparation.parse_start({**message, "audit": asked})
    assert audit_folder(without) == str(state)
    required = preparation.parse_start({**message, "audit": {**asked, REQUIRED: "on"}})
    with pytest.raises(BootError, match="cells could read it") as raised:
        audit_folder(required)
    words = describe(raised.value)
    assert words["step"] == "audit"
    assert "lab" in words["remedy_en"]
    assert "实验室" in words["remedy_zh"]
    assert "审计数据库" in words["cause_zh"]
    mistyped = {**asked, REQUIRED: "on", "SENTINEL_AUDIT_DAYS": "3O"}
    with pytest.raises(BootError, match="'3O' is no number of days"):
        audit_folder(preparation.parse_start({**message, "workspace": "/nowhere", "audit": mistyped}))
    elsewhere = preparation.parse_start(
        {**message, "workspace": "/nowhere", "audit": {**asked, REQUIRED: "on"}}
    )
    assert audit_folder(elsewhere) == str(state)


def test_what_the_notebook_shows_of_the_audit_has_chinese_words(tmp_path: Path) -> None:
    beside = settings_beside({"SENTINEL_AUDIT": str(tmp_path / "audit.db")}, str(tmp_path / "work"))
    problems = [
        beside,
        *(
            read_audit_settings({"HOME": "/h", name: "x"})
            for name in (
                "SENTINEL_AUDIT",
                "SENTINEL_AUDIT_DAYS",
                "SENTINEL_AUDIT_BYTES",
                "SENTINEL_AUDIT_ALERT",
            )
        ),
    ]
    for settings in problems:
        texts = [text for text in (settings.problem, settings.remedy, *settings.doubts) if text]
        assert texts
        for text in texts:
            assert not chinese(text).isascii(), text
    for text in (REMEDY, "Restart the kernel.", "Move /a/b away; the next row makes a new one."):
        assert not chinese(text).isascii(), text
    assert chinese("disk I/O error") == "disk I/O error"
    trouble = _trouble({"state": "failing", "reason": beside.problem, "remedy": beside.remedy})
    assert trouble is not None
    assert "cells could read it" not in trouble[0].message("zh")


EDITS = (
    "UPDATE chain SET hash = 'text'",
    "UPDATE chain SET seq = 'text'",
    "UPDATE executions SET start_ts = 'text', end_ts = 9e999",
    "UPDATE executions SET start_ts = 9e18, command = x'00ff', refusals = x'00', mem_peak_bytes = 'much'",
    "UPDATE resource_samples SET mem_bytes = 'text', cpu_pct = x'00', ts = 'text'",
    "UPDATE resource_samples SET mem_bytes = 9e999, cpu_pct = 9e999",
    "UPDATE syscall_events SET count = x'00', line = x'00', semantic_msg = x'00'",
    "UPDATE session_events SET detail = x'00', ts = 'text', seq = 'text'",
)


class Settings:
    language = "en"


class Host:
    settings = Settings()


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_database_is_a_fault_and_ends_nobody(
    tmp_path: Path, edit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "audit.db"
    fill(path, 3)
    with looked_into(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = 1")
        edited = connection.execute(edit).rowcount
        connection.commit()
    page = AuditPage(Host())  # type: ignore[arg-type]
    shown = page.page({"state": "on", "path": str(path), "run": "run-1"})
    assert "Sentinel: audit" in shown["text/plain"]
    for arguments in (["list"], ["show", "1"], ["show", "2"], ["export", "--format", "csv"], ["prune"]):
        assert main(["audit", "--database", str(path), *arguments]) in (0, 1)
    capsys.readouterr()
    if edited and "session_events" not in edit:
        with contextlib.closing(open_for_reading(str(path))) as reader:
            assert chain.verify(reader).faults
        assert main(["audit", "--database", str(path), "verify"]) == 1
        assert "FAULT" in capsys.readouterr().out


def test_a_damaged_head_takes_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    fill(path, 1)
    with contextlib.closing(open_for_writing(str(path))) as connection:
        connection.execute("UPDATE chain SET hash = 'text'")
        with pytest.raises(SentinelError, match="damaged"):
            chain.Chain(connection)


def test_an_export_over_a_file_that_others_could_read_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("longer than what is written")
    path.chmod(0o644)
    with export.open_output(str(path)) as file:
        file.write("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "new"
    export.open_output(os.devnull).close()


def test_prune_takes_nothing_for_a_number_and_every_command_tells_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    fill(path, 3, now_ms() - 60_000)

    def audit(*arguments: str) -> int:
        return main(["audit", "--database", str(path), *arguments])

    for arguments in (["--days", "-1"], ["--days", "inf"], ["--days", "nan"], ["--bytes", "-1"]):
        assert audit("prune", *arguments) == 1
    assert audit("prune", "--days", "0") == 0
    assert "rows deleted" in capsys.readouterr().out
    with looked_into(path) as connection:
        assert connection.execute("SELECT count(*) FROM executions").fetchone() == (0,)
    monkeypatch.setenv("SENTINEL_AUDIT_DAYS", "inf")
    for command in (
        ["list"],
        ["show", "1"],
        ["export"],
        ["verify"],
        ["prune", "--days", "1", "--bytes", "9"],
    ):
        audit(*command)
        assert "SENTINEL_AUDIT_DAYS can't be understood" in capsys.readouterr().err
    assert audit("prune") == 1


class Dead(AuditProcess):
    """A writer that has ended with packets before it."""

    def __init__(self, packets: list[bytes]) -> None:
        self._outbox = deque(packets)
        self.gone = True
        self.pid = 0

    def receive(self) -> list[dict[str, Any]]:
        return []


def test_what_a_writer_did_not_take_goes_to_the_next_one_or_is_counted() -> None:
    delivery = AuditDelivery(lambda _state: None, Refusals())
    delivery.settings = AuditSettings("/nowhere/audit.db")
    packets = [
        _packet(0, [json.dumps(part) for part in (run(), *cell(1)[:1])]),
        _packet(1, [json.dumps(["rest", {}])]),
    ]
    for ends in range(3):
        delivery._writer = Dead(packets)
        delivery.hear()
        if ends < 2:
            assert delivery._pending[0][0] == "begin"
            assert delivery._pending[-1][1]["kind"] == "lost"
            assert delivery.state()["dropped"] == 0
    assert delivery._pending == []
    assert delivery.state()["dropped"] == 5


def test_a_refused_question_that_is_late_is_counted_and_a_yes_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(lambda _name, _fields: None, dict)
    recorder._delivery.settings = AuditSettings("/nowhere/audit.db")
    monkeypatch.setattr(recorder._delivery, "durable", lambda _seconds: False)
    assert not recorder.answering(violation(1), "once")
    assert recorder._delivery.late == 0
    assert not recorder.answering(violation(2), "no")
    assert recorder._delivery.late == 1
    assert place.read_bytes("1.5K") == 1536
