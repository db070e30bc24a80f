"""What a cell's end tells of files: that some are held, were saved, changed on both sides; each once, in the cell.

Where nobody can be asked (nbclient, papermill) what was saved goes to the log alone: it is the same each time. What
is not, as files that are held, stands in the cell there too, or a result would be missing without a word. What is held
is said again by the gauge alone, and the notice of it goes when nothing is. What is found out behind a cell's idle,
where no frontend shows it any more, is shown in the next cell.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import files_words, rendering, store_words
from sentinel_kernel.kernel.log import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json, Part
    from sentinel_kernel.kernel.words import Words

_NOT_SAVED = ("conflicts", "failed", "risk", "not looked at")
_MOST_REMEMBERED = 1000
_SHOWN_PATHS = 8
_MOST_OWN_FOLDERS = 8
"""After so many it is left to %sentinel_files."""


class FilesNotices:
    """Shows the notices of one host; a new sandbox does not begin them anew."""

    def __init__(self, host: Host, has_person: Callable[[], bool]) -> None:
        """Show notices of ``host``; ``has_person`` tells whether a client that can be asked has run a cell."""
        self._host = host
        self._has_person = has_person
        self._said: set[str] = set()
        self._said_alone: set[tuple[str, tuple[str, ...]]] = set()
        """What clients that can't be asked were shown, with its paths: a person who comes later is told too."""
        self._logged: set[str] = set()
        self._held_at: list[tuple[str, Part]] = []
        """Where it stands that files are held: display id, and the header of the cell's request."""
        self._late: list[tuple[str, Words, list[str], int]] = []
        """What the next cell shows, with what it is about; several events may be about the same."""
        self._conflicts: dict[str, None] = {}
        self._own_folders: set[str] = set()
        """Of the sandbox's own, of which it was said that what lies there goes with it."""

    def cell_ended(self, event: Json) -> None:
        """Take an event of a cell's end (workspace/request.py, CellEnd)."""
        if count := _number(event, "committed_count"):
            self._once("saved", files_words.saved(count), _paths(event, "committed"), count)
        if count := _number(event, "folder_count"):
            self._once("saved folders", files_words.made(count), _paths(event, "folders"), count)
        self._failed(event)
        fresh = [path for path in _paths(event, "conflicts") if path not in self._conflicts]
        if fresh and self._show(files_words.conflicts(len(fresh)), fresh, len(fresh), "conflicts"):
            self._conflicts.update(dict.fromkeys(fresh))
            while len(self._conflicts) > _MOST_REMEMBERED:
                del self._conflicts[next(iter(self._conflicts))]
        self._store(event)
        held, waits = _number(event, "held"), self._waiting(event)
        # What could not be saved is held, which was said with what helps: a commit would fail as well.
        if held > _number(event, "waiting_count") and not waits and not event.get("failed"):
            self._once("held", files_words.held(held, _number(event, "bytes")), [], 0)

    def not_looked_at(self, why: str) -> None:
        """Say once that nobody could look at what cells changed; ``why`` goes to the log alone."""
        log(f"files process: {why or 'it could not be started, or was killed'}")
        self._once("not looked at", files_words.not_looked_at(), [], 0)

    def in_own(self, place: str, paths: list[str], count: object) -> None:
        """Say, once for each folder, that files lie where nothing is held: in the sandbox's own ``home`` or ``tmp``.

        ``count`` tells how many, of which ``paths`` are the first.
        """
        folders = {os.path.dirname(path) for path in paths} - self._own_folders
        if not folders or len(self._own_folders) >= _MOST_OWN_FOLDERS:
            return
        fresh = [path for path in paths if os.path.dirname(path) in folders]
        number = count if isinstance(count, int) and len(fresh) == len(paths) else len(fresh)
        if self._show(files_words.in_own(place, number), fresh, number, place):
            self._own_folders |= folders

    def _waiting(self, event: Json) -> bool:
        """Say of new files that they wait, and how they are saved, once for each reason; tell whether that was now."""
        said = len(self._said)
        entries = [entry for entry in event.get("waiting") or () if isinstance(entry, dict)]
        for code in dict.fromkeys(str(entry.get("why")) for entry in entries):
            paths = [str(entry.get("path")) for entry in entries if entry.get("why") == code]
            count = len(paths)
            if all(entry.get("why") == code for entry in entries):
                count = max(count, _number(event, "waiting_count"))
            self._once(f"waits {code}", files_words.waiting(count, code), paths, count)
        return len(self._said) > said

    def nothing_held(self) -> None:
        """Take the notice that files are held away again: it is not so any more."""
        self._said_alone = {told for told in self._said_alone if not _says_held(told[0])}
        # What nobody has seen is said when files are held again.
        self._said.difference_update(about for about, *_ in self._late if _says_held(about))
        self._late = [late for late in self._late if not _says_held(late[0])]
        while self._held_at:
            display_id, header = self._held_at.pop()
            self._host.outbox.display({}, header, display_id, update=True)

    def _store(self, event: Json) -> None:
        """Say that held files could not be saved, and which saved ones will go; before either happens."""
        risk, leaving = event.get("risk"), _paths(event, "leaving")
        if isinstance(risk, str) and risk:
            self._once(f"risk {risk}", store_words.at_risk(risk, _number(event, "risk_bytes")), [], 0)
        if leaving:
            words = store_words.leaving(len(leaving), _number(event, "leaving_days"))
            self._show(words, leaving, len(leaving), "leaving")

    def _failed(self, event: Json) -> None:
        failed = [entry for entry in event.get("failed") or () if isinstance(entry, dict)]
        for code in dict.fromkeys(str(entry.get("why")) for entry in failed):
            paths = [str(entry.get("path")) for entry in failed if entry.get("why") == code]
            self._once(f"failed {code}", files_words.not_saved(len(paths), code), paths, len(paths))

    def _once(self, about: str, words: Words, paths: list[str], count: int) -> None:
        if about not in self._said and self._show(words, paths, count, about):
            self._said.add(about)

    def show_late(self, cell: Cell) -> None:
        """Show in ``cell``, which has just begun, what was told behind the idle of the one before."""
        shown = [late for late in self._late if self._is_for(cell, late[0])]
        self._late = [late for late in self._late if late not in shown]
        for about, words, paths, count in shown:
            self._show_in(cell, words, paths, count, about)

    def hand_over(self, cell: Cell) -> None:
        """Put that among the pages of ``cell``, which the host is about to answer itself.

        Not that files are held, which is taken away again: pages stay.
        """
        handed = [late for late in self._late if self._is_for(cell, late[0]) and not _says_held(late[0])]
        self._late = [late for late in self._late if late not in handed]
        cell.displays += [self._bundle(words, paths, count) for _, words, paths, count in handed]

    def _is_for(self, cell: Cell, about: str) -> bool:
        """Tell whether a notice is shown in ``cell``: who can't be asked reads of what is not saved alone.

        Not where there is a person beside, whose next cell that notice is for.
        """
        lost = _says_held(about) or about.startswith(_NOT_SAVED)
        alone = lost and not cell.client_answers and not self._has_person()
        return cell.is_read and (cell.allow_stdin or alone)

    def _show(self, words: Words, paths: list[str], count: int, about: str) -> bool:
        """Show a notice in the newest cell, or the next one; False where nobody is there to see it."""
        cell = self._host.execution.newest()
        if about not in self._logged:
            self._logged.add(about)
            log(words.message("en"))
        if cell is None or not self._is_for(cell, about):
            return False
        if not cell.allow_stdin:
            told = about, tuple(paths)
            if told in self._said_alone:
                return False
            self._said_alone = {told, *list(self._said_alone)[:_MOST_REMEMBERED]}
        if cell.idle:
            self._late.append((about, words, paths, count))
        else:
            self._show_in(cell, words, paths, count, about)
        return cell.allow_stdin

    def _show_in(self, cell: Cell, words: Words, paths: list[str], count: int, about: str) -> None:
        host = self._host
        display_id = host.displays.new_id()
        host.outbox.display(self._bundle(words, paths, count), cell.request.header, display_id)
        if _says_held(about):
            self._held_at.append((display_id, cell.request.header))

    def _bundle(self, words: Words, paths: list[str], count: int) -> Json:
        language = self._host.settings.language
        bundle = rendering.notice_bundle(words, language, "notice")
        if paths:
            _name(bundle, paths, count, chinese=language == "zh")
        return bundle


def _says_held(about: str) -> bool:
    """Tell whether that notice says that files are held."""
    return about == "held" or about.startswith("waits ")


def _name(bundle: Json, paths: list[str], count: int, *, chinese: bool) -> None:
    """Add the paths to a notice's bundle, beside its words: they are the cell's own."""
    named = files_words.named(paths, count, chinese=chinese)
    html = str(bundle["text/html"])
    row = rendering.small(rendering.escape(named, rendering.TEXT_CHARACTERS))
    bundle["text/html"] = f"{html.removesuffix('</div>')}{row}</div>"
    bundle["text/plain"] = f"{bundle['text/plain']}\n  {named}"


def _number(event: Json, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _paths(event: Json, name: str) -> list[str]:
    return [path for path in event.get(name) or () if isinstance(path, str)]
