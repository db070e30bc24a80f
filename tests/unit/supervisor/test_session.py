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

    session.life = life = SimpleNamespace(serve=serve, current=None)  # type: ignore[assignment]
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


def test_a_worker_that_leaves_is_ended_and_the_next_one_is_not() -> None:
    replies: list[bool] = []
    killed: list[dict[str, object]] = []
    host: Any = SimpleNamespace(reply=lambda _, ok: replies.append(ok))
    session = Session(host, select.poll(), "")
    session.life = SimpleNamespace(running=SimpleNamespace(), generation=2, kill_worker=killed.append)  # type: ignore[assignment]
    for late in ({"generation": 1}, {}):
        session.interrupt(7, {"leave": True, **late})
    assert (replies, killed) == ([True, True], [])
    session.interrupt(7, {"leave": True, "generation": 2})
    assert (replies, killed) == ([True] * 3, [{"kind": "exit", "status": 0}])


class Slow(Keeper):
    """Takes its time for a cell's end."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name, self._told = name, told
        self.slow = False

    @property
    def busy(self) -> bool:
        return self.slow

    def begin_cell(self, message: dict[str, Any]) -> None:
        self._told.append(f"{self._name} begins {message['msg_id']}")

    def end_cell(self, message: dict[str, Any]) -> None:
        self._told.append(f"{self._name} ends {message['msg_id']}")
        self.slow = self._name == "slow"


def test_what_a_cell_leaves_to_do_comes_before_its_answer_and_the_next_cell() -> None:
    told: list[str] = []
    host: Any = SimpleNamespace(reply=lambda identifier, **_: told.append(f"answer {identifier}"))
    session = Session(host, select.poll(), "")
    life = SimpleNamespace(current=None, spare=SimpleNamespace(used=lambda: None, due_seconds=lambda: None))
    life.catch_up, life.due_seconds = (lambda: None), (lambda: None)
    session.life = life  # type: ignore[assignment]
    slow, last = Slow("slow", told), Slow("last", told)
    session._keepers += [slow, last]
    session.end_cell(1, {"msg_id": "a"})
    session.begin_cell(2, {"msg_id": "b"})
    session.end_cell(3, {"msg_id": "b"})
    session.catch_up()
    assert told == ["slow ends a"]
    slow.slow = False
    assert 0.0 in session.waits()
    session.catch_up()
    before = [
        "slow ends a",
        "last ends a",
        "answer 1",
        "slow begins b",
        "last begins b",
        "answer 2",
        "slow ends b",
    ]
    assert told == before
    slow.slow = False
    session.catch_up()
    assert told == [*before, "last ends b", "answer 3"]
