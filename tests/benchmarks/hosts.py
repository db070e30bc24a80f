"""Connections to hosts that are allowed: what making one takes more than plain, and how fast an established one is."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path

from figures import Result, judged
from ordinary_user import own_identity
from supervised import Supervised
from test_network import network

HOST, NAME = "203.0.113.10", "allowed.example"
_TURNS = 7
_PROGRAM = """
import json, os, socket, sys, time
os.chdir(sys.argv[1])
socket.getaddrinfo("allowed.example", 80)
def connect():
    made = socket.socket()
    began = time.perf_counter()
    made.connect(("203.0.113.10", 80))
    took = time.perf_counter() - began
    made.recv(1)  # as a program does, which waits for an answer before it connects again
    made.close()
    return took
for _ in range(20):  # behind the sandbox's start, which the supervisor is not done with by then
    connect()
took = sorted(connect() for _ in range(300))
made = socket.create_connection(("203.0.113.10", 81))
buffer, speeds = bytearray(1 << 20), []
for _ in range(16):  # the median of short ones: what else the machine does is in some of them
    total, began = 0, time.perf_counter()
    while total < (32 << 20):
        total += made.recv_into(buffer)
    speeds.append(total / (time.perf_counter() - began))
speed = sorted(speeds)[len(speeds) // 2]
with open("told.json", "w") as file:
    json.dump({"connect": took[len(took) // 2], "speed": speed}, file)
"""
_SERVER = """
import socket, threading
def serve(port, answer):
    listening = socket.create_server(("203.0.113.10", port), backlog=128)
    def loop():
        while True:
            made, _ = listening.accept()
            answer(made)
    threading.Thread(target=loop).start()
def pour(made):
    block = bytes(1 << 20)
    try:
        while True:
            made.sendall(block)
    except OSError:
        made.close()
serve(80, lambda made: made.close())
serve(81, lambda made: threading.Thread(target=pour, args=(made,)).start())
print("ready", flush=True)
"""


def bench_hosts(folder: Path) -> list[Result]:
    """A connection through the supervisor beside a plain one, in turn; both to the same server over one link."""
    if os.geteuid() != 0:
        return []
    profiles = folder / "profiles"
    profiles.mkdir()
    hosts = {"allow": True, "allow_dns": True, "hosts": ["allowed.example"]}
    (profiles / "out.json").write_text(json.dumps({"extends": "datascience", "network": hosts}))
    with network(folder / "network", {NAME: [HOST]}) as made:
        server = subprocess.Popen(
            [*made.far_prefix(), "python3", "-c", _SERVER], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()
            who = own_identity(folder / "home")
            who = replace(who, prefix=(*made.prefix(), *who.prefix))
            with Supervised(who, folder / "state") as supervised:
                sides: dict[str, list[dict[str, float]]] = {"inside": [], "plain": []}
                for number in range(_TURNS):
                    work = folder / f"work{number}"
                    work.mkdir()
                    command = ["/usr/bin/python3", "-c", _PROGRAM, str(work)]
                    supervised.run(work, command, "out", profile_directories=[str(profiles)])
                    told = Path(f"/proc/self/fd/{supervised.upper}/told.json").read_text(encoding="utf-8")
                    sides["inside"].append(json.loads(told))
                    subprocess.run([*made.prefix(), *command], check=True, timeout=120)
                    sides["plain"].append(json.loads((work / "told.json").read_text(encoding="utf-8")))
        finally:
            server.kill()
            server.communicate()
    inside, plain = sides["inside"], sides["plain"]
    more = statistics.median(a["connect"] - b["connect"] for a, b in zip(inside, plain, strict=True))
    ratio = statistics.median(a["speed"] / b["speed"] for a, b in zip(inside, plain, strict=True))
    return [
        judged("connect_more_p50", more * 1000, "ms", None, value_at_most=0.5),
        judged(
            "connection_speed",
            statistics.median(one["speed"] for one in inside) / 1e6,
            "MB/s",
            statistics.median(one["speed"] for one in plain) / 1e6,
            ratio=1 / ratio,
            ratio_at_most=1.05,
        ),
    ]
