"""The boot plan: every mount, limit and identity of one sandbox, computed from facts before anything is done."""

from __future__ import annotations

import os.path
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from sentinel_kernel.errors import UnsupportedHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LIBRARY_DIRECTORY: Final = "/run/sentinel/lib"
"""Where the sandbox finds ``sentinel_kernel.worker``, and nothing else of the package."""

FALLBACK_HOME: Final = "/home/sentinel"
"""HOME inside where the real home is the workspace, or lies above it."""

# Places to stage the new root on, in a private mount namespace: the first that hides no source is taken.
_STAGING_PLACES: Final = ("/media", "/srv", "/boot", "/mnt", "/opt")
_SYSTEM_DIRECTORIES: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_EMPTY_DIRECTORIES: Final = (
    "/etc",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run",
    "/srv",
    "/sys",
    "/var",
)
# What programs need of /etc; no file with a secret, nothing about the machine's users.
ETC_ENTRIES: Final = (
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "glvnd",
    "groff",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "magic.mime",
    "matplotlibrc",
    "mime.types",
    "networks",
    "OpenCL",
    "os-release",
    "papersize",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "python3",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
READ_ONLY_EXTRAS: Final = ("/sys/devices/system/cpu", "/sys/devices/system/node", "/var/cache/fontconfig")
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS: Final = (
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/var/tmp", "/tmp"),
)
# Masked like in a container: they tell about, or reach into, the machine as a whole.
PROC_MASKED: Final = (
    "acpi",
    "kallsyms",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
)
PROC_READ_ONLY: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs")
HIDDEN_IN_HOME: Final = (
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials.toml",
    ".claude",
    ".config",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".ipython",
    ".jupyter",
    ".kube",
    ".local/share/jupyter",
    ".local/share/keyrings",
    ".local/share/sentinel-kernel",
    ".mozilla",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pki",
    ".pypirc",
    ".python_history",
    ".ssh",
)
_INODE_BYTES: Final = 16384
_MINIMUM_INODES: Final = 16384
_WORKER_THREADS: Final = 48
"""Threads of init and of an idle worker, and head room: the profile's pids come on top."""


class MountKind(Enum):
    """How a directory or file of the sandbox comes to be."""

    BIND = "bind"
    """The host's own, read-only."""
    BIND_WRITABLE = "bind-writable"
    OVERLAY = "overlay"
    """Writes are held in a layer of the sandbox."""
    TMPFS = "tmpfs"
    MASK_DIRECTORY = "mask-directory"
    MASK_FILE = "mask-file"


@dataclass(frozen=True, slots=True)
class MountEntry:
    """One mount; ``target`` is the path inside. ``size_bytes`` is for tmpfs, ``upper`` names an overlay's layer."""

    kind: MountKind
    target: str
    source: str = ""
    size_bytes: int = 0
    mode: int = 0o755
    upper: str = ""
    is_directory: bool = True
    owned: bool = False
    """The source belongs to the user, not to the system: root must map its owner (idmapped mount)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs outside (``host_*``) and who that is inside; one id each, nothing else is mapped."""

    host_uid: int
    host_gid: int
    inside_uid: int
    inside_gid: int
    name: str


@dataclass(frozen=True, slots=True)
class PythonPaths:
    """Where the worker's interpreter and its modules live on the host (absolute paths, links resolved)."""

    executable: str
    prefix: str
    base_prefix: str
    module_directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What was seen on this machine; gathering it is the supervisor's part, so that planning stays pure."""

    kinds: Mapping[str, str]
    """Path -> 'directory', 'file', or 'link:TARGET' for the paths that exist among ``probed_paths``."""
    mount_points: tuple[str, ...]
    home: str
    python: PythonPaths
    package_directory: str
    """The folder of the ``sentinel_kernel`` package itself."""
    identity: Identity
    started_by_root: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits of one sandbox, resolved to this machine: bytes, counts; None is no limit."""

    memory_bytes: int | None
    cpu_count: int | None
    pids: int | None
    disk_bytes: int
    tmp_bytes: int
    shm_bytes: int
    open_files: int | None
    file_size_bytes: int | None


@dataclass(frozen=True, slots=True)
class BootPlan:
    """Everything that boot does, in data: it can be printed, compared and tested without doing it."""

    staging: str
    identity: Identity
    started_by_root: bool
    hostname: str
    workspace: str
    workspace_upper: str
    home: str
    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]
    mounts: tuple[MountEntry, ...]
    sizes: Sizes
    writable: tuple[str, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    absent_inside: str
    """A path that exists on the host and must not exist inside: the proof that the root has changed."""
    notices: tuple[str, ...] = ()
    cpus: tuple[int, ...] = field(default=())


def is_within(path: str, directory: str) -> bool:
    """Tell whether ``path`` is ``directory`` or lies below it (both absolute and normal)."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def inodes_for(size_bytes: int) -> int:
    """Return the inode limit that goes with a tmpfs of ``size_bytes``."""
    return max(_MINIMUM_INODES, size_bytes // _INODE_BYTES)


def probed_paths(workspace: str, home: str, hidden: Iterable[str]) -> list[str]:
    """Return the paths whose kind must be known before :func:`make_plan` can run."""
    return [
        *_SYSTEM_DIRECTORIES,
        *(f"/etc/{entry}" for entry in ETC_ENTRIES),
        *READ_ONLY_EXTRAS,
        *_STAGING_PLACES,
        *(hidden_paths(workspace, home, hidden)),
    ]


def hidden_paths(workspace: str, home: str, extra: Iterable[str]) -> list[str]:
    """Return the absolute paths to hide wherever the workspace or a data folder would show them."""
    paths = [os.path.join(home, name) for name in HIDDEN_IN_HOME]
    for path in extra:
        expanded = os.path.join(home, path[2:]) if path.startswith("~/") else path
        paths.append(expanded if expanded.startswith("/") else os.path.join(workspace, expanded))
    return [os.path.normpath(path) for path in paths]


def make_plan(  # noqa: PLR0913 - each is one independent fact; a bag for them would only hide that
    *,
    workspace: str,
    facts: HostFacts,
    sizes: Sizes,
    hidden: Sequence[str],
    data_mounts: Sequence[tuple[str, str]],
    overlay_writes: bool,
    environment: Mapping[str, str],
    argv: Sequence[str],
    absent_inside: str,
    cpus: Sequence[int] = (),
) -> BootPlan:
    """Compute the plan of one sandbox; pure.

    ``data_mounts`` are (host path, 'ro' | 'overlay' | 'rw') of the profile. ``overlay_writes`` False makes the
    workspace read-only.

    Raises:
        UnsupportedHost: the workspace can't be one (the root directory, or above every staging place).

    """
    if workspace == "/" or not workspace.startswith("/"):
        raise UnsupportedHost(
            f"The folder '{workspace}' can't be a workspace: all of the machine would be in it.",
            "Start JupyterLab in the folder of your notebooks.",
        )
    home = facts.home
    if home in (workspace, "/") or not home.startswith("/"):
        home = FALLBACK_HOME
    notices: list[str] = []
    mounts: list[MountEntry] = []
    directories: list[str] = [*_EMPTY_DIRECTORIES, "/dev", "/proc", "/tmp"]
    links: list[tuple[str, str]] = list(_DEVICE_LINKS)

    for path in _SYSTEM_DIRECTORIES:
        kind = facts.kinds.get(path, "")
        if kind.startswith("link:"):
            links.append((path, kind[5:]))
        elif kind:
            mounts.append(MountEntry(MountKind.BIND, path, path))
    for path in (*(f"/etc/{entry}" for entry in ETC_ENTRIES), *READ_ONLY_EXTRAS):
        kind = facts.kinds.get(path, "")
        if kind.startswith("link:"):
            links.append((path, kind[5:]))
        elif kind:
            mounts.append(MountEntry(MountKind.BIND, path, path, is_directory=kind == "directory"))
    mounts.append(MountEntry(MountKind.TMPFS, "/tmp", size_bytes=sizes.tmp_bytes, mode=0o1777))
    mounts.append(MountEntry(MountKind.TMPFS, home, size_bytes=sizes.tmp_bytes, mode=0o700))

    overlays: list[MountEntry] = []
    _add_user_directory(
        overlays, facts, workspace, "overlay" if overlay_writes else "ro", "workspace", notices
    )
    if workspace == facts.home:
        notices.append("workspace-is-home")
    for index, (path, mode) in enumerate(data_mounts):
        _add_user_directory(overlays, facts, path, mode, f"data{index}", notices)
    python = facts.python
    if not is_within(python.prefix, "/usr"):
        # The project's own .venv is the workspace's overlay already; a second layer there would split it.
        if not is_within(python.prefix, workspace):
            _add_user_directory(overlays, facts, python.prefix, "overlay", "python", notices)
    covered = [entry.target for entry in overlays]
    for path in (python.base_prefix, *python.module_directories):
        if is_within(path, "/usr") or any(is_within(path, target) for target in covered):
            continue
        if path == os.path.dirname(facts.package_directory):
            continue  # an editable install of Sentinel itself: the worker gets its one folder by other means
        overlays.append(MountEntry(MountKind.BIND, path, path, owned=True))
        covered.append(path)
    mounts.extend(overlays)

    for path in hidden_paths(workspace, facts.home, hidden):
        kind = facts.kinds.get(path, "")
        # Only what the workspace or a data folder shows; where HOME is a tmpfs of its own there is nothing to hide.
        shown = max((entry.target for entry in mounts if is_within(path, entry.target)), key=len, default="")
        if kind and shown in covered and not kind.startswith("link:"):
            directory = kind == "directory"
            mask = MountKind.MASK_DIRECTORY if directory else MountKind.MASK_FILE
            mounts.append(MountEntry(mask, path, is_directory=directory))
    run_directory = os.path.dirname(absent_inside)
    if any(is_within(run_directory, target) for target in covered):
        mounts.append(MountEntry(MountKind.MASK_DIRECTORY, run_directory))
    package = facts.package_directory
    if any(is_within(package, target) for target in covered) or is_within(package, "/usr"):
        mounts.append(MountEntry(MountKind.MASK_DIRECTORY, package))
    mounts.append(
        MountEntry(
            MountKind.BIND,
            f"{LIBRARY_DIRECTORY}/sentinel_kernel/worker",
            os.path.join(package, "worker"),
            owned=True,
        )
    )
    # Shallow before deep, so that no mount hides a later one. The sort is stable: masks stay behind their tree.
    mounts.sort(key=lambda entry: entry.target.count("/"))
    inside = facts.identity
    # NAME must not be able to add lines or fields to the files below.
    name = (
        "".join(character for character in inside.name if character.isalnum() or character in "._-")
        or "sentinel"
    )
    files = (
        (
            "/etc/passwd",
            f"root:x:0:0:root:/root:/usr/sbin/nologin\n{name}:x:{inside.inside_uid}:{inside.inside_gid}::{home}:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
        ("/etc/group", f"root:x:0:\n{name}:x:{inside.inside_gid}:\nnogroup:x:65534:\n"),
        ("/etc/hosts", "127.0.0.1 localhost sentinel\n::1 localhost ip6-localhost\n"),
        ("/etc/hostname", "sentinel\n"),
        ("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
        ),
        (
            f"{LIBRARY_DIRECTORY}/sentinel_kernel/__init__.py",
            '"""What the sandbox may see of Sentinel Kernel."""\n',
        ),
    )
    writable = [home, "/tmp", "/dev", "/proc", "/mnt"]
    writable += [
        entry.target for entry in mounts if entry.kind in (MountKind.OVERLAY, MountKind.BIND_WRITABLE)
    ]
    return BootPlan(
        staging=_staging_place(facts, [entry.source for entry in mounts if entry.source]),
        identity=inside,
        started_by_root=facts.started_by_root,
        hostname="sentinel",
        workspace=workspace,
        workspace_upper="workspace" if any(entry.upper == "workspace" for entry in mounts) else "",
        home=home,
        directories=tuple(directories),
        links=tuple(links),
        files=files,
        mounts=tuple(mounts),
        sizes=sizes,
        writable=tuple(writable),
        argv=tuple(argv),
        environment={**environment, "HOME": home, "TMPDIR": "/tmp", "USER": name, "LOGNAME": name},
        absent_inside=absent_inside,
        notices=tuple(notices),
        cpus=tuple(cpus),
    )


def process_limit(sizes: Sizes) -> int | None:
    """Return RLIMIT_NPROC of the sandbox: the profile's pids beyond what an idle worker uses."""
    return None if sizes.pids is None else sizes.pids + _WORKER_THREADS


def _add_user_directory(  # noqa: PLR0913 - private; the list is the result
    mounts: list[MountEntry], facts: HostFacts, path: str, mode: str, upper: str, notices: list[str]
) -> None:
    """Append the mount of a user's folder in ``mode``, or the nearest that the Linux kernel can do."""
    if mode == "overlay":
        below = [point for point in facts.mount_points if point != path and is_within(point, path)]
        if below and not facts.started_by_root:
            # An overlay's lower layer must not have mounts in it that this user may not undo (EINVAL): locked mounts.
            notices.append(f"read-only-submounts:{path}")
            mounts.append(MountEntry(MountKind.BIND, path, path, owned=True))
            return
        mounts.append(MountEntry(MountKind.OVERLAY, path, path, upper=upper, owned=True))
        return
    kind = MountKind.BIND_WRITABLE if mode == "rw" else MountKind.BIND
    mounts.append(MountEntry(kind, path, path, owned=True))


def _staging_place(facts: HostFacts, sources: Sequence[str]) -> str:
    for place in _STAGING_PLACES:
        if facts.kinds.get(place) != "directory":
            continue
        if not any(is_within(source, place) for source in sources):
            return place
    raise UnsupportedHost(
        "There is no free folder to build the sandbox's root on (tried /media, /srv, /boot, /mnt, /opt).",
        "Create the folder /srv.",
    )
