"""The host's part in the limits: cards for those that are reached, a cell's output, and what the person has set."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.questions import YES
from sentinel_kernel.kernel.rendering import notice_bundle
from sentinel_kernel.kernel.wire import HEADER_BYTES, PARENT, decode, text_of
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.limit_magic import LimitChange
    from sentinel_kernel.kernel.wire import Json, Part

QUOTA = frozenset({"stream", "display_data", "update_display_data", "execute_result", "comm_msg"})
"""Messages that are a cell's output, as its summary counts it."""

_NEEDED = frozenset({"error", "debug_event", "comm_close", "clear_output", "execute_input"})
_NEEDED_BYTES = 256 * 1024
"""What a cell may still say in such messages once its output is used up: why it failed, where it stands."""

_REMEMBERED_CELLS = 64


class Limits:
    """Tells of limits in the cells that reach them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._output_bytes: dict[str, int] = {}
        """msg_id of a cell -> the bytes that were put out in its name."""
        self._needed_bytes: dict[str, int] = {}
        self._late: dict[str, Json] = {}
        host.lifecycle.told[protocol.EVENT_LIMIT] = self._reached

    # --- limits that are reached

    def _reached(self, event: Json) -> None:
        limit = event.get("limit")
        if isinstance(limit, dict):
            execution = self._host.execution
            cell = execution.running.get(str(limit.get("msg_id") or "")) or execution.newest()
            self.show(limit, cell)

    def show(self, limit: Json, cell: Cell | None) -> None:
        """Show the card of a limit in ``cell``, each kind once."""
        host = self._host
        about = _about(limit)
        if cell is None or cell.idle:
            self._late[about] = limit  # the next cell shows it
            return
        if cell.silent or about in cell.notices:
            return
        cell.notices.add(about)
        if limit.get("name") != "left_running":
            host.displays.violation(_violation(limit), cell, limit)
            return
        from sentinel_kernel.kernel.limit_words import left_running  # noqa: PLC0415 - not on the start path

        bundle = notice_bundle(left_running(limit), host.settings.language, "limit", {"limit": limit})
        if cell.began:
            host.outbox.display(bundle, cell.request.header, host.displays.new_id())
        else:
            cell.displays.append(bundle)

    def explained(self, limit: Json, place: Json, cell: Cell) -> Json | None:
        """Return the violation of a limit that explains an error at ``place``, shown in ``cell``; None: it is not.

        One that is ``owed`` is shown at the cell's end, with what was done about it. Both say the same remedy.
        """
        if limit.get("owed") is True:
            # With its cell, as the one that is shown: what helps is found in the cell's code.
            placed = {**_violation(limit), "cell": cell.request.msg_id}
            return self._host.violation_words.complete(placed)
        self.show(limit, cell)
        for identifier, shown in cell.violations.items():
            told = shown.limit
            if told is not None and _about(told) == _about(limit):
                if place.get("line") and not shown.violation.get("line"):
                    self._host.displays.add(identifier, place, cell)
                return shown.violation
        return None

    def show_late(self, cell: Cell) -> None:
        """Show in ``cell``, which has just begun, what was told behind the end of the last one.

        In one that the host is about to answer itself, put it where :meth:`Displays.hand_over` finds it.
        """
        if cell.is_read:
            late, self._late = self._late, {}
            for limit in late.values():
                self.show(limit, cell)

    # --- output

    def takes(self, msg_type: str, parts: list[Part]) -> bool:
        """Count a message as output of its cell; False where that has put out all that it may.

        All count but the kernel's states, which are bounded by themselves: a client keeps or shows every other one.
        """
        allowed = self._sizes().get("output_bytes")
        if allowed is None or msg_type == "status":
            return True
        execution = self._host.execution
        owner = text_of(decode(parts[PARENT], HEADER_BYTES), "msg_id")
        if owner not in self._output_bytes and owner not in execution.running:
            # Of a cell that is over and forgotten, or of none at all: made-up parents win nothing.
            newest = execution.newest()
            owner = newest.request.msg_id if newest is not None else ""
        size = sum(map(len, parts))
        if msg_type in _NEEDED and self._needed_bytes.get(owner, 0) + size <= _NEEDED_BYTES:
            self._needed_bytes[owner] = self._needed_bytes.get(owner, 0) + size
            while len(self._needed_bytes) > _REMEMBERED_CELLS:
                del self._needed_bytes[next(iter(self._needed_bytes))]
            return True
        after = self._output_bytes[owner] = self._output_bytes.get(owner, 0) + size
        while len(self._output_bytes) > _REMEMBERED_CELLS:
            del self._output_bytes[next(iter(self._output_bytes))]
        if after <= allowed:
            return True
        cell = execution.running.get(owner) or execution.newest()
        own = "output_bytes" in self._host.lifecycle.own_limits
        limit: Json = {
            "name": "output",
            "stage": "refused",
            "used": 0,
            "allowed": allowed,
            "unit": "bytes",
            "profile": self._host.lifecycle.profile,
            "backend": "host",
            "own": own,
            "detail": "",
        }
        if cell is not None and _about(limit) not in cell.notices:
            limit["place_of"] = _output_place(cell)
        self.show(limit, cell)
        return False

    def _sizes(self) -> Json:
        sizes = self._host.lifecycle.ready.get("sizes")
        return sizes if isinstance(sizes, dict) else {}

    # --- the person

    def person_asked(self, cell: Cell, *, waiting: bool) -> None:
        """Take note that ``cell`` waits for the person, whose time is not the cell's, or no longer."""
        if cell.asks is waiting:
            return
        cell.asks = waiting
        link = self._host.lifecycle.link
        if link is not None and self._sizes().get("wall_seconds") is not None:
            fields: Json = {"msg_id": cell.request.msg_id[:200], "waiting": waiting}
            link.request(protocol.OP_PERSON, fields, lambda _reply: None, CELL_SECONDS)

    # --- the magic

    def _beyond(self, change: LimitChange) -> Json:
        """Return the limits that go beyond the ceiling, with what it gives."""
        ceiling = self._host.lifecycle.ready.get("ceiling")
        if not isinstance(ceiling, dict):
            return {}
        return {
            name: ceiling[name]
            for name, value in change.limits
            if value is not None and ceiling.get(name) is not None and value > ceiling[name]
        }

    def unreachable(self, cell: Cell, change: LimitChange) -> str:
        """Return why a change that goes beyond the ceiling can't be had in ``cell``: nobody is asked there."""
        too_much = self._beyond(change)
        host = self._host
        if not too_much or (host.settings.lab is None and host.questions.reaches(cell)):
            return ""
        from sentinel_kernel.kernel.limit_magic import beyond_ceiling  # noqa: PLC0415 - seldom

        chinese = host.settings.language == "zh"
        return beyond_ceiling(too_much, dict(change.limits), host.magics.ceiling_name, chinese=chinese)

    def permit(self, cell: Cell, change: LimitChange, answered: Callable[[str], None]) -> None:
        """Ask the person, where a change goes beyond the ceiling; ``answered`` gets why it is not allowed, or ""."""
        too_much = self._beyond(change)
        if not too_much:
            answered("")
            return
        from sentinel_kernel.kernel import limit_magic  # noqa: PLC0415 - seldom

        host = self._host
        chinese = host.settings.language == "zh"
        if why := self.unreachable(cell, change):
            answered(why)
            return

        def said(answer: str) -> None:
            if answer == "yes":
                lifecycle = host.lifecycle
                lifecycle.granted_limits = tuple(dict.fromkeys((*lifecycle.granted_limits, *too_much)))
                answered("")
            else:
                answered(limit_magic.declined(chinese=chinese))

        prompt = limit_magic.question(
            too_much, dict(change.limits), host.magics.ceiling_name, chinese=chinese
        )
        host.questions.ask(cell, prompt, YES, said)

    def change(
        self, change: LimitChange, done: Callable[[Json], None], refuse: Callable[[str], None]
    ) -> None:
        """Have limits set, or listed; ``done`` gets the page that tells of it, ``refuse`` why they were not set.

        Where there is no sandbox yet, the page is empty.
        """
        lifecycle = self._host.lifecycle
        from sentinel_kernel.kernel import limit_magic  # noqa: PLC0415 - seldom

        chinese = self._host.settings.language == "zh"
        if lifecycle.state is not State.READY or lifecycle.link is None:
            if change.limits or change.drop:
                refuse(limit_magic.unchanged({}, chinese=chinese))
            else:
                done({})
            return

        def answered(told: Json) -> None:
            if change.limits or change.drop:
                if told.get("live") is True:
                    lifecycle.own_limits = dict(told.get("own") or {})
                    lifecycle.ready = {**lifecycle.ready, "sizes": told.get("after") or {}}
                    done(limit_magic.changed_page(told, lifecycle.profile, chinese=chinese))
                else:
                    log(limit_magic.unchanged(told, chinese=False))
                    refuse(limit_magic.unchanged(told, chinese=chinese))
            else:
                page = limit_magic.limits_page(
                    told, lifecycle.profile, chinese=chinese, ready=lifecycle.ready
                )
                done(page)

        fields: Json = {"limits": dict(change.limits), "drop": list(change.drop)}
        fields["granted"] = list(lifecycle.granted_limits)
        lifecycle.link.request(protocol.OP_LIMIT, fields, answered, CELL_SECONDS)


def _output_place(cell: Cell) -> Json | None:
    """Return the line of a cell that most likely put out too much; no stack tells it any more."""
    from sentinel_kernel.policy.output_line import output_line  # noqa: PLC0415 - seldom

    found = output_line(cell.code)
    if found is None:
        return None
    return {"line": found.line, "function": found.function, "library": None, "confidence": "likely"}


def _about(limit: Json) -> str:
    """Return what tells limits of one cell apart."""
    name = limit.get("name")
    # What is left running is each time something else; a limit's detail is a number, which changes.
    detail = limit.get("detail") if name == "left_running" else None
    return f"limit:{name}:{limit.get('stage')}:{limit.get('place')}:{detail}"


def _violation(limit: Json) -> Json:
    from sentinel_kernel.policy.occurrence import limit_violation  # noqa: PLC0415 - not on the start path

    return limit_violation(limit, id=os.urandom(8).hex(), time_ms=int(time.time() * 1000)).to_json()
