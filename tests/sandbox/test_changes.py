"""What the supervisor says of a change of profile or sandbox, and that it serves the one that there is meanwhile."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest
from supervised import own_folder
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]


def test_supervisor_answers_while_an_interpreter_of_the_next_sandbox_is_waited_for(
    supervised: Supervised, workspace: Path, place: Path, identity: Identity
) -> None:
    folder = own_folder(identity, place / "slow")
    folder.chmod(0o755)
    pipe, python = folder / "pipe", folder / "python"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    python.write_text(f"#!/bin/sh\nread -r line < '{pipe}'\necho no answer >&2\n")
    python.chmod(0o755)
    supervised.start(workspace, payload=["/bin/sleep", "600"])
    supervised.wait("ready")
    tried = supervised.request(
        "try",
        profile="strict",
        profile_directories=[],
        workspace=str(workspace),
        python=str(python),
        environment={},
    )
    opened: list[int] = []

    def is_read() -> bool:
        with contextlib.suppress(OSError):
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    wait_until(is_read, "it runs, and waits")
    try:
        assert supervised.reply(supervised.request("mount", do="list"))["done"]
        assert not [event for event in supervised.events if event.get("id") == tried]
    finally:
        os.close(opened[0])
    problem = supervised.reply(tried)["problem"]
    assert "is no Python interpreter (it says: no answer)" in problem["cause_en"]
    # Positive control: the host's own interpreter is known to be well.
    well = supervised.request(
        "try",
        profile="strict",
        profile_directories=[],
        workspace=str(workspace),
        python=supervised.python,
        environment={},
    )
    assert supervised.reply(well)["problem"] == {}


@pytest.mark.parametrize(("fields", "told"), [({}, ["none", "new"]), ({"commit": "none"}, None)])
def test_what_becomes_of_files_is_told_where_a_profile_rules_on_them(
    supervised: Supervised, workspace: Path, fields: dict[str, str], told: list[str] | None
) -> None:
    supervised.start(workspace, payload=["/bin/sleep", "600"], reachable=["datascience"], **fields)
    supervised.wait("ready")
    changed = supervised.reply(supervised.request("profile", profile="datascience"))
    assert changed["live"], changed
    assert changed.get("commit") == told


@pytest.mark.requires("landlock_rung")
@pytest.mark.parametrize(("reachable", "fenced"), [("web", True), ("datascience", False)])
def test_a_profile_with_hosts_takes_a_fresh_sandbox_unless_this_one_is_told_to_be_fenced(
    supervised: Supervised, workspace: Path, reachable: str, *, fenced: bool
) -> None:
    supervised.start(workspace, payload=["/bin/sleep", "600"], reachable=[reachable])
    assert supervised.wait("ready")["fenced"] is fenced
    changed = supervised.reply(supervised.request("profile", profile="web"))
    assert changed["live"] is fenced, changed
