"""Addresses that the machine gets while a sandbox runs are its own from then on: no name leads a cell there."""

from __future__ import annotations

import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from network_notebook import NAMES, World, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

PROFILE: dict[str, Any] = {
    "extends": "datascience",
    "network": {
        "allow": True,
        "allow_dns": True,
        "hosts": ["*.wild.example.org:80"],
        "http": [{"method": "GET", "scheme": "http", "host": "api.example.org"}],
    },
}
REACH = """
import socket
def reached(host):
    told = []
    for place, asked in (((host, 80), "/"), (("127.0.0.1", 3128), f"http://{host}/")):
        try:
            with socket.create_connection(place, timeout=20) as made:
                made.sendall(f"GET {asked} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n".encode())
                told.append(made.makefile("rb").readline().split()[1].decode())
        except OSError as error:
            told.append(type(error).__name__)
    return told
"""
ADDED = ("address", "add", "203.0.113.77/32", "dev", "lo"), "203.0.113.77"
ROUTED = ("route", "add", "local", "203.0.113.128/25", "dev", "lo"), "203.0.113.200"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def test_an_address_that_came_later_or_by_a_route_is_reached_by_no_name(outside: World) -> None:
    hosts = outside.hosts
    names = {**NAMES, "b.wild.example.org": NAMES["web.example.org"]}
    listening = hosts.listen("0.0.0.0", 80, near=True)
    with listening, outside.notebook(PROFILE) as book:
        hosts.rename(names)
        assert book.run(REACH + "print(reached('b.wild.example.org'))").text == "['200', '200']\n"
        for number, (command, address) in enumerate((ADDED, ROUTED)):
            subprocess.run(["nsenter", f"--net=/proc/{hosts.near}/ns/net", "ip", *command], check=True)
            names[f"own{number}.wild.example.org"] = [address]
            hosts.rename(names)
            told = book.run(f"print(reached('own{number}.wild.example.org'))").text
            assert told == "['OSError', '403']\n"
        listening.settimeout(0)
        with pytest.raises(BlockingIOError):
            listening.accept()
        # It answers all the same, whom the machine lets: nothing else has kept the cell out.
        listening.settimeout(20)
        ask = "import socket; socket.create_connection(('203.0.113.200', 80), 20)"
        subprocess.run([*hosts.prefix(), "python3", "-c", ask], check=True)
        made, (seen, *_) = listening.accept()
        made.close()
        assert seen == "203.0.113.200"
        assert socket.inet_aton(seen)
