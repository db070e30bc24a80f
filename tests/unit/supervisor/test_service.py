"""The supervisor goes on whatever it stumbles over: the sandbox pays, and what is too much ends it all the same."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor import service as service_module
from sentinel_kernel.supervisor.service import _MOST_FAULTS, Service

if TYPE_CHECKING:
    from collections.abc import Iterator


WORDS = "what a cell said"


def _raise(*_: object) -> None:
    raise ZeroDivisionError(WORDS)


@pytest.fixture
def stumbling() -> Iterator[tuple[Service, socket.socket, list[str]]]:
    """Return a supervisor without a sandbox, the host's end, and why sandboxes were ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    service = Service(theirs, "")
    broken: list[str] = []
    session: Any = SimpleNamespace(
        waits=lambda: [0.0],
        serve=lambda _: True,
        is_held_call=lambda _: False,
        as_it_was=False,
        catch_up=lambda: None,
        life=SimpleNamespace(broken=broken.append, leftovers=SimpleNamespace(pending=False)),
    )
    service._session = session
    with ours, theirs:
        yield service, ours, broken


@pytest.mark.parametrize("where", ["serve", "catch_up"])
def test_a_fault_over_a_sandbox_ends_that_sandbox_alone(
    stumbling: tuple[Service, socket.socket, list[str]], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    service, _, broken = stumbling
    setattr(service._session, where, _raise)
    for count in range(1, _MOST_FAULTS + 1):
        service._turn()
        assert len(broken) == count
    with pytest.raises(ZeroDivisionError):
        service._turn()
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert WORDS not in said  # they may be a cell's


def test_a_request_that_can_not_be_served_is_answered_and_the_next_one_is_served(
    stumbling: tuple[Service, socket.socket, list[str]],
) -> None:
    service, host, broken = stumbling
    served: list[object] = []
    service._operations = {"explain": _raise, "words": lambda identifier, _: served.append(identifier)}
    protocol.send(host, {"op": "explain", "id": 1})
    protocol.send(host, {"op": "words", "id": 2})
    service._turn()
    received = protocol.receive(host)
    assert received is not None
    assert (received[0]["id"], received[0]["ok"]) == (1, False)
    assert served == [2]
    assert not broken


@pytest.mark.parametrize("as_it_was", [False, True])
def test_held_calls_alone_are_answered_first_and_the_rest_is_put_off_for_a_moment_at_most(
    stumbling: tuple[Service, socket.socket, list[str]], monkeypatch: pytest.MonkeyPatch, as_it_was: bool
) -> None:
    service, _, _ = stumbling
    session, clock, caught_up, waits = service._session, [100.0], [0], [10.0]

    def catch_up() -> None:
        caught_up[0] += 1

    monkeypatch.setattr(session, "catch_up", catch_up)
    monkeypatch.setattr(session, "waits", lambda: list(waits))
    monkeypatch.setattr(session, "is_held_call", lambda _: True)
    monkeypatch.setattr(session, "as_it_was", as_it_was)
    monkeypatch.setattr(service, "_poll", SimpleNamespace(poll=lambda _: []))
    monkeypatch.setattr(service_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for later, expected in ((0.0, 0), (0.9, 0), (0.2, 1), (0.9, 1)):
        clock[0] += later * service_module._BEHIND_SECONDS
        service._turn()
        assert caught_up[0] == expected
    waits[0] = 0.0  # what is due by the clock is not put off, unless nothing can have made it so
    clock[0] += as_it_was * service_module._BEHIND_SECONDS
    service._turn()
    assert caught_up[0] == 2
