"""Folders that are shown while the sandbox runs: the magic's, and those that a profile wants to be written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.agreed_folders import AgreedFolders
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.mount_words import MountWords
from sentinel_kernel.kernel.questions import YES
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.mount_arguments import MountWanted
    from sentinel_kernel.kernel.wire import Json

    Current = Callable[[Callable[..., None]], Callable[..., None]]


class Mounting:
    """Asks the person, and has the supervisor do it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._words = MountWords(host.settings.language)
        self._agreed = AgreedFolders(host.loop, os.environ)
        self._answers: dict[str, str] = {}
        """Folder that the profile wants writable -> what the person said, once a session."""

    # --- the magic

    def unreachable(self, cell: Cell, wanted: MountWanted) -> str:
        """Return why a folder can't be had in ``cell``: nobody is asked there ("": one can)."""
        if wanted.remove or not wanted.path or self._host.questions.reaches(cell):
            return ""
        return self._words.nobody(self._absolute(wanted.path))

    def run(
        self,
        cell: Cell,
        wanted: MountWanted,
        current: Current,
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Do what a line in ``cell`` asks for; ``done`` gets the page of it, ``refuse`` why it was not done."""
        if wanted.remove:
            self._request(
                {"do": "remove", "name": wanted.remove},
                current,
                lambda told: done(self._words.removed(told)),
                lambda told: refuse(self._words.refused(wanted.remove, told)),
            )
            return
        if not wanted.path:
            self._request(
                {"do": "list"},
                current,
                lambda told: done(self._words.listed(told.get("mounts") or [], told.get("profile") or [])),
                lambda told: refuse(self._words.refused("", told)),
            )
            return
        if why := self.unreachable(cell, wanted):
            refuse(why)
            return
        path = self._absolute(wanted.path)

        def failed(told: Json) -> None:
            wants, held = wanted.mode == "rw" and self._of_profile(path), self._is_held(path, told)
            words = self._words
            refuse(words.not_written(path, told, held=held) if wants else words.refused(path, told))

        def agreed(real: str, added: Json) -> None:
            if wanted.mode == "rw" and self._of_profile(real):
                self._answers[real] = "yes"  # asked again, and the newer answer holds: until the kernel ends
            done(self._words.shown(added))

        def looked(told: Json) -> None:
            real = str(told.get("path"))

            def answered(answer: str) -> None:
                if answer != "yes":
                    refuse(self._words.declined(real))
                    return
                fields = {"do": "add", "path": real, "mode": wanted.mode, "identity": told.get("identity")}
                self._request(fields, current, lambda added: agreed(real, added), failed)

            prompt = self._words.question(real, wanted.mode, told)
            self._host.questions.ask(cell, prompt, YES, current(answered))

        self._request({"do": "look", "path": path, "mode": wanted.mode}, current, looked, failed)

    def _absolute(self, path: str) -> str:
        """Return the path as the host sees it: from HOME, or from the notebook's folder."""
        if path == "~" or path.startswith("~/"):
            path = os.environ.get("HOME", "/") + path[1:]
        return os.path.normpath(os.path.join(self._host.settings.workspace, path))

    # --- folders that the profile wants to be written

    def _of_profile(self, path: str) -> bool:
        """Tell whether the profile wants a folder written: it was asked about, or will be once the magics are done."""
        ready = self._host.lifecycle.ready
        return path in (*(ready.get("writable") or ()), *(ready.get("asked") or ()))

    def _is_held(self, path: str, told: Json) -> bool:
        """Tell whether cells were given a folder at its own place: they write to that until their sandbox ends.

        Where that has ended (``told`` may be the first to say so), what was last heard of its folders still stands.
        """
        lifecycle = self._host.lifecycle
        if lifecycle.state is not State.READY or told.get("code") == "no_sandbox":
            return False
        mounts = lifecycle.ready.get("mounts") or ()
        return any(mount.get("target") == mount.get("path") == path for mount in mounts)

    def settle(self, cell: Cell, current: Current, done: Callable[[], None]) -> None:
        """Ask about each folder that the profile wants writable, once a session; then go on with the cell."""
        lifecycle = self._host.lifecycle
        waiting = [str(path) for path in lifecycle.ready.get("writable") or ()]
        lifecycle.ready = {**lifecycle.ready, "writable": [], "asked": list(waiting)}

        def go_on() -> None:
            if waiting:
                self._settle_one(cell, waiting.pop(0), current, go_on)
            else:
                done()

        go_on()

    def _settle_one(self, cell: Cell, path: str, current: Current, done: Callable[[], None]) -> None:
        def only_read(why: str, *, held: bool = False) -> None:
            if not cell.silent:
                cell.displays.append(self._words.read_only(path, why, held=held))
            done()

        def failed(told: Json) -> None:
            held = self._is_held(path, told)
            only_read(self._words.not_written(path, told, held=held), held=held)

        def shown(told: Json) -> None:
            if not cell.silent and (told.get("mount") or {}).get("target") != path:
                cell.displays.append(self._words.shown(told))
            done()

        def looked(told: Json) -> None:
            def answered(answer: str) -> None:
                self._answers[path] = answer
                if answer != "yes":
                    only_read(self._words.declined_to_write(path))
                    return
                fields = {"do": "add", "path": path, "mode": "rw", "identity": told.get("identity")}
                self._request(fields, current, shown, failed)

            self._answer_about(cell, path, told, current, answered, only_read)

        self._request({"do": "look", "path": path, "mode": "rw", "target": path}, current, looked, failed)

    def _answer_about(
        self,
        cell: Cell,
        path: str,
        told: Json,
        current: Current,
        answered: Callable[[str], None],
        only_read: Callable[[str], None],
    ) -> None:
        """Have the person's answer about a folder that the profile wants written, or say that there is nobody."""

        def known(agreed: bool) -> None:
            if agreed:
                answered("yes")
            elif not self._host.questions.reaches(cell):
                only_read(self._words.nobody_to_write(path))
            else:
                prompt = self._words.question(path, "rw", told, profile=self._host.lifecycle.profile)
                self._host.questions.ask(cell, prompt, YES, current(answered))

        if path in self._answers:
            answered(self._answers[path])
        else:
            self._agreed.ask(path, current(known))

    # --- the supervisor

    def _request(
        self, fields: Json, current: Current, done: Callable[[Json], None], failed: Callable[[Json], None]
    ) -> None:
        lifecycle = self._host.lifecycle
        if lifecycle.state is not State.READY or lifecycle.link is None or lifecycle.link.gone:
            failed({"code": "no_sandbox"})
            return

        def answered(told: Json) -> None:
            if told.get("done") is True:
                self._note(fields["do"], told)
                done(told)
            else:
                failed(told)

        lifecycle.link.request(protocol.OP_MOUNT, fields, current(answered), CELL_SECONDS)

    def _note(self, do: str, told: Json) -> None:
        """Keep for the status page what is shown."""
        lifecycle, mount = self._host.lifecycle, told.get("mount")
        if do not in ("add", "remove") or not isinstance(mount, dict):
            return
        others = [
            one for one in lifecycle.ready.get("mounts") or () if one.get("target") != mount.get("target")
        ]
        lifecycle.ready = {**lifecycle.ready, "mounts": [*others, *([mount] if do == "add" else [])]}
