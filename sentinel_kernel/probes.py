"""Tries of the Linux mechanisms that the sandbox is made of, each for real and in a process of its own.

Run as a script with the name of one probe, it prints ``{"ok": …, "detail": …, "remedy": …}``: a probe
restricts, remounts or filters the process it runs in, and the caller must not feel that.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    # Started by path under -I, which keeps both the folder and PYTHONPATH away.
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from sentinel_kernel import rung_probes, share_probes
from sentinel_kernel.abi.landlock import AccessFs, Scope
from sentinel_kernel.abi.mount import MountAttributes, MountFlags
from sentinel_kernel.abi.sched import CloneFlags
from sentinel_kernel.errors import BootError, SentinelError, UnsupportedHost
from sentinel_kernel.linux import landlock, mounts, namespaces, process, seccomp
from sentinel_kernel.linux.libc import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

_PROBE_SECONDS: Final = 30
_RESULT_BYTES: Final = 4096
_HELD_MS: Final = 10_000
_REFUSED: Final = 42  # an errno that no system call gives by itself


@dataclass(frozen=True, slots=True)
class Probe:
    """One mechanism: what it is called, what it is for, and when the sandbox can't do without it."""

    name: str
    title: str
    purpose: str
    run: Callable[[], str]
    needed: bool = True
    root_only: bool = False
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found. ``detail`` tells what holds, or why not; ``remedy`` is empty where it holds."""

    name: str
    title: str
    purpose: str
    needed: bool
    ok: bool
    detail: str
    remedy: str


def _libseccomp() -> str:
    try:
        import pyseccomp  # noqa: PLC0415 - the probe is whether this works

        level: int = pyseccomp.get_api()
    except (ImportError, RuntimeError, OSError) as error:
        raise UnsupportedHost(f"libseccomp.so.2 can't be loaded: {error}.") from None
    return f"API level {level}"


def _user_namespaces() -> str:
    def mount_in_it() -> None:
        mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)
        mounts.mount("tmpfs", tempfile.gettempdir(), "tmpfs", MountFlags.NOSUID | MountFlags.NODEV)

    _in_namespaces(mount_in_it, "stage_root")
    return "made, ids mapped, a tmpfs mounted in one"


def _overlay() -> str:
    def write_through() -> None:
        top = tempfile.gettempdir()
        mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)
        mounts.mount("tmpfs", top, "tmpfs", MountFlags.NOSUID)
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"{top}/{name}")
        with open(f"{top}/lower/file", "w", encoding="ascii") as file:
            file.write("below")
        options = f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work,userxattr"
        mounts.mount("overlay", f"{top}/merged", "overlay", MountFlags.NOSUID, options)
        with open(f"{top}/merged/file", "w", encoding="ascii") as file:
            file.write("above")
        with open(f"{top}/lower/file", encoding="ascii") as file:
            if file.read() != "below":
                raise OSError(errno.EIO, "the overlay wrote through to its lower layer")

    _in_namespaces(write_through, "mount_tree")
    return "a file changed in the overlay stays as it was below"


def _fresh_proc() -> str:
    def mount_proc() -> None:
        mounts.mount("none", "/", "", MountFlags.REC | MountFlags.PRIVATE)
        mounts.mount("proc", "/proc", "proc", MountFlags.NOSUID | MountFlags.NODEV | MountFlags.NOEXEC)
        if not os.path.isdir("/proc/1") or os.getpid() != 1:
            raise OSError(errno.EIO, "the new /proc does not show this namespace")

    _in_namespaces(mount_proc, "mount_proc")
    return "mounted, and shows the sandbox's own processes only"


def _pidfd() -> str:
    child = os.fork()
    if child == 0:
        signal.pause()
    descriptor = os.pidfd_open(child)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
    return "a process was ended through its descriptor"


def _notifications() -> str:
    seccomp.check_notification_sizes()
    number = NUMBERS["ioprio_get"]  # which no container's own filter refuses before ours holds it
    allow, notify = 0x7FFF0000, 0x7FC00000
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (0x20, 0, 0, 0),  # load the call's number
            (0x15, 0, 1, number),  # is it this one?
            (0x06, 0, 0, notify),
            (0x06, 0, 0, allow),
        )
    )
    process.set_no_new_privileges()
    listener = seccomp.Listener(seccomp.load_filter(program))
    child = os.fork()
    if child == 0:
        try:
            process.io_priority(os.getpid())
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    poll = select.poll()
    poll.register(listener.descriptor, select.POLLIN)
    held = None
    while held is None:
        if not any(event & select.POLLIN for _, event in poll.poll(_HELD_MS)):
            raise UnsupportedHost("a call was not held: a filter around this process answered it first")
        held = listener.receive()
    listener.refuse(held.id, _REFUSED)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != _REFUSED:
        raise OSError(errno.EIO, f"a call that was refused with {_REFUSED} gave {status}")
    if listener.synchronous:
        return "a call was held, killable, and refused; synchronous wake-ups"
    return "a call was held, killable, and refused; no synchronous wake-ups (Linux 6.6), so each costs more"


def _landlock() -> str:
    version = landlock.abi_version()
    process.set_no_new_privileges()
    landlock.restrict_self(
        version, landlock.supported_access(version), Scope(0), [("/proc", AccessFs.READ_DIR)]
    )
    try:
        os.close(os.open("/usr", os.O_RDONLY))
    except PermissionError:
        return f"version {version}; a folder outside the fence was refused"
    raise OSError(errno.EIO, "a folder outside the fence could be opened")


def _idmapped_mounts() -> str:
    stranger = 70000
    with tempfile.TemporaryDirectory(prefix="sentinel-doctor-") as directory:
        user_namespace = namespaces.mapped_user_namespace(f"0 {stranger} 1", f"0 {stranger} 1")
        tree = mounts.open_tree(directory, recursive=False)
        mounts.set_mount_attributes(tree, MountAttributes.IDMAP, user_namespace=user_namespace)
        owner = os.stat(".", dir_fd=tree).st_uid
    if owner != stranger:
        raise OSError(errno.EIO, f"a folder of root's is shown as owned by {owner}")
    return "a folder of root's was shown as another user's"


def _free_identity() -> str:
    from sentinel_kernel.supervisor.identities import Identities  # noqa: PLC0415 - only root needs it

    lease = Identities().lease()
    lease.close()
    return f"uid {lease.identity.host_uid}"


PROBES: Final = (
    Probe(
        "libseccomp",
        "libseccomp",
        "builds the filter",
        _libseccomp,
        remedy="Debian, Ubuntu: apt-get install libseccomp2. Fedora: dnf install libseccomp.",
    ),
    Probe("user_namespaces", "user namespaces", "the sandbox's walls, without root", _user_namespaces),
    Probe(
        "overlay",
        "overlay",
        "writes stay in the sandbox",
        _overlay,
        remedy="It needs Linux 5.11 or newer with overlayfs: as root, modprobe overlay.",
    ),
    Probe("fresh_proc", "a fresh /proc", "the sandbox sees its own processes only", _fresh_proc),
    Probe(
        "pidfd",
        "process descriptors",
        "the right process is ended",
        _pidfd,
        remedy="It needs Linux 5.4 or newer.",
    ),
    Probe(
        "notifications",
        "seccomp notifications",
        "a refused call is explained",
        _notifications,
        remedy="It needs Linux 5.19 or newer, and no outer filter that listens already "
        "(Docker: --security-opt seccomp=unconfined).",
    ),
    Probe(
        "landlock",
        "Landlock",
        "a second fence around files",
        _landlock,
        needed=False,
        remedy="It needs Linux 5.13 or newer, with landlock in the boot parameter lsm=.",
    ),
    Probe(
        "memory",
        "reading held calls",
        "the arguments of a refused call are told",
        rung_probes.memory,
        remedy="As root: sysctl -w kernel.yama.ptrace_scope=1",
    ),
    Probe(
        "landlock_rung",
        "the landlock rung",
        "a lesser sandbox where namespaces are refused",
        rung_probes.landlock_rung,
        needed=False,
        remedy="It needs Linux 6.7 or newer, with landlock in the boot parameter lsm=.",
    ),
    Probe(
        "idmapped_mounts",
        "idmapped mounts",
        "root's files without root's id",
        _idmapped_mounts,
        root_only=True,
        remedy="It needs Linux 5.12 or newer and a file system that can do it (ext4, xfs, btrfs, tmpfs since "
        "6.3). Or start JupyterLab as an ordinary user.",
    ),
    Probe(
        "free_identity",
        "a free user id",
        "a sandbox of root's never runs as root",
        _free_identity,
        root_only=True,
        remedy="Start JupyterLab as an ordinary user.",
    ),
    Probe(
        "control_groups",
        "cgroup v2 delegation",
        "limits by the Linux kernel's own counters",
        share_probes.control_groups,
        needed=False,
        remedy=share_probes.groups_remedy(share_probes.DELEGATED),
    ),
    Probe(
        "autogroup",
        "weight of sessions",
        "who computes much gives way to others",
        share_probes.autogroups,
        needed=False,
    ),
)


def run_probe(probe: Probe) -> Finding:
    """Run ``probe`` in a fresh interpreter and return what it found; never raises for what it finds."""
    command = [sys.executable, "-I", os.path.abspath(__file__), probe.name]
    result: dict[str, Any]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False, text=True)
    except subprocess.TimeoutExpired:
        result = {"ok": False, "detail": f"no answer within {_PROBE_SECONDS} s", "remedy": ""}
    else:
        try:
            result = json.loads(done.stdout)
        except ValueError:
            last = done.stderr.strip().rpartition("\n")[2]
            result = {"ok": False, "detail": f"ended with {done.returncode}: {last}", "remedy": ""}
    remedy = "" if result["ok"] else result["remedy"] or probe.remedy
    return Finding(
        probe.name, probe.title, probe.purpose, probe.needed, result["ok"], result["detail"], remedy
    )


def applicable() -> tuple[Probe, ...]:
    """Return the probes that matter to whoever runs this: some are root's alone."""
    return tuple(probe for probe in PROBES if os.geteuid() == 0 or not probe.root_only)


def _in_namespaces(action: Callable[[], None], step: str) -> None:
    """Run ``action`` as the only process of new namespaces, with the caller's ids mapped.

    Raises:
        BootError: clone, mapping or ``action`` failed; ``step`` is boot's name for what ``action`` tries.

    """
    go_read, go_write = os.pipe()
    result_read, result_write = os.pipe()
    flags = CloneFlags.NEWUSER | CloneFlags.NEWNS | CloneFlags.NEWPID | CloneFlags.NEWNET | CloneFlags.NEWIPC
    try:
        pid, _ = namespaces.clone(flags | CloneFlags.NEWUTS | CloneFlags.NEWCGROUP)
    except OSError as error:
        raise BootError("clone", error.errno or 0, str(error)) from None
    if pid == 0:
        os.close(go_write)
        os.close(result_read)
        os.read(go_read, 1)
        try:
            action()
        except OSError as error:
            os.write(result_write, json.dumps([error.errno, error.strerror or str(error)]).encode())
        os._exit(0)
    os.close(go_read)
    os.close(result_write)
    try:
        namespaces.write_identity_maps(
            pid, *(f"{number} {number} 1" for number in (os.geteuid(), os.getegid()))
        )
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        raise BootError("map_identity", error.errno or 0, str(error)) from None
    os.close(go_write)
    report = os.read(result_read, _RESULT_BYTES)
    os.waitpid(pid, 0)
    if report:
        number, message = json.loads(report)
        raise BootError(step, number or 0, message)


def _main(name: str) -> None:
    from sentinel_kernel.supervisor.remedies import describe  # noqa: PLC0415 - only a failure needs the words

    probe = next(probe for probe in PROBES if probe.name == name)
    try:
        result = {"ok": True, "detail": probe.run(), "remedy": ""}
    except BootError as error:
        words = describe(error)
        remedy = "" if words["remedy_en"].startswith("Run `sentinel-kernel doctor`") else words["remedy_en"]
        result = {"ok": False, "detail": f"{error.step}: {words['cause_en']}", "remedy": remedy}
    except SentinelError as error:
        result = {"ok": False, "detail": error.message, "remedy": error.remedy}
    except OSError as error:
        result = {"ok": False, "detail": error.strerror or str(error), "remedy": ""}
    print(json.dumps(result))


if __name__ == "__main__":
    _main(sys.argv[1])
