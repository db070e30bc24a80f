"""Dry runs do not begin where what is held could not be brought back, and the reason names what and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.files_page import failure_text
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.workspace import journal
from sentinel_kernel.workspace.answering import answer
from sentinel_kernel.workspace.request import read_request

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from sentinel_kernel.workspace.answering import Workspace


def test_a_held_file_that_no_copy_is_kept_of_is_named_with_the_cause(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MOST_BYTES", 8192)
    (tmp_path / "upper" / "small.csv").write_bytes(b"x")
    (tmp_path / "upper" / "big.bin").write_bytes(b"x" * 20_000)
    told = answer(workspace, read_request({"op": "files", "id": 1, "do": "trial_begin"}), lambda *_: None)
    assert (told["ok"], told["code"]) == (False, "not_kept")
    room = workspace.journal.room()
    assert room < 20_000
    assert told["unkept"] == {"count": 1, "paths": ["big.bin"], "bytes": 20_000, "room": room}
    english, chinese = (failure_text(told, chinese=chinese) for chinese in (False, True))
    assert "no copy could be kept of a held file to bring back afterwards: `big.bin`" in english
    assert f"copies have room for {size_text(room)} more" in english
    assert "`big.bin`" in chinese
    assert "HINT" in english
