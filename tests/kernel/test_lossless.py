"""No message is lost to a client that is slow or a machine that is busy, and the host's memory stays bounded."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from flooding import BUDGET_BYTES, burners, flood, peak_bytes
from live_kernel import SECONDS, notebook

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

DISPLAYS = 6000
"""Three times what is queued for one client: who does not wait, loses some."""


@pytest.mark.parametrize(("stall_seconds", "busy"), [(3.0, 0), (0.0, 6)], ids=["stalled", "busy"])
def test_nothing_is_lost_and_idle_comes_last(tmp_path: Path, stall_seconds: float, busy: int) -> None:
    with notebook(tmp_path) as book, burners(busy) if busy else contextlib.nullcontext():
        result = flood(book.client, book.host_pid, DISPLAYS, stall_seconds)
        assert (result.lost, result.in_order, result.idle_last) == (0, True, True)
        assert result.peak_bytes < BUDGET_BYTES


def test_who_reads_nothing_bounds_the_host_and_delays_no_control_request(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        count, size = 150, 4_000_000
        assert count * size > BUDGET_BYTES  # else the bound proves nothing
        cell = book.send(
            "from IPython.display import display\n"
            f"for n in range({count}): display({{'text/plain': 'x' * {size}}}, raw=True)"
        )
        # The client reads no output until the cell is done.
        shell = book.client.shell_channel
        while not shell.socket.poll(0) or shell.get_msg(timeout=0)["parent_header"]["msg_id"] != cell:
            message = book.client.session.msg("usage_request")
            book.client.control_channel.send(message)
            reply = book.client.get_control_msg(timeout=SECONDS)
            assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
        assert peak_bytes(book.host_pid) < BUDGET_BYTES
