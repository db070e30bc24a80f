"""Carries out the file magics: asks the supervisor, and the person where that needs a yes; one request at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel import files_page, files_words
from sentinel_kernel.kernel.files_arguments import COMMIT, DISCARD, EXPORT, FILES
from sentinel_kernel.kernel.questions import YES
from sentinel_kernel.kernel.rendering import table_bundle
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.record import Record
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.files_arguments import FilesWanted
    from sentinel_kernel.kernel.files_entry import Current
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json, Part

SECONDS = 3600.0
"""How long a request may take: a person may commit what they like."""

_MOST_ROUNDS = 4
"""So often a commit is asked about anew where what it needs changes meanwhile."""

_MOST_PAGES = 5
_MOST_DIFF_PAGES = 3
"""Of some 100 KiB each: what is shown stands in the notebook once that is saved."""


class Turn(Record):
    """One line under way in a cell; ``done`` gets the page, ``refuse`` why it was not done."""

    cell: Cell
    wanted: FilesWanted
    current: Current
    """Makes a call void for the case that the cell's beginning is called off before."""
    done: Callable[[Json], None]
    refuse: Callable[[str], None]


class Files:
    """Carries out lines, each to its end."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._chinese = host.settings.language == "zh"
        self._display: tuple[str, Part, bool] | None = None
        """Where the progress of the request that is out is shown: display id, header, and whether it is there yet."""

    def run(
        self,
        cell: Cell,
        wanted: FilesWanted,
        current: Current,
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Do what ``wanted`` says; see :class:`Turn`."""
        turn = Turn(cell, wanted, current, done, refuse)
        if wanted.name == FILES and "--diff" in wanted.options:
            self._diff(turn, [], 0)
        elif wanted.name == FILES:
            self._list(turn, [], 0)
        elif wanted.name == COMMIT:
            self._commit(turn, {}, "", _MOST_ROUNDS)
        elif wanted.name == DISCARD:
            self._discard(turn)
        elif wanted.name == EXPORT:
            from sentinel_kernel.kernel.files_export import FilesExport  # noqa: PLC0415 - only for this magic

            FilesExport(self._host, self, turn).begin()
        else:
            self.request(turn, {"do": "undo"}, lambda told: self._done(turn, "undone", told))

    def request(self, turn: Turn, fields: Json, answered: Callable[[Json], None]) -> None:
        """Ask the supervisor; what it refuses ends the line with the reason."""
        link = self._host.lifecycle.link
        self._display = (self._host.displays.new_id(), turn.cell.request.header, False)

        def took(told: Json) -> None:
            self._progress_over()
            if told.get("ok") is True:
                self._host.files.count(told)
                answered(told)
            else:
                turn.refuse(files_page.failure_text(told, turn.wanted.paths, chinese=self._chinese))

        if link is None or link.gone:
            took({"ok": False, "code": "no_sandbox"})
        else:
            link.request(protocol.OP_FILES, fields, turn.current(took), SECONDS)

    def progress(self, told: Json) -> None:
        """Show how far the request that is out is."""
        if self._display is None:
            return
        display_id, header, there = self._display
        self._display = (display_id, header, True)
        done, of, size = (told.get(name) for name in ("done", "of", "bytes"))
        rows = [
            (("文件" if self._chinese else "files"), f"{done} / {of}"),
            (("大小" if self._chinese else "size"), size_text(size)),
        ]
        title = "Sentinel：正在处理文件" if self._chinese else "Sentinel: working on files"
        self._host.outbox.display(table_bundle(title, rows), header, display_id, update=there)

    def _progress_over(self) -> None:
        if self._display is not None and self._display[2]:
            display_id, header, _ = self._display
            self._host.outbox.display({}, header, display_id, update=True)
        self._display = None

    # --- what is held

    def _list(self, turn: Turn, pages: list[Json], page: int) -> None:
        def answered(told: Json) -> None:
            pages.append(told)
            last = page + 1 >= int(told.get("pages") or 1) or page + 1 >= _MOST_PAGES
            if not last and "--json" in turn.wanted.options:
                self._list(turn, pages, page + 1)
                return
            whole, own, named = files_page.joined(pages), self._host.files.own, bool(turn.wanted.paths)
            earlier = () if named else self._host.files.earlier
            turn.done(
                files_page.held_data(whole, own)
                if "--json" in turn.wanted.options
                else files_page.held_page(whole, own, earlier, named=named, chinese=self._chinese)
            )

        self.request(turn, {"do": "list", "paths": list(turn.wanted.paths), "page": page}, answered)

    def _diff(self, turn: Turn, diffs: list[Json], page: int) -> None:
        from sentinel_kernel.kernel import files_diff  # noqa: PLC0415 - only for this option

        def answered(told: Json) -> None:
            diffs.extend(diff for diff in told.get("diffs") or () if isinstance(diff, dict))
            more = told.get("more") is True
            if more and page + 1 < _MOST_DIFF_PAGES:
                self._diff(turn, diffs, page + 1)
                return
            from sentinel_kernel.kernel.files_export import fetch_pictures  # noqa: PLC0415 - as above

            def fetched(pictures: files_diff.Pictures) -> None:
                named = bool(turn.wanted.paths)
                turn.done(
                    files_diff.diff_page(diffs, pictures, more=more, named=named, chinese=self._chinese)
                )

            fetch_pictures(self, turn, files_diff.wanted_pictures(diffs), fetched)

        self.request(turn, {"do": "diff", "paths": list(turn.wanted.paths), "page": page}, answered)

    # --- what changes something

    def commits_new(self) -> bool:
        """Tell whether new files get out by themselves, by the profile in force and how the kernel was started."""
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - only for the magics

        settings = self._host.settings
        try:
            profile = load_profile(self._host.lifecycle.profile, settings.profile_directories)
        except (SentinelError, OSError):
            return False
        return profile.filesystem.commit == "new" and settings.commit != "none"

    def ask(self, turn: Turn, need: Json, yes: Callable[[], None]) -> None:
        """Ask the person about one need; without a yes the line ends, and nothing has changed."""
        questions = self._host.questions
        if not questions.reaches(turn.cell):
            turn.refuse(files_words.nobody(str(need.get("what")), chinese=self._chinese))
            return

        def answered(answer: str) -> None:
            if answer == "yes":
                yes()
            else:
                turn.refuse(files_words.declined(chinese=self._chinese))

        prompt = files_words.question(need, chinese=self._chinese)
        questions.ask(turn.cell, prompt, YES, turn.current(answered))

    def _commit(self, turn: Turn, answers: Json, seen: str, rounds: int) -> None:
        def answered(told: Json) -> None:
            needs = [need for need in told.get("needs") or () if isinstance(need, dict)]
            if not needs:
                self._done(turn, "committed", told)
            elif rounds <= 1:
                turn.refuse(files_page.failure_text({"code": "changed_meanwhile"}, chinese=self._chinese))
            else:
                self._ask_each(turn, needs, {}, str(told.get("seen") or ""), rounds - 1)

        fields: Json = {"do": "commit", "paths": list(turn.wanted.paths), "answers": answers}
        # A cell's line is no person's word: what would not get out by itself is asked about, here and there.
        fields["ask_new"] = not self.commits_new()
        self.request(turn, {**fields, "seen": seen} if seen else fields, answered)

    def _ask_each(self, turn: Turn, needs: Sequence[Json], answers: Json, seen: str, rounds: int) -> None:
        """Ask one question after the other; where all are answered with yes, the commit is done."""
        if not needs:
            self._commit(turn, answers, seen, rounds)
            return
        first, *rest = needs
        agreed = {**answers, str(first.get("what")): True}
        self.ask(turn, first, lambda: self._ask_each(turn, rest, agreed, seen, rounds))

    def _discard(self, turn: Turn) -> None:
        fields = {"do": "discard", "paths": list(turn.wanted.paths)}

        def discard() -> None:
            self.request(turn, fields, lambda told: self._done(turn, "discarded", told))

        if turn.wanted.paths or "--all" in turn.wanted.options:
            discard()
            return

        def answered(told: Json) -> None:
            entries = [entry for entry in told.get("entries") or () if isinstance(entry, dict)]
            if not entries:
                discard()
                return
            paths = [files_words.path_of(entry) for entry in entries[:20]]
            self.ask(turn, {"what": "discard", "paths": paths, "count": told.get("count")}, discard)

        self.request(turn, {"do": "list"}, answered)

    def _done(self, turn: Turn, name: str, told: Json) -> None:
        turn.done(files_page.done_page(name, told, chinese=self._chinese))
