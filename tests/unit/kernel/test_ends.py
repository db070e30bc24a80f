"""Signals to the host are acted on before anything that arrived after them."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sentinel_kernel.kernel.ends import watch_ends
from sentinel_kernel.kernel.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    os.close(signal.set_wakeup_fd(-1))
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(("number", "done"), [(signal.SIGINT, "interrupt"), (signal.SIGHUP, "stop")])
def test_a_signal_is_acted_on_before_input_that_is_there_too(number: int, done: str) -> None:
    order: list[str] = []
    loop = Loop()
    host = SimpleNamespace(
        loop=loop,
        settings=SimpleNamespace(parent_pid=0),
        interrupt=lambda: order.append("interrupt"),
        lifecycle=SimpleNamespace(stop=lambda: order.append("stop")),
    )
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def came(_events: int) -> None:
        order.append(os.read(reader, 64).decode())
        if len(order) == 2:  # as between two messages that are read one after the other
            os.kill(os.getpid(), number)
            loop.catch_up()
            order.append("the next")
        loop.stop()

    loop.watch(reader, came)
    watch_ends(cast("Any", host))
    os.write(writer, b"input")
    os.kill(os.getpid(), number)
    loop.run(lambda: False)
    loop.close()
    os.close(reader)
    os.close(writer)
    assert order == [done, "input", done, "the next"]
