"""What the host shows in a cell: violations with their counts, and notices of what was held back."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.cells import Shown
from sentinel_kernel.kernel.earlier_cells import EarlierCells

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.loop import Loop, Timer
    from sentinel_kernel.kernel.outbox import Outbox
    from sentinel_kernel.kernel.wire import Json, Part
    from sentinel_kernel.kernel.words import Words

UPDATE_SECONDS = 0.25
"""The least time between two versions of one display: clients count messages, and redraw at each."""

PLACE_SECONDS = 2.0
"""How long a violation's line, which comes behind it, waits for an error that says more, or for the cell's end."""

DISPLAYS_PER_CELL = 50
"""More kinds of violations than this in one cell are counted for the status page alone."""

_REMEMBERED_DISPLAYS = 2000

_PLACE = ("line", "function", "library", "thread", "started_line", "confidence")
"""What is known of a violation's place only a few milliseconds behind it."""


class Displays:
    """Publishes the host's displays and keeps them up to date. ``complete`` adds the words to a violation."""

    def __init__(self, loop: Loop, outbox: Outbox, language: str, complete: Callable[[Json], Json]) -> None:
        self._loop = loop
        self._outbox = outbox
        self._language = language
        self._complete = complete
        self._timer: Timer | None = None
        self._earlier = EarlierCells()
        self._stale: list[tuple[Cell, Shown]] = []
        self.ids: dict[str, None] = {}
        """The display ids that are the host's own; the worker may not use them."""

        self.waiting: list[Words] = []
        """Notices from before the first cell, or between two cells: the next shows them."""

        self._late: dict[str, Shown] = {}
        """Violations of a silent cell, or behind the idle of one in which nothing began, by id: the next shows them."""

        self.said: Callable[[Words], None] = lambda _words: None
        """Told of each of those once it is shown."""

        self.refusals = 0
        """How many system calls were refused, repeats and all: what the audit counts."""

        self.others = 0
        """How many limits, failures and deaths were told beside them, which no call was refused for."""

        self.last_violations: dict[str, Json] = {}
        """The completed violations that were shown last, by id."""

    def refused(self, violation: Json, cell: Cell | None) -> None:
        """Count a refused call as the supervisor reports it, or its repeats, and show it as :meth:`violation`."""
        others = self.others
        self.violation(violation, cell)
        self.refusals += self.others - others
        self.others = others

    def violation(self, violation: Json, cell: Cell | None, limit: Json | None = None) -> None:
        """Show a violation in ``cell``, or its new count where it is shown already.

        ``limit`` is what the supervisor told of the limit that it is about.
        """
        identifier = str(violation.get("id", ""))
        known = self.last_violations.get(identifier)
        count = violation.get("count")
        count = count if isinstance(count, int) else 1
        if known is not None:
            self.others += max(0, count - int(known.get("count") or 0))
            known.update({key: violation[key] for key in ("count", "last_time_ms") if key in violation})
            if any(violation.get(name) is not None and known.get(name) is None for name in _PLACE):
                self._place(known, violation, cell)
            self._repeat(identifier, cell)
            self._outbox.told.note(known)
            return
        self.others += count
        completed = self._complete(self._placed(violation, cell))
        self.last_violations[identifier] = completed
        if len(self.last_violations) > _REMEMBERED_DISPLAYS:
            del self.last_violations[next(iter(self.last_violations))]
        if cell is None:
            # Nothing has run yet: there is no cell to show it in, and `%sentinel_status` counts it.
            self._outbox.told.note(completed)
            return
        if len(cell.violations) >= DISPLAYS_PER_CELL:
            self._outbox.told.note(completed)
            return
        shown = Shown(self.new_id(), completed, limit)
        if cell.silent or _never_began(cell):
            self._outbox.told.note(completed)
            if len(self._late) < DISPLAYS_PER_CELL:
                self._late[identifier] = shown
            return
        if cell.advice is not None and (taken := cell.advice.take(completed)):
            shown.display_id, shown.published_count = taken, 1  # one message, which was advice until now
        cell.violations[identifier] = shown
        if cell.began:
            self._show(cell, shown)

    def _placed(self, violation: Json, cell: Cell | None) -> Json:
        """Add which cell it was, and the text of the line where that is known."""
        earlier = self._earlier.find(violation.get("cell"))
        if earlier is not None:
            placed, code = {**violation, "execution_count": earlier.execution_count}, earlier.code
        elif cell is None or _never_began(cell):
            return violation
        else:
            placed, code = {**violation, "cell": cell.request.msg_id}, cell.code
            placed["execution_count"] = cell.execution_count
        line = violation.get("line") or violation.get("started_line")
        lines = code.split("\n")
        if isinstance(line, int) and 1 <= line <= len(lines) and not violation.get("source"):
            placed["source"] = lines[line - 1].strip()[:200]
        return placed

    def _place(self, known: Json, violation: Json, cell: Cell | None) -> None:
        """Show the line as soon as it is known: it comes a few milliseconds behind the refusal."""
        told = {key: violation[key] for key in _PLACE if key in violation}
        if told.get("line") is None and known.get("line") is not None:
            # The line is the error's, which came first: what is not known here takes nothing of it away.
            told = {key: value for key, value in told.items() if value is not None and key != "confidence"}
        if "line" not in told:
            told["line"] = known.get("line")
        if told.get("line") != known.get("line"):
            told["source"] = None  # until now it was that of the line that started the process
        if violation.get("cell") is not None:
            told["cell"] = violation["cell"]
        placed = self._placed({**known, **told}, cell)
        known.update(self._complete(placed))
        shown = cell.violations.get(str(known.get("id"))) if cell is not None else None
        if cell is not None and shown is not None and cell.began and shown.published_count:
            # An error that follows says more in a moment: whoever reads sees it change once.
            if not shown.changed:
                self._loop.call_later(PLACE_SECONDS, lambda: self._show_changed(cell, shown))
            shown.changed = True

    def _show_changed(self, cell: Cell, shown: Shown) -> None:
        if shown.changed:
            self._show(cell, shown)

    def add(self, identifier: str, fields: Json, cell: Cell) -> None:
        """Add to a violation what was found out later, and show it anew where it is shown."""
        known = self.last_violations.get(identifier)
        if known is None:
            return
        known.update(self._complete(self._placed({**known, **fields, "source": None}, cell)))
        shown = cell.violations.get(identifier)
        if shown is not None and cell.began and shown.published_count:
            self._show(cell, shown)

    def _repeat(self, identifier: str, cell: Cell | None) -> None:
        shown = cell.violations.get(identifier) if cell is not None else None
        if cell is None or shown is None:
            return
        if not cell.began:
            return
        if time.monotonic() - shown.published_at >= UPDATE_SECONDS:
            self._show(cell, shown)
        elif (cell, shown) not in self._stale:
            self._stale.append((cell, shown))
            if self._timer is None:
                self._timer = self._loop.call_later(UPDATE_SECONDS, self._update_stale)

    def _update_stale(self) -> None:
        self._timer = None
        stale, self._stale = self._stale, []
        for cell, shown in stale:
            if shown.published_count != shown.violation.get("count"):
                self._show(cell, shown)

    def _show(self, cell: Cell, shown: Shown, *, anew: bool = False) -> None:
        update = shown.published_count > 0 and not anew
        count = shown.violation.get("count")
        shown.published_count = count if isinstance(count, int) else 1
        shown.published_at = time.monotonic()
        shown.changed = False
        if shown.violation.get("cell") == cell.request.msg_id:
            shown.violation["execution_count"] = cell.execution_count  # may have been shown before it had one
        self._outbox.display(self._bundle(shown), cell.request.header, shown.display_id, update=update)
        if cell.show_again and not update:
            # The cell's next output, which clears those before, was this one.
            cell.show_again = False
            for other in cell.violations.values():
                if other is not shown and other.published_count:
                    self._show(cell, other, anew=True)

    def _bundle(self, shown: Shown) -> Json:
        from sentinel_kernel.kernel.violation_card import violation_bundle  # noqa: PLC0415 - not on the start path

        return violation_bundle(shown.violation, self._language, shown.limit)

    def bring_up_to_date(self, cell: Cell, *, ended: bool = False) -> None:
        """Publish the counts of ``cell`` that changed, and what waited for its execute_input, or its end."""
        if cell.advice is not None and cell.began:
            cell.advice.show()
        self._earlier.remember(cell)
        self.show_waiting(cell)
        if _takes_more(cell):
            late, self._late = self._late, {}
            cell.violations |= late
        for shown in cell.violations.values():
            if shown.is_behind:
                self._show(cell, shown)
        if cell.advice is not None and ended:
            cell.advice.ends()
        self._outbox.told.settle(cell.request.header)

    def show_waiting(self, cell: Cell) -> None:
        """Show in ``cell`` what waits for one, if it has begun, goes on and shows anything."""
        while self.waiting and _takes_more(cell):
            words = self.waiting.pop(0)
            self.notice(words, "notice", cell.request.header)
            self.said(words)

    def show_again(self, cell: Cell) -> None:
        """Show the cell's violations again: its outputs were cleared."""
        cell.show_again = False
        cell.notices.clear()
        if cell.advice is not None:
            cell.advice.show_again()
        for shown in cell.violations.values():
            self._show(cell, shown, anew=True)

    def hand_over(self, cell: Cell) -> None:
        """Put what waits for a cell among the pages of ``cell``, which the host is about to answer itself."""
        while self.waiting and cell.is_read:
            words = self.waiting.pop(0)
            cell.displays.append(rendering.notice_bundle(words, self._language, "notice"))
            self.said(words)
        late: dict[str, Shown] = {}
        if cell.is_read:
            late, self._late = self._late, {}
        if not cell.silent:
            for shown in (*cell.violations.values(), *late.values()):
                cell.displays.append(self._bundle(shown))

    def notice(
        self,
        words: Words,
        kind: str,
        parent: Part,
        cell: Cell | None = None,
        about: str = "",
        data: Json | None = None,
    ) -> None:
        """Show a notice; in ``cell`` each is shown once (``about`` tells them apart). ``data`` is added to its own."""
        if cell is not None and about:
            if about in cell.notices:
                return
            cell.notices.add(about)
        bundle = rendering.notice_bundle(words, self._language, kind, data)
        self._outbox.display(bundle, parent, self.new_id())

    def new_id(self) -> str:
        """Return a display id that is the host's own from here on."""
        display_id = os.urandom(16).hex()
        self.ids[display_id] = None
        if len(self.ids) > _REMEMBERED_DISPLAYS:
            del self.ids[next(iter(self.ids))]
        return display_id


def _takes_more(cell: Cell) -> bool:
    """Tell whether what is shown in a cell now is read: its execute_input is out, and its idle is not."""
    return cell.began and not cell.idle and cell.is_read


def _never_began(cell: Cell) -> bool:
    """Tell whether a cell is over and showed nothing of the worker's: the host answered it, or nobody looks at it."""
    return cell.idle and not cell.began
