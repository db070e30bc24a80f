"""Reaching hosts that are not allowed: against listeners that would tell, each attack beside what is allowed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lacking import need_root
from ordinary_user import ordinary_identity, own_identity
from supervised import VICTIMS, Supervised, own_folder
from test_network import NEAR_4, NEAR_6, Hosts, network

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

ALLOWED, ALLOWED_6, DENIED, PRIVATE = "203.0.113.10", "2001:db8:9::10", "203.0.113.12", "10.9.9.9"
NAMES = {
    "allowed.example": [ALLOWED, ALLOWED_6],
    "control.example": [ALLOWED],
    "rebind.example": ["203.0.113.20"],
    "denied.example": [DENIED],
    "private.example": [PRIVATE],
    "loop.example": ["127.0.0.1"],
    "a.wild.example": ["203.0.113.21"],
}
LISTED = [
    "allowed.example:80", "allowed.example:83-84", "control.example:82", "rebind.example", "private.example",
    "loop.example", "*.wild.example", "203.0.113.99:80",
]  # fmt: skip
ROUNDS = {"root": 1000, "ordinary": 200}
"""Of the races, by who has started the kernel; a long run has a hundred thousand."""
_SECONDS, _ROUNDS_A_SECOND = 60.0, 20
"""How long an attack may take, on a machine that does much else."""
PROFILE = {"extends": "datascience", "network": {"allow": True, "allow_dns": True, "hosts": LISTED}}


_CONTROL = f"""
import json, socket, sys
for _, address, port in json.loads(sys.argv[1]):
    socket.create_connection((address, int(port)), 10)
for where in (({DENIED!r}, 53), ({ALLOWED!r}, 443)):
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"control", where)
"""


class Outcome:
    """What the attacks told, and who was reached that should not be."""

    def __init__(
        self, by: str, told: dict[str, Any], reached: list[str], events: list[dict[str, Any]]
    ) -> None:
        self.by = by
        self.told = told
        self.reached = reached
        self.violations = [one["violation"] for one in events if one["event"] == "violation"]


def serve(listening: socket.socket, answer: bytes) -> None:
    """Answer each connection with some bytes until the listener is closed."""
    while True:
        try:
            made, _ = listening.accept()
        except OSError:
            return
        with made, contextlib.suppress(OSError):
            made.sendall(answer)


def control(listening: socket.socket, hosts: Hosts) -> None:
    """Have names lead elsewhere when a client says so: as whoever answers for a name can, at any moment."""
    while True:
        try:
            made, _ = listening.accept()
        except OSError:
            return
        with made, contextlib.suppress(OSError):
            if made.recv(6) == b"rename":
                hosts.rename(NAMES | {"rebind.example": [DENIED, PRIVATE]})
                made.sendall(b"done")


def attack(folder: Path, by: str, rounds: int) -> Outcome:
    """Run all attacks in one sandbox, and return what came of them."""
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network(folder / "network", NAMES))
        hosts.add("169.254.169.254")
        allowed = [(ALLOWED, 80, b"hello"), (ALLOWED_6, 80, b"hello"), ("203.0.113.20", 80, b"hello")]
        moved = f"HTTP/1.0 302 Found\r\nLocation: http://{PRIVATE}/\r\nContent-Length: 0\r\n\r\n"
        allowed.append((ALLOWED, 83, moved.encode()))
        for address, port, answer in allowed:
            listening = stack.enter_context(closing(hosts.listen(address, port)))
            threading.Thread(target=serve, args=(listening, answer), daemon=True).start()
        listening = stack.enter_context(closing(hosts.listen(ALLOWED, 82)))
        threading.Thread(target=control, args=(listening, hosts), daemon=True).start()
        # Nobody is asked to accept these: a connection would wait in their queue.
        forbidden = {
            f"{address}:{port}": stack.enter_context(hosts.listen(address, port))
            for address, port in (
                (DENIED, 80),
                (ALLOWED, 81),
                (ALLOWED, 443),
                (PRIVATE, 80),
                ("169.254.169.254", 80),
            )
        }
        datagrams = [
            stack.enter_context(hosts.listen(address, port, kind=socket.SOCK_DGRAM))
            for address, port in ((DENIED, 53), (ALLOWED, 443))
        ]
        near = stack.enter_context(hosts.listen("0.0.0.0", 0, near=True))
        port = near.getsockname()[1]
        near_6 = stack.enter_context(hosts.listen("::", port, near=True))
        forbidden |= {"host": near, "host_6": near_6}
        for one in (*forbidden.values(), *datagrams):
            one.setblocking(False)
        who = own_identity(folder / "home") if by == "root" else stack.enter_context(ordinary_identity())
        who = dataclasses.replace(who, prefix=(*hosts.prefix(), *who.prefix))
        place = own_folder(who, folder / by)
        workspace = own_folder(who, place / "work")
        victim = workspace / "attack.py"
        victim.write_text((VICTIMS / "network_escapes.py").read_text())
        profiles = own_folder(who, place / "profiles")
        (profiles / "attacked.json").write_text(json.dumps(PROFILE))
        for file in (victim, profiles / "attacked.json"):
            file.chmod(0o644)
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        path = workspace / "host.sock"
        with contextlib.chdir(workspace):
            local.bind("host.sock")
        path.chmod(0o777)
        local.listen()
        arguments = [str(workspace / "told.json"), str(rounds), str(port), "sentinel-host", str(path)]
        supervised = stack.enter_context(Supervised(who, place / "state"))
        payload = [supervised.python, str(victim), *arguments]
        supervised.start(workspace, "attacked", payload=payload, profile_directories=[str(profiles)])
        supervised.wait("worker_died", _SECONDS + rounds / _ROUNDS_A_SECOND)
        with open(f"/proc/self/fd/{supervised.upper}/told.json", encoding="utf-8") as file:
            told = json.load(file)
        reached = [name for name, one in forbidden.items() if is_reached(one)]
        for one in datagrams:
            with contextlib.suppress(BlockingIOError):
                reached.append(f"datagram {one.recv(99)!r}")
        # The positive control: from outside the sandbox all of them are reached.
        dialed = [[name, *name.rsplit(":", 1)] for name in forbidden if ":" in name]
        dialed += [["host", NEAR_4, str(port)], ["host_6", NEAR_6, str(port)]]
        who.run(who.python, "-c", _CONTROL, json.dumps(dialed))
        reached += [f"control failed: {name}" for name, *_ in dialed if not is_reached(forbidden[name])]
        for one in datagrams:
            one.setblocking(True)
            one.settimeout(_SECONDS)
            assert one.recv(9) == b"control"
        return Outcome(by, told, reached, supervised.events)


@contextlib.contextmanager
def closing(sock: socket.socket) -> Iterator[socket.socket]:
    """Close a socket that a thread waits on."""
    try:
        yield sock
    finally:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()


def is_reached(listening: socket.socket) -> bool:
    """Tell whether somebody has connected."""
    try:
        listening.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture(scope="module", params=["root", "ordinary"])
def outcome(request: pytest.FixtureRequest) -> Iterator[Outcome]:
    """Return what came of the attacks, made once for each who may start a kernel."""
    need_root("the network for the test is root's to make")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # pytest's own folders are closed to the ordinary user
        yield attack(Path(folder), str(request.param), ROUNDS[request.param])


def test_nobody_is_reached_who_is_not_allowed(outcome: Outcome) -> None:
    assert outcome.reached == []


def test_what_is_allowed_works_as_without_a_sandbox(outcome: Outcome) -> None:
    assert outcome.told["honest"] == {
        "begun": "EINPROGRESS",
        "error": 0,
        "peer": ALLOWED,
        "flags": [False, False],
        "twice": ["ok", "EISCONN"],
        "early": "EINPROGRESS",
        "event": True,
        "modified": "ok",
        "read": "hello",
        "options": [1, 1, 77, 0],
        "refused_there": "ECONNREFUSED",
        "patience": "EINPROGRESS",
        "inside": True,
        "inside_begun": outcome.told["honest"]["inside_begun"],
        "nobody": "ECONNREFUSED",
        "low_port": "EACCES",
        "bad_number": "EBADF",
        "no_socket": "ENOTSOCK",
        "bad_address": "EFAULT",
    }
    assert outcome.told["honest"]["inside_begun"] in ("ok", "EINPROGRESS")


def test_places_that_are_not_listed_are_not_there(outcome: Outcome) -> None:
    inside = dict.fromkeys(("loopback", "loopback_6", "any", "mapped_loopback"), "ECONNREFUSED")
    outside = ("denied", "other_port", "private", "own", "own_6", "metadata", "link")
    allowed = dict.fromkeys(("allowed", "allowed_6"), "ok")
    assert outcome.told["places"] == dict.fromkeys(outside, "ENETUNREACH") | inside | allowed


def test_an_address_in_another_form_is_the_same_address(outcome: Outcome) -> None:
    told = outcome.told["other_forms"]
    allowed = [name for name in told if name.endswith("_allowed")]
    assert len(allowed) == 7, "each way to write an address is tried with one that is allowed"
    assert {told.pop(name) for name in allowed} == {"ok"}
    assert told.pop("short") == "EINVAL"
    assert set(told.values()) == {"ENETUNREACH"}


def test_a_connection_that_is_taken_back_leads_nowhere_else(outcome: Outcome) -> None:
    told = outcome.told["taken_back"]
    assert told.pop("is_outside") is True, "the socket is one of the network outside, or nothing is tried"
    assert told == {
        "connect": "ENETUNREACH",
        "private": "ENETUNREACH",
        "loopback": "ENETUNREACH",
        "bind": "EINVAL",
        "listen": "EINVAL",
        "send": "ENOTSUP",
        "device": "EPERM",
        "devices": "EPERM",
        "route": "EPERM",
        "joined": "ENOPROTOOPT",
        "joined_6": "ENOPROTOOPT",
        "joined_one_source": "ENOPROTOOPT",
        "bound_to_device": "EPERM",
        "bound_to_device_index": "EPERM",
        "upper_protocol": "ENOTSUP",
        "type_of_service": "ok",
        "end": ["ENOTCONN", 0],
        "again": "ok",
        "own_device": "ok",
    }


def test_a_connection_that_was_shut_down_half_open_leads_nowhere_else(outcome: Outcome) -> None:
    told = outcome.told["half_open"]
    assert told.pop("shutdown") in ("ok", "ENOTCONN")
    assert told == {
        "first": "EINPROGRESS",
        "bind": "EINVAL",
        "listen": "EINVAL",
        "connect": "ENETUNREACH",
        "end": ["ENOTCONN", 0],
    }


def test_sending_connects_to_nobody(outcome: Outcome) -> None:
    told = outcome.told["sending_connects"]
    assert {told.pop("sendmsg_named"), told.pop("sendmmsg_named")} <= {"EPIPE", "ENOTCONN"}
    assert {told.pop("datagram"), told.pop("datagram_message")} == {"ENETUNREACH"}
    assert set(told.values()) == {"ENOTSUP"}


def test_a_name_leads_to_what_it_was_resolved_to(outcome: Outcome) -> None:
    assert outcome.told["names"] == {
        "first": "203.0.113.20",
        "rebound": "ENETUNREACH",
        "rebound_private": "ENETUNREACH",
        "still": "ok",
        "later": "203.0.113.20",
        "not_listed": "EAI_AGAIN",
        "private": "EAI_NONAME",
        "loopback": "EAI_NONAME",
        "above_wildcard": "EAI_AGAIN",
        "below_wildcard": "203.0.113.21",
    }


def test_the_name_server_carries_nothing_out(outcome: Outcome) -> None:
    told = outcome.told["tunnel"]
    many = told.pop("many")
    assert many.get("2", 0) >= 80, "of as many names as one likes, most are not asked outside"
    assert told == {
        "not_listed": [5, 0],
        "text": [0, 0],
        "null": [0, 0],
        "other_class": [5, 0],
        "allowed": [0, 1],
        "case": [0, 1],
        "after_garbage": 1,
        "stream": 1,
    }


def test_a_redirect_leads_to_nobody_who_is_not_listed(outcome: Outcome) -> None:
    assert "Network is unreachable" in outcome.told["redirected"]


def test_local_sockets_stay_as_they_are(outcome: Outcome) -> None:
    told = outcome.told["local_sockets"]
    assert told.pop("path") in ("ENOENT", "ECONNREFUSED", "ENXIO")
    assert told == {
        "abstract": "ECONNREFUSED",
        "own_abstract": "ok",
        "own_path": "ok",
        "vsock": "EPERM",
        "raw": "EPERM",
        "packet": "EPERM",
    }


def test_a_socket_that_is_passed_on_is_no_other(outcome: Outcome) -> None:
    assert outcome.told["passed_on"] == "ENETUNREACH"


def test_no_other_protocol_and_no_option_leads_out(outcome: Outcome) -> None:
    assert outcome.told["other_protocols"] == {
        "sctp": "EPROTONOSUPPORT",
        "sctp_messages": "ESOCKTNOSUPPORT",
        "multipath": "ENETUNREACH",
        "multipath_6": "ENETUNREACH",
        "udp_lite": "ENETUNREACH",
        "dccp": "ESOCKTNOSUPPORT",
        "udp": "ENETUNREACH",
        "udp_named": "ENETUNREACH",
        "udp_mapped": "ENETUNREACH",
        "smc": "EPERM",
        "xdp": "EPERM",
        "ring": "ENOSYS",
        "repair": "EPERM",
        "transparent": "ENOPROTOOPT",
        "transparent_6": "ENOPROTOOPT",
        "mark": "EPERM",
        "force_device": "EPERM",
        "own_multipath": "ECONNREFUSED",
        "netlink_route": "EPERM",
        "netlink_address": "EPERM",
    }


def check_races(told: dict[str, Any], rounds: int) -> None:
    """Check what came of the races: both sides of them were met, and none was won."""
    address = told["swapped_address"]
    assert address["peers"] == [ALLOWED]
    assert set(address["counts"]) == {"ok", "ENETUNREACH"}, "both addresses were met in the calls"
    assert sum(address["counts"].values()) >= rounds
    # The positive control: who looks before the call, and then lets it go on, would have been wrong as often.
    assert address["changed_after_a_look"] > 0
    sockets = told["swapped_socket"]
    assert sum(sockets["counts"].values()) >= rounds
    assert sockets["changed_after_a_look"] > 0
    assert sockets["ends"]["loose"] == ["ENOTCONN", 0]
    assert sockets["ends"]["own"][0] == "ENOTCONN"
    assert sockets["counts"].keys() >= {"ENETUNREACH"}


def test_no_race_is_won(outcome: Outcome) -> None:
    check_races(outcome.told, ROUNDS[outcome.by])


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_no_race_is_won_in_a_hundred_thousand_rounds(tmp_path: Path) -> None:
    long = attack(tmp_path, "root", 100_000)
    assert long.reached == []
    check_races(long.told, 100_000)


def test_a_refusal_names_the_host(outcome: Outcome) -> None:
    told = {one["subject"]["text"]: one["rule"] for one in outcome.violations if one["subject"] is not None}
    assert told[f"{DENIED}:80"] == "network.hosts: not-listed"
    assert told["allowed.example:81"] == "network.hosts: port"
    assert told[f"{PRIVATE}:80"] == "network.hosts: private"
    assert told["denied.example"] == "network.hosts: not-listed"
