"""Computing a boot plan from a profile's wishes and the facts of a machine, before anything is done; pure."""

from __future__ import annotations

import os.path

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.policy.masking import masks_of, with_names_covered
from sentinel_kernel.policy.plan import (
    DEVICES,
    HOMES_UNSEEN,
    READ_ONLY_DEVICE,
    BootPlan,
    MountEntry,
    MountKind,
    is_within,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Final

    from sentinel_kernel.policy.plan import HostFacts, Identity, Sizes

LIBRARY_DIRECTORY: Final = "/run/sentinel/lib"
"""Where the sandbox finds ``sentinel_kernel.worker``, and nothing else of the package."""

FALLBACK_HOME: Final = "/home/sentinel"
"""HOME inside where the real home is the workspace, or lies above it."""

_NO_WAY_OUT: Final = {"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
"""Where no index is reached, pip would only wait between its tries; what does reach one overrides it."""

# Places to stage the new root on, in a private mount namespace: the first that hides no source is taken.
_OF_THE_MACHINE: Final = ("/dev", "/proc", "/sys")
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
_DEVICE_LINKS: Final = (
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/var/tmp", "/tmp"),
)
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


def cache_folder(environment: Mapping[str, str], name: str) -> str:
    """Return the user's folder for the cache ``name`` (XDG base directory specification)."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME") or "/", ".cache")
    return os.path.join(cache, "sentinel-kernel", name)


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
    most: Sizes | None = None,
    hidden: Sequence[str],
    in_homes: Sequence[str] = (),
    homes_unseen: Sequence[str] = (),
    data_mounts: Sequence[tuple[str, str]],
    overlay_writes: bool,
    environment: Mapping[str, str],
    argv: Sequence[str],
    absent_inside: str,
    cpus: Sequence[int] = (),
    sockets: tuple[tuple[str, str, str, int], ...] = (),
) -> BootPlan:
    """Compute the plan of one sandbox.

    ``in_homes`` are entries of homes (policy/home_like.py) that are there, to be covered with all that is in them;
    ``homes_unseen`` folders in which not all was looked at for homes, which the person is told.
    ``data_mounts`` are (host path, 'ro' | 'overlay' | 'rw') of the profile. ``overlay_writes`` False makes the
    workspace read-only. ``sockets`` are bound inside for the supervisor.
    ``absent_inside`` is a path of the host that must not be visible inside.

    Raises:
        UnsupportedHost: the workspace can't be one (the root directory, in /dev, /proc or /sys, or above every staging
            place).

    """
    if workspace == "/" or not workspace.startswith("/"):
        raise UnsupportedHost(
            f"The folder '{workspace}' can't be a workspace: all of the machine would be in it.",
            "Start JupyterLab in the folder of your notebooks.",
        )
    own = next((top for top in _OF_THE_MACHINE if is_within(workspace, top)), "")
    if own:
        raise UnsupportedHost(
            f"The folder '{workspace}' can't be a notebook's: the sandbox has {own} of its own.",
            "Move the notebook and its files to a folder elsewhere, in your home folder or below /tmp, and open it.",
        )
    home = facts.home
    if home in (workspace, "/") or not home.startswith("/"):
        home = FALLBACK_HOME
    notices: list[str] = ["workspace-is-home"] if workspace == facts.home else []
    notices += [f"{HOMES_UNSEEN}{folder}" for folder in homes_unseen]
    mounts, links = _system_entries(facts)
    mounts.append(
        MountEntry(MountKind.TMPFS, "/tmp", size_bytes=sizes.tmp_bytes, mode=0o1777, sized_by="tmp_bytes")
    )
    mounts.append(
        MountEntry(MountKind.TMPFS, home, size_bytes=sizes.tmp_bytes, mode=0o700, sized_by="tmp_bytes")
    )
    shown: list[MountEntry] = []
    _add_user_directory(shown, facts, workspace, "overlay" if overlay_writes else "ro", "workspace")
    for index, (path, mode) in enumerate(data_mounts):
        _add_user_directory(shown, facts, path, mode, f"data{index}")
    _add_python(shown, facts, workspace)
    secret = hidden_paths(workspace, facts.home, hidden)
    # What is no fact of the machine's here is covered by its bare name, and what lies in it with it.
    secret = [path for path in secret if not any(is_within(path, one) for one in in_homes)] + list(in_homes)
    shown = with_names_covered(facts, [*mounts, *shown], shown, secret)
    mounts += shown
    mounts += masks_of(facts, mounts, [entry.target for entry in shown], secret, absent_inside)
    worker = os.path.join(facts.package_directory, "worker")
    mounts.append(
        MountEntry(MountKind.BIND, f"{LIBRARY_DIRECTORY}/sentinel_kernel/worker", worker, owned=True)
    )
    # Shallow before deep, so that no mount hides a later one. The sort is stable: masks stay behind their tree.
    mounts.sort(key=lambda entry: entry.target.count("/"))
    linked = dict(_without_mounts(links, mounts))
    name = _safe_name(facts.identity)
    devices = [f"/dev/{name}" for name in DEVICES if name != READ_ONLY_DEVICE]
    writable = [home, "/tmp", "/dev/shm", "/dev/pts", *devices, "/proc", "/mnt"]
    writable += [entry.target for entry in mounts if entry.kind is MountKind.OVERLAY]
    # What is mounted over a folder once the person has agreed is judged by the folder above it (landlock(7)).
    asked = [path for path, mode in data_mounts if mode == "rw"]
    writable += [parent for path in asked if (parent := os.path.dirname(path)) != "/"]
    return BootPlan(
        staging=_staging_place(facts, [entry.source for entry in mounts if entry.source]),
        identity=facts.identity,
        started_by_root=facts.started_by_root,
        hostname="sentinel",
        workspace=workspace,
        workspace_upper="workspace" if any(entry.upper == "workspace" for entry in mounts) else "",
        home=home,
        directories=tuple(
            path for path in (*_EMPTY_DIRECTORIES, "/dev", "/proc", "/tmp") if path not in linked
        ),
        links=tuple(linked.items()),
        # A copy is three cheap calls where a mount is two dear ones, and half of all the mounts would be for these.
        files=(*sorted(facts.contents.items()), *_generated_files(facts.identity, name, home)),
        mounts=tuple(mounts),
        sizes=sizes,
        most=most or sizes,
        writable=tuple(dict.fromkeys(writable)),
        asked=tuple(asked),
        argv=tuple(argv),
        environment={
            **_NO_WAY_OUT,
            **environment,
            "HOME": home,
            "TMPDIR": "/tmp",
            "USER": name,
            "LOGNAME": name,
        },
        absent_inside=absent_inside,
        notices=tuple(notices),
        cpus=tuple(cpus),
        sockets=sockets,
    )


def _without_mounts(
    links: Sequence[tuple[str, str]], mounts: Sequence[MountEntry]
) -> tuple[tuple[str, str], ...]:
    """Return the links at which nothing is mounted, nor below them: a home in /var/tmp needs a folder there."""
    return tuple(
        (path, target) for path, target in links if not any(is_within(entry.target, path) for entry in mounts)
    )


def _system_entries(facts: HostFacts) -> tuple[list[MountEntry], list[tuple[str, str]]]:
    """Return the read-only mounts of the system's folders and files, and the links to make again."""
    mounts: list[MountEntry] = []
    links: list[tuple[str, str]] = list(_DEVICE_LINKS)
    image = facts.image
    if image is not None:
        # What cells write there is the sandbox's own, as in a container: places for the host's Python are made in it.
        for index, path in enumerate(image.folders):
            source = image.path + path
            mounts.append(MountEntry(MountKind.OVERLAY, path, source, upper=f"image{index}", owned=True))
        mounts += [
            MountEntry(MountKind.BIND, inside, outside, is_directory=is_folder)
            for inside, outside, is_folder in image.beside
        ]
        tops = {*image.folders, *dict(image.links)}
        links = [link for link in links if link[0] != "/var/tmp" or "/var" not in tops]
        links += image.links
    directories = _SYSTEM_DIRECTORIES if image is None else ()
    for path in (*directories, *(f"/etc/{entry}" for entry in ETC_ENTRIES), *READ_ONLY_EXTRAS):
        kind = facts.kinds.get(path, "")
        if kind.startswith("link:"):
            links.append((path, kind[5:]))
        elif kind and path not in facts.contents:
            mounts.append(MountEntry(MountKind.BIND, path, path, is_directory=kind == "directory"))
    return mounts, links


def _add_python(shown: list[MountEntry], facts: HostFacts, workspace: str) -> None:
    """Append the interpreter's folders: the environment as an overlay, the rest read-only."""
    python = facts.python
    # The project's own .venv is the workspace's overlay already; a second layer there would split it.
    if not is_within(python.prefix, "/usr") and not is_within(python.prefix, workspace):
        _add_user_directory(shown, facts, python.prefix, "overlay", "python")
    beside = [] if facts.image is None else [target for target, _, _ in facts.image.beside]
    for path in (python.base_prefix, *python.module_directories):
        if is_within(path, "/usr") or any(is_within(path, target) for target in beside):
            continue
        if any(is_within(path, entry.target) for entry in shown):
            continue
        if path == os.path.dirname(facts.package_directory):
            continue  # an editable install of Sentinel itself: the worker gets its one folder by other means
        shown.append(MountEntry(MountKind.BIND, path, path, owned=True))


def _safe_name(identity: Identity) -> str:
    """Return the user's name without what could add lines or fields to /etc/passwd."""
    return (
        "".join(character for character in identity.name if character.isalnum() or character in "._-")
        or "sentinel"
    )


def _generated_files(inside: Identity, name: str, home: str) -> tuple[tuple[str, bytes], ...]:
    """Return (path, content) of the small files that are written instead of shown."""
    users = (
        "root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"{name}:x:{inside.inside_uid}:{inside.inside_gid}::{home}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    services = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
    library = f"{LIBRARY_DIRECTORY}/sentinel_kernel/__init__.py"
    return (
        ("/etc/passwd", users.encode()),
        ("/etc/group", f"root:x:0:\n{name}:x:{inside.inside_gid}:\nnogroup:x:65534:\n".encode()),
        ("/etc/hosts", b"127.0.0.1 localhost sentinel\n::1 localhost ip6-localhost\n"),
        ("/etc/hostname", b"sentinel\n"),
        ("/etc/resolv.conf", b"nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"),
        ("/etc/nsswitch.conf", services.encode()),
        (library, b'"""What the sandbox may see of Sentinel Kernel."""\n'),
    )


def _add_user_directory(mounts: list[MountEntry], facts: HostFacts, path: str, mode: str, upper: str) -> None:
    """Append the mount of a user's folder in ``mode``; one that is to be written can be read until the person agrees.

    Raises:
        UnsupportedHost: no layer can be put above it, and without one it would not be fenced.

    """
    below = [point for point in facts.mount_points if point != path and is_within(point, path)]
    if below and not facts.started_by_root:
        # An overlay's lower layer must not have mounts in it that this user may not undo (EINVAL), and a bind mount
        # would lead to the sockets and pipes of the host that lie in the folder (unix(7), fifo(7)).
        raise UnsupportedHost(
            f"The folder {path} has other mounts in it ({below[0]}), so that no layer can be put above it.",
            "Start JupyterLab in a folder without mounts below it.",
        )
    mounts.append(
        MountEntry(MountKind.OVERLAY, path, path, upper=upper, sealed=mode != "overlay", owned=True)
    )


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
