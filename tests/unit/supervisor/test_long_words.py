"""Answers that are longer than a packet: cut, or answered by a short failure, and never the end of who hears them."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.files_process import FilesProcess
from sentinel_kernel.supervisor.forked_word import read_word
from sentinel_kernel.supervisor.hostlink import HostLink
from sentinel_kernel.workspace.request import ANSWERS, PACKET_BYTES, CellEnd, Failures, Tally, fitted

LONG = ["/".join(["é" * 100] * 20)] * 20  # of 4,000 bytes each, which JSON makes 12,000
FAILED = Failures(70, tuple((path, "workspace", "failed") for path in LONG)).to_json()


@pytest.mark.parametrize(
    "fields",
    [
        CellEnd(
            committed=tuple(LONG), conflicts=tuple(LONG), failed=tuple(FAILED["paths"]), held=7
        ).to_json(),
        {"ok": True, "needs": [{"what": what, "count": 70, "paths": LONG} for what in ANSWERS], "seen": "s"},
        {"ok": True, "committed": Tally(70, 1, tuple(LONG)).to_json(), "beside": LONG, "failed": FAILED},
        {
            "ok": True,
            "undone": Tally(70, 1, tuple(LONG)).to_json(),
            "entries": ["e" * 100_000],
            "failed": FAILED,
        },
        {"path": "p", "files": 70, "skipped": LONG * 20},
    ],
)
def test_every_list_of_paths_is_cut_to_what_a_packet_takes(fields: dict[str, Any]) -> None:
    before = json.dumps(fields)
    cut = fitted(fields)
    assert len(json.dumps(cut, separators=(",", ":"))) <= PACKET_BYTES
    assert len(before) > PACKET_BYTES
    assert json.dumps(fields) == before
    assert list(cut) == list(fields)
    assert '"\\u00e9' in json.dumps(cut)
    assert ('"count": 70' in before) == ('"count": 70' in json.dumps(cut))


def test_what_fits_is_not_cut() -> None:
    fields = {
        "ok": True,
        "needs": [{"what": "new", "count": 2, "paths": ["a", "é"]}],
        "failed": FAILED | {"paths": []},
    }
    assert fitted(fields) == fields


@pytest.mark.parametrize(
    "packet", [b"", b'{"say":"settled","fields":{"com', b"[1]", b"[" * 90_000, b"\xff", b" " * 99_999]
)
def test_a_word_that_is_none_is_no_error(packet: bytes) -> None:
    assert read_word(packet, 99_999) is None
    assert read_word(b'{"say": "kept"}', 99_999) == {"say": "kept"}


def test_a_files_process_that_says_no_word_counts_as_gone() -> None:
    process = FilesProcess.__new__(FilesProcess)
    process.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process.sock.setblocking(False)
    process._outbox, process.gone, process.pid = type("Empty", (list,), {})(), False, os.getpid()  # type: ignore[assignment]
    theirs.send(b'{"say": "kept"}')
    theirs.send(b'{"say": "set')
    assert process.receive() == [{"say": "kept"}]
    assert process.gone
    process.close()
    theirs.close()


def test_a_reply_that_fits_no_packet_is_answered_by_a_short_failure() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = HostLink(ours)
    link.reply(7, ok=True, fields={"paths": LONG * 20})
    link.event(protocol.EVENT_FILES, {"committed": LONG * 20})
    link.reply(8, ok=True)
    heard = [protocol.receive(theirs), protocol.receive(theirs)]
    assert not link.gone
    assert [one and (one[0]["id"], one[0]["ok"], one[0].get("code")) for one in heard] == [
        (7, False, "failed"),
        (8, True, None),
    ]
    ours.close()
    theirs.close()
