"""Stands for the user's other programs: ``outsider.py FOLDER`` says what it is, listens, and waits for its end."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys

KEY = 0x5E7A0000 | os.getpid() & 0xFFFF


def main() -> None:
    folder = sys.argv[1]
    kept = ctypes.create_string_buffer(b"secret-in-memory")
    sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
    name = f"sentinel-outsider-{os.getpid()}"
    sockets[0].bind(f"{folder}/listens")
    sockets[1].bind(f"\0{name}")
    tcp = socket.socket()
    tcp.bind(("127.0.0.1", 0))
    for sock in (*sockets, tcp):
        sock.listen(64)
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind(f"{folder}/listens.datagrams")
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(KEY, 4096, 0o1600)
    facts = {
        "pid": os.getpid(),
        "address": ctypes.addressof(kept),
        "listens": f"{folder}/listens",
        "name": name,
        "port": tcp.getsockname()[1],
        "key": KEY,
    }
    try:
        print(json.dumps(facts), flush=True)
        sys.stdin.read()
    finally:
        libc.shmctl(segment, 0, None)


if __name__ == "__main__":
    main()
