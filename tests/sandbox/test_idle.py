"""A worker's start, and a minute in which it does nothing, refuse nothing in any profile."""

from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING

import pytest
from supervised import Supervised, own_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

PROFILES = (
    "strict",
    "datascience",
    "web",
    "sentinelbox/strict",
    "sentinelbox/datascience",
    "sentinelbox/web",
)
IDLE_SECONDS = 60.0


def test_start_and_an_idle_minute_give_no_violation_in_any_profile(
    own_user: Identity, tmp_path: Path
) -> None:
    workspace = own_folder(own_user, tmp_path / "work")
    with contextlib.ExitStack() as stack:
        running = {
            profile: stack.enter_context(Supervised(own_user, tmp_path / profile.replace("/", "-")))
            for profile in PROFILES
        }
        for profile, supervised in running.items():
            supervised.start(workspace, profile)
        for supervised in running.values():
            supervised.wait("ready")
        end = time.monotonic() + IDLE_SECONDS
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([supervised.sock for supervised in running.values()], [], [], left)
            for supervised in running.values():
                if supervised.sock in ready:
                    supervised.receive(1)
        for profile, supervised in running.items():
            assert supervised.violations() == [], profile
            assert not any(event["event"] == "worker_died" for event in supervised.events), profile
            # Refusals are told, as the silence above would otherwise mean nothing.
            supervised.run(
                workspace, [supervised.python, "-c", "import socket; socket.socket(17, 3)"], profile
            )
            if not profile.startswith("sentinelbox/"):
                assert [violation["syscall"] for violation in supervised.violations()] == ["socket"], profile
