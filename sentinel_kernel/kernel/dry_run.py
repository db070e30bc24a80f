"""Dry runs as the host sees them: begun once they can be taken back, shown and taken back at the cell's end.

The cell may say what it likes of itself: what is held back is the supervisor's doing, and what is shown is what the
files process and the supervisor have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import dry_words, files_diff, files_page, files_reasons, files_words, rendering
from sentinel_kernel.kernel.cells import Stage
from sentinel_kernel.kernel.files import SECONDS
from sentinel_kernel.policy.sizes_in_words import size_text
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.files_entry import Current
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.rendering import Part
    from sentinel_kernel.kernel.wire import Json

_TRIES = 2
"""The files process may be ended while it takes back; the next one goes on where it was."""

_CLOSING_TRIES, _CLOSING_SECONDS = 6, 0.1
"""A connection that a cell has just closed is open until the other side has heard of it."""

_MOST_ROWS = 50
_MOST_HOSTS = 20


class DryRuns:
    """Begins and ends dry runs, one at a time and beside no other cell: what is taken back is all that changed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._chinese = host.settings.language == "zh"
        self._cell: Cell | None = None

    def forbids(self, cell: Cell) -> str:
        """Return why ``cell`` can't begin now: another one is a dry run; "" where it can."""
        running = self._cell
        if running is None or running is cell or running.stage not in (Stage.OPENING, Stage.RUNNING):
            return ""
        return dry_words.under_way(chinese=self._chinese)

    def begin(
        self, cell: Cell, current: Current, begin: Callable[[], None], refuse: Callable[[str, str], None]
    ) -> None:
        """Have kept what is to be brought back, then call ``begin``; or ``refuse`` (class and text of the error)."""
        chinese = self._chinese
        if cell.dry_run is not None and cell.dry_run.argument_text:
            typed = rendering.printable(cell.dry_run.argument_text, 80)
            refuse("UsageError", dry_words.argument(cell.dry_run.line_number, typed, chinese=chinese))
            return
        if self._host.execution.beside(cell):
            refuse("DryRunError", dry_words.beside(chinese=chinese))
            return
        self._cell = cell
        cell.allow_stdin = False  # nobody is asked anything

        tries = _CLOSING_TRIES

        def kept(told: Json) -> None:
            nonlocal tries
            tries -= 1
            if told.get("ok") is True:
                begin()
            elif told.get("code") == "connected" and tries:
                self._host.loop.call_later(_CLOSING_SECONDS, current(ask))
            else:
                refuse("DryRunError", files_page.failure_text(told, chinese=chinese))

        def ask() -> None:
            self._ask(protocol.OP_FILES, {"do": "trial_begin"}, current(kept))

        ask()

    def end(self, cell: Cell, fields: Json, release: Callable[[], None]) -> None:
        """Show what the cell would have changed and reached, take it back, then call ``release``."""

        def taken_back(wanted: list[str], tries: int, told: Json) -> None:
            if told.get("ok") is not True and told.get("code") == "ended" and tries > 1:
                ask(wanted, tries - 1)
                return
            if cell.stage is not Stage.RUNNING:
                return  # its worker is gone, and it was answered
            if told.get("ok") is True:
                self._host.files.count(told)
            self._host.outbox.display(
                dry_page(told, wanted, chinese=self._chinese),
                cell.request.header,
                self._host.displays.new_id(),
            )
            release()

        def ask(wanted: list[str], tries: int) -> None:
            self._ask(protocol.OP_FILES, {"do": "trial_end"}, lambda told: taken_back(wanted, tries, told))

        def ended() -> None:
            self._ask(protocol.OP_NETWORK, {"do": "list"}, lambda told: ask(_hosts(told), _TRIES))

        self._host.cell_calls.end_cell(fields, ended)

    def _ask(self, operation: str, fields: Json, answered: Callable[[Json], None]) -> None:
        link = self._host.lifecycle.link
        if link is None or link.gone:
            answered({"ok": False, "code": "no_sandbox"})
        else:
            link.request(operation, fields, answered, SECONDS)


def _hosts(told: Json) -> list[str]:
    """Return the hosts that were wanted, as they are shown."""
    found = []
    for one in told.get("wanted") or ():
        if isinstance(one, list) and len(one) == 2:
            name = rendering.printable(one[0], 100)
            found.append(f"[{name}]:{one[1]}" if ":" in name else f"{name}:{one[1]}" if one[1] else name)
    return found


def dry_page(told: Json, wanted: list[str], *, chinese: bool) -> Json:
    """Return the bundle of what a dry run would have done; ``told`` is the answer of ``trial_end``."""
    parts: list[Part] = []
    notes: list[str] = []
    if told.get("ok") is not True:
        notes.append(dry_words.left(files_reasons.reason(told.get("code"), chinese=chinese), chinese=chinese))
    else:
        _written(told, parts, notes, chinese=chinese)
    if wanted:
        parts.append(rendering.heading_part(dry_words.say("reached", chinese=chinese)))
        parts.append(
            rendering.columns_part(["主机" if chinese else "host"], [[host] for host in wanted[:_MOST_HOSTS]])
        )
    else:
        notes.append(dry_words.say("no_host", chinese=chinese))
    notes.append(dry_words.say("not_covered", chinese=chinese))
    return rendering.page_bundle(dry_words.say("title", chinese=chinese), parts, notes)


def _written(told: Json, parts: list[Part], notes: list[str], *, chinese: bool) -> None:
    entries = [entry for entry in told.get("entries") or () if isinstance(entry, dict)]
    diffs = [diff for diff in told.get("diffs") or () if isinstance(diff, dict)]
    count = told.get("count")
    if not entries:
        notes.append(dry_words.say("nothing", chinese=chinese))
    else:
        rows = [_row(entry, chinese=chinese) for entry in entries[:_MOST_ROWS]]
        header = ["文件", "更改", "大小"] if chinese else ["file", "change", "size"]
        parts.append(rendering.heading_part(dry_words.say("written", chinese=chinese)))
        parts.append(rendering.columns_part(header, rows, first=files_words.PATH_CHARACTERS))
        more = (count if isinstance(count, int) else 0) - len(rows)
        if more > 0:
            notes.append(
                f"另有 {more} 个未列出。"
                if chinese
                else f"{more} more {'is' if more == 1 else 'are'} not listed."
            )
        parts += files_diff.diff_parts(diffs, {}, chinese=chinese)
        notes.append(dry_words.say("taken_back", chinese=chinese))
    failed = told.get("failed")
    failed = failed if isinstance(failed, dict) else {}
    if failed.get("count"):
        paths = [entry.get("path") for entry in failed.get("paths") or () if isinstance(entry, dict)]
        notes.append(
            dry_words.failed(files_words.named(paths, int(failed["count"]), chinese=chinese), chinese=chinese)
        )


def _row(entry: Json, *, chinese: bool) -> list[str]:
    kind = files_words.KINDS.get(str(entry.get("kind")), ("changed", "已修改"))
    size, folder = entry.get("size"), entry.get("is_folder") is True
    return [
        files_words.path_of(entry) + ("/" if folder else ""),
        files_reasons.say(kind, chinese=chinese),
        size_text(size) if isinstance(size, int) and size >= 0 and not folder else "-",
    ]
