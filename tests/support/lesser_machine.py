"""Runs a command as on a machine that refuses what the full rung is made of, and leaves this machine as it is.

Run as a script: ``lesser_machine.py HOW COMMAND…``. ``no_namespaces``: in a user namespace of its own whose
user.max_user_namespaces is 0; ``repairable_namespaces`` keeps the right to set it. ``docker``: under a filter as
Docker's default one, with Docker's capabilities where started by root. ``covered_proc``: where parts of /proc are
covered, as in a container that may make user namespaces. ``no_landlock``: under a filter that answers as a Linux kernel
without it (ENOSYS).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys

_NEWNS, _NEWUSER = 0x20000, 0x10000000
_KINDS = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
_REFUSED_BY_DOCKER = (
    "unshare setns mount umount2 pivot_root open_tree fsopen fsmount move_mount fsconfig fspick mount_setattr "
    "keyctl add_key request_key bpf perf_event_open userfaultfd"
)
_LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
_CAPABILITIES = (
    "chown dac_override fsetid fowner mknod net_raw setgid setuid setfcap setpcap net_bind_service sys_chroot "
    "kill audit_write"
)
_LIBC = ctypes.CDLL(None, use_errno=True)
_PYTHON = sys.executable


def prefix(python: str, *how: str) -> tuple[str, ...]:
    """Return what goes before a command, for an interpreter that whoever runs it can reach."""
    return tuple(part for one in how for part in (python, os.path.abspath(__file__), one))


def _checked(result: int, what: str) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def _own_user_namespace(flags: int) -> None:
    uid, gid = os.getuid(), os.getgid()
    _checked(_LIBC.unshare(flags | _NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _no_namespaces() -> None:
    _own_user_namespace(0)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def _covered_proc() -> None:
    _own_user_namespace(_NEWNS)
    _checked(_LIBC.mount(b"none", b"/", None, 0x4000 | (1 << 18), None), "private")
    _checked(_LIBC.mount(b"tmpfs", b"/proc/tty", b"tmpfs", 1, None), "cover")


def _refuse(names: tuple[str, ...], number: int, *, namespaces: bool = False) -> None:
    """Load a filter that answers these calls with an error; namespaces: clone(2) with their flags, and clone3(2)."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(os.path.dirname(here)))
    from sentinel_kernel.abi.architecture import architecture_of

    calls = architecture_of(os.uname().machine).syscalls
    program = [(0x20, 0, 0, 0)]
    for name in names:
        if name in calls:
            program += [(0x15, 0, 1, calls[name]), (0x06, 0, 0, 0x00050000 | number)]
    if namespaces:
        program += [(0x15, 0, 1, calls["clone3"]), (0x06, 0, 0, 0x00050000 | errno.ENOSYS)]
        program += [(0x15, 0, 3, calls["clone"]), (0x20, 0, 0, 16)]
        program += [(0x45, 0, 1, sum(_KINDS)), (0x06, 0, 0, 0x00050000 | number)]
    program.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    layout = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    if os.geteuid() != 0:
        _checked(_LIBC.prctl(38, 1, 0, 0, 0), "no_new_privs")
    _checked(_LIBC.prctl(22, 2, ctypes.byref(layout), 0, 0), "seccomp")


def _drop_capabilities() -> None:
    """Keep of root's rights what Docker leaves a container."""
    if os.geteuid() == 0:
        kept = "-all," + ",".join(f"+{name}" for name in _CAPABILITIES.split())
        sys.argv[2:2] = ["setpriv", f"--bounding-set={kept}", "--inh-caps=-all", "--"]


def _keep_capabilities() -> None:
    """Keep what root of the own user namespace may, across exec: its settings can be written again."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    _checked(_LIBC.capget(header, data), "capget")
    for half in (0, 3):
        data[half + 2] = data[half + 1]
    _checked(_LIBC.capset(header, data), "capset")
    for capability in range(41):
        _LIBC.prctl(47, 2, capability, 0, 0)  # PR_CAP_AMBIENT_RAISE


def _become(how: str) -> None:
    if how == "no_namespaces":
        _no_namespaces()
    elif how == "repairable_namespaces":
        _no_namespaces()
        _keep_capabilities()
    elif how == "covered_proc":
        _covered_proc()
    elif how == "docker":
        _refuse(tuple(_REFUSED_BY_DOCKER.split()), errno.EPERM, namespaces=True)
        _drop_capabilities()
    elif how == "no_landlock":
        _refuse(_LANDLOCK, errno.ENOSYS)
    else:
        raise SystemExit(f"no such machine: {how}")


if __name__ == "__main__":
    with contextlib.suppress(ValueError):
        sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    _become(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
