"""Folders that are shown live are refreshed beside the supervisor, which never waits for a file system."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Any

from sentinel_kernel.linux import mounts
from sentinel_kernel.supervisor.refreshing import Refreshing

if TYPE_CHECKING:
    import pytest


def _until_idle(refreshing: Refreshing) -> None:
    while refreshing.busy:
        poll = select.poll()
        for descriptor in refreshing.descriptors():
            poll.register(descriptor, select.POLLIN)
        due = refreshing.due_seconds()
        refreshing.serve(dict(poll.poll(0 if due is None else due * 1000 + 1)))
        refreshing.catch_up()


def test_a_file_system_that_is_held_holds_up_a_cell_once_and_the_supervisor_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[tuple[str, Any]] = []
    refreshing = Refreshing(lambda kind, _name, detail: noted.append((kind, detail.get("code"))))
    held, release = os.pipe()
    monkeypatch.setattr(
        mounts, "reconfigure", lambda place: os.read(place, 1)
    )  # as s_umount during a syncfs(2)
    refreshing.start([held])
    assert refreshing.busy
    _until_idle(refreshing)
    assert noted == [("mount_stale", "too_slow")]
    refreshing.start([held])
    assert not refreshing.busy  # the one before still waits: another one would wait behind it
    assert len(noted) == 2
    os.write(release, b"xx")
    assert select.select(refreshing.descriptors(), (), (), 60)[0]
    refreshing.serve(dict.fromkeys(refreshing.descriptors(), select.POLLIN))
    refreshing.start([held])
    assert refreshing.busy
    _until_idle(refreshing)
    assert len(noted) == 2  # it was done in time
    refreshing.close()
    os.close(held)
    os.close(release)
