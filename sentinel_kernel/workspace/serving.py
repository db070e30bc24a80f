"""The files process: what the supervisor asks of it, one packet after the other, to the end.

From the supervisor: ``{"do": "settle" | "ask" | "save" | "rest", "token": n, ...}``. To it: ``{"say": "progress" |
"answer" | "settled" | "kept" | "written" | "saved", "token": n, ...}``. Where the supervisor goes without a word, it
was killed: then what cells left is saved, as nobody else may be there to do it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.answering import Workspace, afterwards, answer
from sentinel_kernel.workspace.cell_end import CellEnds
from sentinel_kernel.workspace.glance import glance
from sentinel_kernel.workspace.host_folder import sweep_below
from sentinel_kernel.workspace.journal import Journal
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.rescue import rescue

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Protocol

    from sentinel_kernel.workspace.setup import FilesSetup

    Json = dict[str, Any]

    class Folder(Protocol):
        """One held folder, as supervisor/held_folders.py has it."""

        name: str
        path: str
        upper: int
        merged: int
        lower: int
        context: int

    class Folders(Protocol):
        """All of a sandbox."""

        folders: list[Any]
        history: int
        parked: int


_PACKET_BYTES = 192 * 1024
"""A request of the host's, which has 128 KiB at most, has some words around it."""

_GONE_MILLISECONDS = 10_000
"""How long the end of the sandbox's processes is awaited, before what they left is saved."""

_AGAIN_MILLISECONDS = 50
_AGAIN_MOST_MILLISECONDS = 2000

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode


def serve(sock: socket.socket, held: Folders, setup: FilesSetup) -> None:
    """Do what comes through ``sock`` until there is nothing left to do. Raises OSError where the folders are broken."""
    _Serving(sock, held, setup).run()


def layers_of(held: Folders, setup: FilesSetup) -> dict[str, Layer]:
    """Return the layers that can be listed and committed, by name."""
    found = {}
    for one in held.folders:
        if one.lower < 0 or one.upper < 0:
            continue
        found[one.name] = Layer(
            name=one.name,
            path=one.path,
            upper=one.upper,
            merged=one.merged,
            lower=one.lower,
            context=one.context,
            parked=held.parked,
            owner=None if setup.writer is None else _owner_of(one.lower, setup.writer),
            writer=setup.writer,
        )
    return found


def _owner_of(folder: int, writer: tuple[int, int]) -> tuple[int, int]:
    """Return who owns the host's folder; where that can't be told, ``writer``, who may do no more than cells could."""
    try:
        status = os.fstat(folder)
    except OSError:  # as of Layer.is_gone
        return writer
    return status.st_uid, status.st_gid


class _Serving:
    """Serves one supervisor."""

    def __init__(self, sock: socket.socket, held: Folders, setup: FilesSetup) -> None:
        self._sock = sock
        self._held = held
        self._setup = setup
        self._made: Workspace | None = None
        self._ends: CellEnds | None = None
        self._swept = setup.stamp > 0
        self._left: tuple[tuple[int, object], Json] | None = None
        """How the layers looked at the last end without a sign of a change, its rule, and what was told of them."""

    @property
    def _workspace(self) -> Workspace:
        if self._made is None:
            layers = layers_of(self._held, self._setup)
            journal = Journal(self._held.history, self._setup.writer, self._setup.stamp)
            around = self._setup.surroundings
            loaded, own = (
                tuple(dict.fromkeys(map(os.path.realpath, one))) for one in (around.loaded, around.own)
            )
            self._made = Workspace(layers, Surroundings(loaded, own), journal, self._setup.store)
        return self._made

    def run(self) -> None:
        """Serve until there is nothing left to do."""
        while True:
            self._write_again()
            try:
                packet = self._sock.recv(_PACKET_BYTES)
            except ConnectionResetError:
                continue  # told once where the supervisor went with our words unread
            if not packet:
                self._supervisor_gone()
                return
            message = json.loads(packet)
            match message["do"]:
                case "settle":
                    self._settle(message)
                case "ask":
                    self._ask(message)
                case "save":
                    self._save(message["token"])
                    return
                case _:
                    return

    def _say(self, say: str, token: int, more: Json) -> None:
        """Say one thing, cut to what a packet takes: never nothing, as somebody waits for it."""
        if "fields" in more:
            more = {**more, "fields": asked.fitted(more["fields"])}
        packet = _ENCODE({"say": say, "token": token, **more}).encode("ascii")
        if len(packet) > asked.PACKET_BYTES:
            short = {**more, "fields": asked.refusal("failed", f"an answer of {len(packet)} bytes")}
            packet = _ENCODE({"say": say, "token": token, **short}).encode("ascii")
        with contextlib.suppress(OSError):  # the supervisor is gone, which is found with the next packet
            self._sock.send(packet)

    def _write_again(self) -> None:
        """Until something is asked for, try to write down what there was no room for: it is known here alone."""
        journal = self._made.journal if self._made is not None else None
        if journal is None or not journal.wanted_bytes:
            return
        poll, wait = select.poll(), _AGAIN_MILLISECONDS
        poll.register(self._sock, select.POLLIN)
        while journal.wanted_bytes and not poll.poll(wait):
            wait = min(2 * wait, _AGAIN_MOST_MILLISECONDS)
            if journal.write():
                self._say("written", 0, self._state(-1))

    def _settle(self, message: Json) -> None:
        if self._ends is None:
            self._ends = CellEnds(self._workspace, self._setup.store)
        token = message["token"]

        def progress(done: int, of: int, size: int) -> None:
            self._say("progress", token, {"fields": {"done": done, "of": of, "bytes": size}})

        seen = glance(one.upper for one in self._workspace.layers.values()) if message.get("quiet") else None
        looked = None if seen is None else (seen, message.get("commit"))
        if looked is not None and self._left is not None and self._left[0] == looked:
            self._say("settled", token, {"fields": {}, "told": False})
            self._say("kept", token, {"changed": False, **self._left[1]})
            return
        ended = self._ends.end(message, progress)
        self._say("settled", token, {"fields": ended.to_json(), "told": self._ends.worth_telling})
        self._ends.keep()
        changed, in_use = ended.committed_count + ended.folder_count > 0, self._ends.open()
        state = self._state(ended.held + in_use)
        # What somebody still uses is given up later, without a sign.
        self._left = (
            (looked, state) if looked is not None and not (changed or in_use or state["unwritten"]) else None
        )
        self._say("kept", token, {"changed": changed, **state})
        if not self._swept:
            # By the first process of a sandbox: what commits of earlier sessions left that were killed.
            self._swept = True
            for layer in self._workspace.layers.values():
                sweep_below(layer)

    def _ask(self, message: Json) -> None:
        token = message["token"]

        def told(done: int, of: int, size: int) -> None:
            self._say("progress", token, {"fields": {"done": done, "of": of, "bytes": size}})

        wanted, self._left = None, None
        try:
            # What an answer makes the next cell's start may be what no end has looked at yet.
            self._workspace.journal.ruled(lets_out=message.get("commit") == "new")
            wanted = asked.read_request(message["request"])
            fields = answer(self._workspace, wanted, told)
        except ProtocolError as error:
            fields = asked.refusal("malformed", str(error))
        except OSError as error:
            fields = asked.refusal(asked.code_of(error), str(error))
        held = fields.get("held", -1)
        if held == 0:  # what is still open is looked at like what is held
            held = len(self._workspace.bounds.settled)
        self._say("answer", token, {"fields": fields, **self._state(held)})
        if wanted is not None:
            with contextlib.suppress(OSError):  # it is there, and on its way to the disk
                afterwards(self._workspace, wanted)

    def _state(self, held: int) -> Json:
        journal = self._workspace.journal
        blocks, inodes = journal.footprint()
        wanted = journal.wanted_bytes
        if wanted:  # with it the file system is made larger, so that there is room the next time
            blocks += -(-wanted // os.fstatvfs(self._held.history).f_frsize)
            inodes += 2
        return {
            "held": held if held >= 0 else len(journal.seen),
            "history": [blocks, inodes],
            "stamp": journal.stamp,
            "unwritten": wanted > 0,
        }

    def _save(self, token: int) -> None:
        self._wait_for_the_end()
        self._say("saved", token, {"fields": rescue(self._held, self._setup)})

    def _supervisor_gone(self) -> None:
        self._wait_for_the_end()
        rescue(self._held, self._setup)

    def _wait_for_the_end(self) -> None:
        """Wait until nobody writes any more."""
        if self._setup.pidfd >= 0:
            poll = select.poll()
            poll.register(self._setup.pidfd, select.POLLIN)
            poll.poll(_GONE_MILLISECONDS)
