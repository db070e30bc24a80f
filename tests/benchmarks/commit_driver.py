"""Times commits out of an overlay beside `cp -r` of the same: FOLDER ROUNDS, in new user and mount namespaces.

Prints a list of [kind, seconds of the commit, seconds of `cp -r`] as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

from sentinel_kernel.abi.mount import MountFlags
from sentinel_kernel.linux import mounts
from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.workspace.commit import Outcome, commit, settle
from sentinel_kernel.workspace.layer import Layer
from sentinel_kernel.workspace.listing import changes

_FILES = 1000
_BYTES = 1 << 20
_ANSWERS = frozenset({"overwrite"})


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _layer(folder: str) -> Layer:
    held = f"{folder}/held"
    os.mkdir(held)
    mounts.mount("bench", held, "tmpfs", MountFlags(0), "size=3g")
    for name in ("upper", "work", "merged", "parked"):
        os.mkdir(f"{held}/{name}")
    host = f"{folder}/host"
    os.mkdir(host)
    options = f"lowerdir={host},upperdir={held}/upper,workdir={held}/work,userxattr"
    mounts.mount("bench", f"{held}/merged", "overlay", MountFlags(0), options)
    return Layer(
        name="workspace",
        path=host,
        upper=_open(f"{held}/upper"),
        merged=_open(f"{held}/merged"),
        lower=_open(host),
        context=mounts.pick_file_system(f"{held}/merged"),
        parked=_open(f"{held}/parked"),
    )


def _write(folder: str, data: bytes) -> None:
    os.makedirs(folder, exist_ok=True)
    for number in range(_FILES):
        with open(f"{folder}/{number:04}.bin", "wb") as file:
            file.write(data)


def _commit(layer: Layer) -> float:
    outcome = Outcome()
    os.sync()
    started = time.perf_counter()
    commit(layer, changes(layer, Surroundings()), _ANSWERS, outcome=outcome)
    taken = time.perf_counter() - started
    if outcome.failed_count or outcome.bytes != _FILES * _BYTES:
        raise AssertionError(outcome)
    return taken


def _copy(source: str, target: str) -> float:
    os.sync()
    started = time.perf_counter()
    subprocess.run(["cp", "-r", source, target], check=True)
    return time.perf_counter() - started


def main(folder: str, rounds: int) -> None:
    """Measure in turn: new files, and the same ones over the host's; `cp -r` writes beside, or over its own."""
    layer = _layer(folder)
    merged, host, beside = f"{folder}/held/merged/big", f"{folder}/host/big", f"{folder}/beside"
    found = []
    for _ in range(rounds):
        os.makedirs(beside)
        for kind in ("new", "changed"):
            _write(merged, os.urandom(_BYTES))
            # The copy reads what the commit reads: the upper layer's file.
            copied = _copy(merged, beside)
            found.append([kind, _commit(layer), copied])
        started = time.perf_counter()
        settle(layer)
        found.append(["settle", time.perf_counter() - started, 0.0])
        shutil.rmtree(host)
        shutil.rmtree(beside)
        mounts.reconfigure(layer.context)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
