"""What a newcomer types and meets: names behind Tab, names that are mistyped, a session that ended itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hosted_kernel import HostedKernel

from sentinel_kernel.kernel.output_rule import NOTICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hosted_kernel import FakeWorker


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[HostedKernel]:
    kernel = HostedKernel(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    yield kernel
    kernel.close()


@pytest.mark.parametrize(
    ("code", "matches"),
    [
        ("%sentinel_profile ", ["strict", "datascience"]),
        ("# why\n%sentinel_status\n%sentinel_profile dat", ["datascience"]),
        ("%sentinel_profile x", []),
        ("%sentinel_status --", ["--live"]),
    ],
)
def test_tab_behind_a_host_magic_offers_what_a_cell_may_ask_for(
    kernel: HostedKernel, worker: FakeWorker, code: str, matches: list[str]
) -> None:
    kernel.client.complete(code + "\nvalue = 1", len(code))
    content = kernel.reply()["content"]
    assert [name for name in content["matches"] if name in ("strict", "datascience", "--live")] == matches
    assert code[content["cursor_start"] : content["cursor_end"]] == code.rpartition(" ")[2]
    kernel.wait_arrived(worker)
    assert not worker.streams["shell"].messages


@pytest.mark.parametrize(
    "code",
    ["val", "%sentinel_pro", "x = 1\n%sentinel_profile da", "'%sentinel_profile da", "%sentinel_reset "],
)
def test_all_other_completions_are_the_workers(kernel: HostedKernel, worker: FakeWorker, code: str) -> None:
    kernel.client.complete(code, len(code))
    request = worker.take("shell")
    assert request[2] == {"code": code, "cursor_pos": len(code)}


@pytest.mark.parametrize(
    ("code", "meant"),
    [("%sentinel_profile datasience", "Did you mean 'datascience'?"), ("%sentinel_rest", "%sentinel_reset?")],
)
def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(
    kernel: HostedKernel, worker: FakeWorker, code: str, meant: str
) -> None:
    del worker
    msg_id = kernel.client.execute(code)
    error = dict(kernel.outputs(parent=msg_id))["error"]
    assert meant in error["evalue"]
    assert error["evalue"].count("Known") == 1


def test_after_a_session_that_ended_between_cells_the_next_cell_says_so(
    kernel: HostedKernel, worker: FakeWorker
) -> None:
    kernel.client.execute("exit()")
    worker.run_cell()
    kernel.reply()
    kernel.event("worker_died", generation=1, cause={"kind": "exit", "status": 0}, replaced=False)
    fresh = kernel.restart_worker()
    msg_id = kernel.client.execute("value")
    fresh.run_cell()
    shown = dict(kernel.outputs(parent=msg_id))["display_data"]["data"]
    assert NOTICE_TYPE in shown
    assert "exit()" in shown["text/plain"]
    kernel.reply()
    msg_id = kernel.client.execute("value")
    fresh.run_cell()
    assert "display_data" not in dict(kernel.outputs(parent=msg_id))
