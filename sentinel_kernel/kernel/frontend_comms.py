"""The comm target ``sentinel``: frontends hear of violations through it, and ask what is in force.

ARCHITECTURE.md ("The comm `sentinel`") has the messages as a JSON Schema. What comes in is a client's, signed; it is
read strictly all the same, and answered with an error where it is not understood. It works while a cell runs: the
host answers itself, and no worker sees any of it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from sentinel_kernel import __version__
from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.kernel.host_comms import is_target
from sentinel_kernel.kernel.outbox import NO_PARENT
from sentinel_kernel.kernel.wire import CONTENT, encode, text_of

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.loop import Timer
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part

VERSION = 1
UPDATE_SECONDS = 0.25
"""The least time between two tellings of one violation's count."""

MOST_COMMS = 16
MOST_RECORDS = 200
_MOST_EVENT_RECORDS = 50
_ANSWER_BYTES = 2 * 1024 * 1024
_REQUEST_BYTES = 4096
_IDENTIFIER_CHARACTERS = 64
_COMM_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
"""Short ones would be found in what the worker says by chance."""

_FIELDS = {
    "subscribe": frozenset({"op", "id"}),
    "unsubscribe": frozenset({"op", "id"}),
    "profile": frozenset({"op", "id"}),
    "status": frozenset({"op", "id"}),
    "violations": frozenset({"op", "id", "last"}),
}


class RequestTyped(Exception):
    """A request that can't be answered: ``code`` for programs, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrontendComms:
    """The open comms of the target. ``ids`` are theirs: nobody but their client may use them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.ids: dict[str, bool] = {}
        """comm id -> whether it wants to hear of violations."""

        self._stale: dict[str, Json] = {}
        self._timer: Timer | None = None
        host.outbox.told.listener = self

    # --- what clients send

    def takes(self, request: Request) -> bool:
        """Answer a client's comm message if it is about a comm of the target. Raises ProtocolError."""
        content = request.content()
        comm_id = text_of(content, "comm_id")
        opens = request.msg_type == "comm_open"
        if opens and not is_target(request.parts[CONTENT]):
            return False
        if not opens and comm_id not in self.ids:
            return False
        self._host.outbox.status("busy", request.header)
        if opens:
            self._open(comm_id, request, content)
        elif request.msg_type == "comm_close":
            del self.ids[comm_id]
        else:
            self._answer(comm_id, request, content)
        self._host.outbox.status("idle", request.header)
        return True

    def _open(self, comm_id: str, request: Request, content: Json) -> None:
        """Open a comm; what its first message asks for is answered at once."""
        if not _COMM_ID.fullmatch(comm_id) or comm_id in self.ids or comm_id in self._host.widgets.ids:
            # There is nothing to say it on; a comm that nobody holds is closed (Jupyter messaging, "Custom messages").
            self._host.outbox.publish("comm_close", {"comm_id": comm_id, "data": {}}, request.header)
            return
        if len(self.ids) >= MOST_COMMS:
            oldest = next(iter(self.ids))
            del self.ids[oldest]
            self._host.outbox.publish("comm_close", {"comm_id": oldest, "data": {}}, request.header)
        self.ids[comm_id] = False
        if content.get("data"):
            self._answer(comm_id, request, content)

    def _answer(self, comm_id: str, request: Request, content: Json) -> None:
        data = content.get("data")
        try:
            answer = self._carry_out(comm_id, data, len(request.parts[CONTENT]))
        except RequestTyped as error:
            answer = {"op": "error", "error": {"code": error.code, "message": str(error)}}
        identifier = data.get("id") if isinstance(data, dict) else None
        named = {"id": identifier} if _is_identifier(identifier) else {}
        self._send(comm_id, {"version": VERSION, **answer, **named}, request.header)

    def _carry_out(self, comm_id: str, data: object, size: int) -> Json:
        """Return the answer to a request of ``size`` bytes. Raises RequestTyped."""
        if size > _REQUEST_BYTES:
            raise RequestTyped("too_long", f"A request has at most {_REQUEST_BYTES} bytes.")
        operation = data.get("op") if isinstance(data, dict) else None
        if not isinstance(data, dict) or not isinstance(operation, str):
            raise RequestTyped("malformed", 'A request is an object with a text "op".')
        if operation not in _FIELDS:
            raise RequestTyped("unknown_op", f"Known are {', '.join(_FIELDS)}.")
        if not data.keys() <= _FIELDS[operation]:
            raise RequestTyped("unknown_field", f"{operation} takes {', '.join(sorted(_FIELDS[operation]))}.")
        if not _is_identifier(data.get("id", "")):
            raise RequestTyped("malformed", "An id is a number or a text of at most 64 characters.")
        if operation in ("subscribe", "unsubscribe"):
            self.ids[comm_id] = operation == "subscribe"
            return {"op": operation, "subscribed": self.ids[comm_id]}
        if operation == "violations":
            return self._violations(data.get("last", MOST_RECORDS))
        return {"op": operation, operation: self._profile() if operation == "profile" else self._status()}

    # --- answers

    def _violations(self, last: object) -> Json:
        if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= MOST_RECORDS:
            raise RequestTyped("malformed", f"last is a number from 1 to {MOST_RECORDS}.")
        told = self._host.outbox.told
        records = fitting(told.newest(last))
        return {"op": "violations", "violations": records, "known": len(told)}

    def _profile(self) -> Json:
        from sentinel_kernel.policy.compare import compiled  # noqa: PLC0415 - for this answer alone
        from sentinel_kernel.policy.in_words import limits, network  # noqa: PLC0415
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

        host = self._host
        name = host.lifecycle.profile
        known: Json = {"name": name, "ceiling": host.magics.ceiling_name, "choices": host.magics.choices()}
        try:
            profile = load_profile(name, host.settings.profile_directories)
        except (SentinelError, OSError) as error:
            return {**known, "problem": str(error)[:1000]}
        return {
            **known,
            "description": profile.description,
            "default_action": str(profile.default_action),
            "limits": list(limits(profile.resources)),
            "network": network(compiled(profile, os.uname().machine)),
        }

    def _status(self) -> Json:
        lifecycle, displays = self._host.lifecycle, self._host.displays
        return {
            "state": lifecycle.state.value,
            "profile": lifecycle.profile,
            "isolation": str(lifecycle.ready.get("rung", "")),
            "limits_kept_by": str(lifecycle.ready.get("backend", "")),
            "sandbox_number": lifecycle.generation,
            "refusals": displays.refusals,
            "others": displays.others,
            "violations": len(self._host.outbox.told),
            "running": sum(not cell.idle for cell in self._host.execution.running.values()),
            "kernel_version": __version__,
        }

    # --- what subscribers hear (session_violations.Listener)

    def noted(self, record: Json, *, new: bool) -> None:
        """Tell subscribers: of a new violation at once, of its later states now and then."""
        if not any(self.ids.values()):
            return
        if new:
            self._tell([record], self._parent())
            return
        self._stale[str(record.get("id"))] = record
        if self._timer is None:
            self._timer = self._host.loop.call_later(UPDATE_SECONDS, self._update)

    def settle(self, parent: Part) -> None:
        """Tell the last counts of a cell before its end."""
        if self._stale:
            stale, self._stale = list(self._stale.values()), {}
            for start in range(0, len(stale), _MOST_EVENT_RECORDS):
                self._tell(stale[start : start + _MOST_EVENT_RECORDS], parent)

    def _update(self) -> None:
        """Tell counts while a cell runs; between cells they wait: servers take any message for activity."""
        self._timer = None
        parent = self._parent()
        if parent != NO_PARENT:
            self.settle(parent)

    def _tell(self, records: list[Json], parent: Part) -> None:
        for comm_id, wanted in list(self.ids.items()):
            if wanted:
                self._send(
                    comm_id, {"version": VERSION, "op": "event", "violations": fitting(records)}, parent
                )

    def _parent(self) -> Part:
        for cell in reversed(self._host.execution.running.values()):
            if not cell.idle:
                return cell.request.header
        return NO_PARENT

    def _send(self, comm_id: str, data: Json, parent: Part) -> None:
        self._host.outbox.publish("comm_msg", {"comm_id": comm_id, "data": data}, parent)


def _is_identifier(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _IDENTIFIER_CHARACTERS
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def fitting(records: list[Json]) -> list[Json]:
    """Return the newest of the records that fit one message."""
    kept: list[Json] = []
    size = 0
    for record in reversed(records):
        try:
            size += len(encode(record))
        except ProtocolError:
            continue
        if size > _ANSWER_BYTES:
            break
        kept.append(record)
    return kept[::-1]
