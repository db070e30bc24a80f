"""A session watches what its sandboxes and keepers have, whatever numbers their descriptors get."""

from __future__ import annotations

import errno
import os
import select
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable


class Closing(Keeper):
    """Closes its descriptor when there is something to read."""

    def __init__(self, descriptor: int) -> None:
        self.open = [descriptor]

    def descriptors(self) -> Iterable[int]:
        return tuple(self.open)

    def serve(self, ready: dict[int, int]) -> None:
        for descriptor in self.open:
            if descriptor in ready:
                os.close(descriptor)
                self.open = []


def test_a_sandbox_that_gets_the_number_of_what_was_closed_stays_watched() -> None:
    reader, writer = os.pipe()
    poll = select.poll()
    host: Any = None
    session = Session(host, poll, "")
    session._keepers.append(Closing(reader))
    session.waits()
    os.write(writer, b"x")
    ready = dict(poll.poll(0))
    assert list(ready) == [reader]
    made: list[int] = []

    def serve(_: dict[int, int]) -> bool:
        # What a lifetime does where a sandbox is ready: it watches the new one's socket.
        new, other = os.pipe()
        made.extend((new, other))
        poll.register(new, select.POLLIN)
        return True

    session.life = life = SimpleNamespace(serve=serve)  # type: ignore[assignment]
    life.catch_up = lambda: None
    session.serve(ready)
    session.catch_up()
    assert made[0] == reader
    os.write(made[1], b"x")
    assert [number for number, _ in poll.poll(0)] == [made[0]]
    for descriptor in (*made, writer):
        os.close(descriptor)


def test_an_error_that_can_not_be_looked_into_is_answered() -> None:
    replies: list[tuple[object, ...]] = []
    host: Any = SimpleNamespace(reply=lambda identifier, ok, fields: replies.append((identifier, ok, fields)))
    session = Session(host, select.poll(), "")

    def explain(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    session.life = SimpleNamespace(running=SimpleNamespace(held_line=None), generation=1)  # type: ignore[assignment]
    session._watchers = SimpleNamespace(explaining=SimpleNamespace(explain=explain))  # type: ignore[assignment]
    session.explain(7, {})
    assert replies == [(7, True, {})]
