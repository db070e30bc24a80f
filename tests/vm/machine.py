"""Runs qemu with the images of image.py and reads what the program inside says."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from commands import CannotBuild
from image import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = "@@ "
"""Begins a line of the console that is a JSON document for us."""

_QEMU = "qemu-system-x86_64"
_MEMORY = "2048"


@dataclass
class Run:
    """What one boot said: the documents of the program inside, and the whole console."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    console: str = ""
    seconds: float = 0.0
    status: int | None = None


def run(program: str, *options: str, seconds: float, tell: Callable[[str], None] | None = None) -> Run:
    """Boot, run ``program`` (a file of inside/) as the ordinary user, and return what it said.

    ``options`` are further words of the Linux kernel's command line; ``vm.systemd`` boots systemd.

    Raises:
        CannotBuild: qemu or an image is not to be had.
        TimeoutError: the machine did not end in time; the end of its console is told.

    """
    if shutil.which(_QEMU) is None:
        raise CannotBuild(f"{_QEMU} is not there: apt-get install qemu-system-x86")
    images = build()
    words = ("console=ttyS0", "reboot=t", "panic=-1", "mitigations=off", f"vm.run={program}", *options)
    with tempfile.TemporaryDirectory(prefix="sentinel-tests-vm-") as scratch:
        command = (
            *(_QEMU, "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
            *("-smp", "2", "-m", _MEMORY, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-serial", "stdio", "-kernel", str(images.kernel), "-initrd", str(images.initramfs)),
            *("-append", " ".join(words)),
            *_disk("root", images.root, "snapshot=on"),
            *_disk("tree", images.tree, "readonly=on"),
        )
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TMPDIR": scratch},  # what the guest writes to its root disk goes there
        ) as machine:
            try:
                return _listen(machine, seconds, tell)
            finally:
                machine.kill()


def _disk(name: str, path: Path, option: str) -> tuple[str, ...]:
    return (
        "-drive",
        f"id={name},file={path},format=raw,if=none,{option}",
        "-device",
        f"virtio-blk-pci,drive={name}",
    )


def _listen(machine: subprocess.Popen[bytes], seconds: float, tell: Callable[[str], None] | None) -> Run:
    result = Run()
    started = time.monotonic()
    rest = b""
    assert machine.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(machine.stdout, selectors.EVENT_READ)
        while True:
            left = seconds - (time.monotonic() - started)
            if left <= 0 or not selector.select(left):
                raise TimeoutError(
                    f"the virtual machine ran for {seconds:.0f} s; it said at last:\n{result.console[-4000:]}"
                )
            chunk = os.read(machine.stdout.fileno(), 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                _take(result, line.decode("utf-8", "replace").rstrip("\r"), tell)
    result.seconds = time.monotonic() - started
    result.status = machine.wait()
    return result


def _take(result: Run, line: str, tell: Callable[[str], None] | None) -> None:
    result.console += line + "\n"
    if tell is not None:
        tell(line)
    if MARK in line:
        result.documents.append(json.loads(line.partition(MARK)[2]))
