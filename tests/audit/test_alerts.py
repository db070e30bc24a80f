"""Alerts go to syslog in its own form, or are counted as failed."""

from __future__ import annotations

import json
import os
import pwd
import socket
from typing import TYPE_CHECKING

from waiting import wait_until

from sentinel_kernel.audit import alerts
from sentinel_kernel.audit.place import REQUIRED
from sentinel_kernel.kernel import supervisor_process
from sentinel_kernel.kernel.lab_config import LabConfig

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_syslog_gets_one_line_of_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "SYSLOG", str(tmp_path / "log"))
    telling = alerts.Alerts("syslog")
    telling.tell({"action": "KILL"})
    wait_until(lambda: telling.failed, "nobody listens")
    assert "No such file" in telling.reason
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "log"))
        server.settimeout(20)
        telling.tell(
            {"action": "KILL", "semantic_msg": "é\n<36>forged: " + "x" * 5000, "seq": 7, "command": "secret"}
        )
        line = server.recv(65536)
    telling.close(20)
    head, _, told = line.partition(b"]: ")
    assert head.startswith(b"<36>sentinel-kernel[")
    assert line.isascii()
    assert b"\n" not in line
    assert len(line) < 2048
    assert b"secret" not in line
    assert (telling.sent, telling.failed) == (1, 1)
    assert told.startswith(b'{"ts": null, "action": "KILL"')


def test_more_alerts_than_can_wait_are_counted_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_to_webhook", lambda _address, _alert: released.wait(20))
    import threading

    released = threading.Event()
    telling = alerts.Alerts("https://nowhere.invalid/")
    for number in range(150):
        telling.tell({"seq": number})
    assert telling.failed >= 49
    released.set()
    telling.close(20)
    assert telling.sent + telling.failed == 150


def test_a_lab_can_keep_the_audit_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Played:
        lab: LabConfig | None = None

    monkeypatch.setenv("SENTINEL_AUDIT", "off")
    assert supervisor_process._audit(Played()) == {"SENTINEL_AUDIT": "off"}  # type: ignore[arg-type]
    Played.lab = LabConfig("/etc/x", "strict", "strict", True, 0.0, "", False, (), True, "syslog")
    asked = supervisor_process._audit(Played())  # type: ignore[arg-type]
    assert asked["SENTINEL_AUDIT"] == ""
    assert asked["SENTINEL_AUDIT_ALERT"] == "syslog"
    monkeypatch.setenv("HOME", "/nowhere")
    assert supervisor_process._audit(Played()) == asked  # type: ignore[arg-type]
    assert (asked["XDG_STATE_HOME"], asked["HOME"]) == ("", pwd.getpwuid(os.getuid()).pw_dir)
    assert asked[REQUIRED]
    assert json.dumps(asked)
