"""Taking variables from one worker to the next: asked for one by one, kept as bytes that nobody here looks into."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.left_behind import INTERRUPTED, LATE, TOO_LARGE, UNHEARD, Left, left_behind
from sentinel_kernel.kernel.wire import (
    CONTENT,
    HEADER,
    HEADER_BYTES,
    decode,
    encode,
    split,
    text_of,
    unsigned,
)
from sentinel_kernel.record import MutableRecord, Record, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.loop import Timer
    from sentinel_kernel.kernel.wire import Json, Part

MOST_BYTES = 256 * 1024 * 1024
"""The most that is carried; the host holds it while one sandbox goes and the next one comes."""

SECONDS = 60.0
"""How long saving, and then loading, may take."""

PROGRESS_SECONDS = 1.0
_MOST_NAMES = 2000
_NAME_CHARACTERS = 200
_CONTENT_BYTES = 1024 * 1024
_KINDS = ("module", "pickle")
_CLIENT = [b"sentinel-carry"]
_PREFIX = "sentinel-carry-"


class Carried(Record):
    """One variable: its name, how it was saved, and the bytes."""

    name: str
    kind: str
    data: Part


class Cargo(MutableRecord):
    """What was saved, and what stays behind: name and why."""

    carried: list[Carried] = fresh(default_factory=list)
    left: list[tuple[str, Left]] = fresh(default_factory=list)
    fault: Left | None = None
    """Why nothing could be saved at all."""

    @property
    def size_bytes(self) -> int:
        """Return how much is held."""
        return sum(len(item.data) for item in self.carried)


class Carrying:
    """Asks the worker, one request at a time. ``progress`` is told how far it is: variables done, all, bytes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._waiting: dict[str, Callable[[Json, list[Part]], None]] = {}
        self._late: Timer | None = None
        self._ticker: Timer | None = None
        self._stop: Callable[[Left], None] | None = None
        self._count = 0

    def save(self, progress: Callable[[int, int, int], None], done: Callable[[Cargo], None]) -> None:
        """Have every variable saved that can be; then call ``done``."""
        cargo = Cargo()
        names: deque[str] = deque()
        total = 0

        def finish() -> None:
            self._end()
            done(cargo)

        def stop(why: Left) -> None:
            cargo.fault = why
            finish()

        def listed(reply: Json, _buffers: list[Part]) -> None:
            nonlocal total
            found = reply.get("names")
            if not isinstance(found, list):
                cargo.fault = Left(LATE if reply.get("reason") == LATE else UNHEARD)
                finish()
                return
            names.extend(
                name
                for name in found[:_MOST_NAMES]
                if isinstance(name, str) and len(name) <= _NAME_CHARACTERS and name.isidentifier()
            )
            total = len(names)
            step()

        def step() -> None:
            if not names:
                finish()
                return
            most = MOST_BYTES - cargo.size_bytes
            self._ask({"do": "save", "name": names[0], "most_bytes": most}, [], saved)

        def saved(reply: Json, buffers: list[Part]) -> None:
            _keep(cargo, names.popleft(), reply, buffers)
            step()

        self._begin(stop, lambda: progress(total - len(names), total, cargo.size_bytes))
        self._ask({"do": "list"}, [], listed)

    def load(
        self, cargo: Cargo, progress: Callable[[int, int, int], None], done: Callable[[Cargo], None]
    ) -> None:
        """Have the new worker take up ``cargo``; ``done`` gets what it has taken, and what it could not."""
        waiting = deque(cargo.carried)
        loaded = Cargo(left=list(cargo.left))

        def finish() -> None:
            self._end()
            done(loaded)

        def stop(why: Left) -> None:
            loaded.left += [(item.name, why) for item in waiting]
            finish()

        def step() -> None:
            if not waiting:
                finish()
                return
            item = waiting[0]
            self._ask({"do": "load", "name": item.name, "kind": item.kind}, [item.data], taken)

        def taken(reply: Json, _buffers: list[Part]) -> None:
            item = waiting.popleft()
            if reply.get("status") == "ok":
                loaded.carried.append(Carried(item.name, item.kind, b""))
            else:
                loaded.left.append((item.name, left_behind(reply)))
            step()

        self._begin(stop, lambda: progress(len(loaded.carried), len(cargo.carried), cargo.size_bytes))
        step()

    def interrupted(self) -> None:
        """Stop at the person's word: what was not saved or loaded by now is left behind."""
        if self._stop is not None:
            self._stop(Left(INTERRUPTED))

    def abandon(self) -> None:
        """Forget what is under way: the worker that was asked is gone, or nobody waits for it any more."""
        self._end()

    def takes(self, msg_id: str, msg_type: str, parts: list[Part]) -> bool:
        """Take an answer of the worker to one of these requests."""
        waiting = self._waiting.pop(msg_id, None)
        if waiting is None:
            return False
        if msg_type != "sentinel_carry_reply":
            raise ProtocolError(f"{msg_type} is no answer to a request for a variable.")
        waiting(decode(parts[CONTENT], _CONTENT_BYTES), parts[CONTENT + 1 :])
        return True

    def is_about(self, parent: Part) -> bool:
        """Tell whether a message that the worker published belongs to one of these requests."""
        return text_of(decode(parent, HEADER_BYTES), "msg_id").startswith(_PREFIX)

    # --- small parts

    def _begin(self, stop: Callable[[Left], None], tell: Callable[[], None]) -> None:
        self._end()
        loop = self._host.loop
        self._stop = stop

        def late() -> None:
            # What keeps the worker busy is a variable's own code.
            self._host.cell_calls.interrupt(lambda: None)
            stop(Left(LATE))

        self._late = loop.call_later(SECONDS, late)

        def tick() -> None:
            tell()
            self._ticker = loop.call_later(PROGRESS_SECONDS, tick)

        self._ticker = loop.call_later(PROGRESS_SECONDS, tick)

    def _end(self) -> None:
        for timer in (self._late, self._ticker):
            if timer is not None:
                timer.cancel()
        self._late = self._ticker = self._stop = None
        self._waiting.clear()

    def _ask(
        self, content: Json, buffers: Sequence[Part], answered: Callable[[Json, list[Part]], None]
    ) -> None:
        inner = self._host.lifecycle.inner
        if inner is None:
            return  # the worker is gone; whoever began this is told of that by other means, or by the deadline
        _, parts = split(self._host.session.message("sentinel_carry_request", content))
        header = decode(parts[HEADER], HEADER_BYTES)
        self._count += 1
        msg_id = f"{_PREFIX}{self._count}-{text_of(header, 'msg_id')}"
        parts[HEADER] = encode({**header, "msg_id": msg_id})
        self._waiting[msg_id] = answered
        inner["shell"].send(unsigned(_CLIENT, [*parts, *buffers]))


def _keep(cargo: Cargo, name: str, reply: Json, buffers: list[Part]) -> None:
    """Put one saved variable to the cargo, or what it stays behind for."""
    kind = reply.get("kind")
    if reply.get("status") != "ok" or kind not in _KINDS or len(buffers) != 1:
        cargo.left.append((name, left_behind(reply)))
    elif cargo.size_bytes + len(buffers[0]) > MOST_BYTES:
        cargo.left.append((name, Left(TOO_LARGE)))
    else:
        cargo.carried.append(Carried(name, str(kind), buffers[0]))
