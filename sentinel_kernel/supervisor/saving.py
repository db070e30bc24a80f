"""Has what ended sandboxes left saved by their files processes, sees to it that it is done, and tells the host."""

from __future__ import annotations

import contextlib
import os
import select
import time

from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.files_process import FilesProcess
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.workspace.store import word_is_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.supervisor.held_folders import HeldFolders
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.workspace.setup import FilesSetup

_TRIES = 3
_GIVE_UP_SECONDS = 600.0
"""How long a process is asked for where there is none to be had, before what is held is given up."""
_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 10.0
_PATIENCE_SECONDS = 3600.0
"""How long the supervisor stays for it at its own end; the files process goes on without it."""


_SAVE = {"do": "save", "token": 0}


class _Rescue(MutableRecord):
    """One sandbox's files on their way to the store."""

    held: HeldFolders
    setup: FilesSetup
    process: FilesProcess | None
    """None: there was none to be had; another one is asked for at ``not_before``."""
    tries: int = 1
    not_before: float = 0.0
    pause: float = _PAUSE_SECONDS
    until: float = 0.0


class Saving(Keeper):
    """The files of sandboxes that have ended."""

    def __init__(self, host: Callable[[], HostLink], told: dict[str, HostLink]) -> None:
        """Tell ``host``; ``told`` has which host knows of a saved folder."""
        self._host = host
        self._told = told
        self._under_way: list[_Rescue] = []
        self._left: list[FilesProcess] = []

    @property
    def pending(self) -> bool:
        """Whether files are on their way."""
        return bool(self._under_way)

    def save(self, held: HeldFolders, setup: FilesSetup, process: FilesProcess | None) -> None:
        """Have what ``held`` (the caller's no more) has in it saved, by ``process`` if there is one."""
        one = _Rescue(held, setup, process)
        self._under_way.append(one)
        if process is None or process.gone:
            self._start(one)
        else:
            process.give(_SAVE)

    def _start(self, one: _Rescue) -> None:
        """Have another process save it; where there is none to be had now, later: nobody else has these files."""
        now = time.monotonic()
        try:
            one.process = FilesProcess(one.held, one.setup)
        except OSError as error:
            one.process, one.not_before = None, now + one.pause
            one.pause = min(2 * one.pause, _LONGEST_PAUSE_SECONDS)
            one.until = one.until or now + _GIVE_UP_SECONDS
            if now >= one.until:
                self._under_way.remove(one)
                one.held.close()
                self.failed(error.strerror or "error")
            return
        one.pause, one.until = _PAUSE_SECONDS, 0.0
        one.process.give(_SAVE)

    def descriptors(self) -> Iterable[int]:
        """Return the sockets of those that save."""
        return tuple(
            one.process.sock.fileno()
            for one in self._under_way
            if one.process is not None and not one.process.gone
        )

    def serve(self, ready: dict[int, int]) -> None:
        """Take what they have said."""
        for one in list(self._under_way):
            if one.process is None:
                if time.monotonic() >= one.not_before:
                    self._start(one)
                continue
            if not one.process.gone and one.process.sock.fileno() not in ready:
                continue
            for said in one.process.receive():
                if said.get("say") == "saved":
                    self._saved(one, said["fields"])
                    break
            else:
                if one.process.gone:
                    self._again(one)

    def due_seconds(self) -> float | None:
        """Return when one that has gone while it was spoken to is to be looked after."""
        if any(one.process is not None and one.process.gone for one in self._under_way):
            return 0.0
        waits = [one.not_before for one in self._under_way if one.process is None]
        return max(0.0, min(waits) - time.monotonic()) if waits else None

    def catch_up(self) -> None:
        """Look after those that are gone."""
        self.serve({})
        self._left = [left for left in self._left if not left.reap()]

    def close(self) -> None:
        """See what is under way through; it goes on by itself should this take too long."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self._under_way and time.monotonic() < until:
            poll = select.poll()
            for descriptor in self.descriptors():
                poll.register(descriptor, select.POLLIN)
            due = self.due_seconds()
            self.serve(dict(poll.poll(1000 if due is None else min(1000, int(due * 1000)))))
        for one in self._under_way:
            self._release(one)
        self._under_way.clear()
        for left in self._left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(left.pid, 0)

    def _saved(self, one: _Rescue, fields: dict[str, Any]) -> None:
        self._under_way.remove(one)
        self._release(one)
        host, path = self._host(), fields["path"]
        # Who saved it before may have had nobody to tell it to: its supervisor was killed.
        known = self._told.get(path) is host or (fields.get("again") and not word_is_open(path))
        if (path or fields["skipped"]) and not known:
            if path:
                self._told[path] = host
            host.event(protocol.EVENT_ARTIFACTS, fields)

    def _again(self, one: _Rescue) -> None:
        """It was killed, or has failed, before it was done."""
        if one.process is not None:
            self._left.append(one.process)
            one.process.close()
        if one.tries >= _TRIES:
            self._under_way.remove(one)
            one.held.close()
            self.failed("the process that saves them was ended again and again")
            return
        one.tries += 1
        self._start(one)

    def _release(self, one: _Rescue) -> None:
        one.held.close()
        if one.process is not None:
            one.process.close()
            self._left.append(one.process)

    def failed(self, reason: str) -> None:
        """Tell the host that files could not be saved."""
        fields = {"path": "", "files": 0, "bytes": 0, "skipped": [f"the rest: {reason}"], "left_out": 1}
        self._host().event(protocol.EVENT_ARTIFACTS, fields)
