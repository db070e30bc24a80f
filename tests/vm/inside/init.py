"""Process 1 of the virtual machine without systemd: cgroup v2, a part of it delegated to an ordinary user, one program.

The program named by the command line (``vm.run=NAME``) runs as that user, in a leaf of the delegated part, with the
console as its output. Then the machine is switched off.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

_USER = 1000
_GROUPS = Path("/sys/fs/cgroup")
_DELEGATED = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")
_POWER_OFF = 0x4321FEDC  # reboot(2), LINUX_REBOOT_CMD_POWER_OFF
_RESTART = 0x01234567  # where power is not to be had, qemu's -no-reboot ends the machine all the same
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_CONTROLLERS = ("cpu", "memory", "pids", "io")
_MOUNTS = (
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("tmpfs", "/run", "mode=755"),
    ("tmpfs", "/tmp", "mode=1777"),
    ("cgroup2", "/sys/fs/cgroup", ""),
)


def main() -> None:
    os.environ.update(PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", LANG="C.UTF-8")
    os.environ["LIMIT_SUITE_SECONDS"] = "600"  # emulated processors, on a machine that does other things too
    for kind, place, options in _MOUNTS:
        os.makedirs(place, exist_ok=True)
        subprocess.run(["mount", "-t", kind, *(["-o", options] if options else []), kind, place], check=True)
    for descriptor in (0, 1, 2):
        os.dup2(os.open("/dev/ttyS0", os.O_RDWR), descriptor)
    _open_loopback()
    words = dict(word.partition("=")[::2] for word in Path("/proc/cmdline").read_text().split())
    programs = [("lab", _CONTROLLERS, words["vm.run"])]
    if "vm.lesser" in words:
        programs += [("few", ("memory", "pids"), "lesser_suite"), ("none", (), "lesser_suite")]
    for part, controllers, program in programs:
        print(f"vm: {program} ended {_run(program, _delegate(part, controllers))}", flush=True)


def _run(program: str, part: Path) -> int:
    """Run a program of this folder as the user, in a leaf of a part of the tree; return its status."""
    variables = {
        "HOME": "/home/alice",
        "USER": "alice",
        "PYTHONPATH": "/project/tests/support:/project/tests/limits",
        "VM_CONTROLLERS": f"{part}/cgroup.controllers",
        "VM_PART": part.parent.name,
    }
    become = ("setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups")
    with subprocess.Popen(
        [*become, "/opt/venv/bin/python", "-u", f"/project/tests/vm/inside/{program}.py"],
        env=os.environ | variables,
        cwd="/home/alice",
        preexec_fn=lambda: (part / "server" / "cgroup.procs").write_text("0"),  # noqa: PLW1509 - one thread
    ) as child:
        return child.wait()


def _open_loopback() -> None:
    """Bring the loopback interface up, as `ip link set lo up` does (netdevice(7))."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _delegate(name: str, controllers: tuple[str, ...]) -> Path:
    """Give the user a part of the tree, as cgroups(7), "Cgroups delegation", tells, with a leaf ``server`` in it."""
    (_GROUPS / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in _CONTROLLERS))
    part = _GROUPS / name / "alice"
    (part / "server").mkdir(parents=True)
    (_GROUPS / name / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in controllers))
    for group in (part, part / "server"):
        for path in (group, *(group / file for file in _DELEGATED)):
            os.chown(path, _USER, _USER)
    return part


def _switch_off() -> None:
    sys.stdout.flush()
    os.sync()
    libc = ctypes.CDLL(None)
    libc.reboot(ctypes.c_int(_POWER_OFF))
    libc.reboot(ctypes.c_int(_RESTART))


if __name__ == "__main__":
    try:
        main()
    finally:
        _switch_off()
