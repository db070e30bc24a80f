"""Profiles: what a sandbox may do, read strictly from JSON files that people write."""

from __future__ import annotations

import os

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.resources import Resources
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.policy.spelling import closest
from sentinel_kernel.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sentinel_kernel.policy.http_rules import HttpRule, Secret
    from sentinel_kernel.policy.regions import Region

_SUFFIX = ".json"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_DEPTH = 3


COMMITS = ("none", "new")
"""What is committed without a word of the person's: nothing, or new plain files (policy/committable.py)."""


OUTPUT_HTML = ("plain", "sanitize", "frame")
"""What becomes of HTML, least first: its text alone; without scripts; scripts too, in a frame of their own."""


class SyscallRule(Record):
    """One rule: these calls, where their arguments lie in ``region``, get ``action``."""

    syscalls: tuple[str, ...]
    region: Region
    action: Action
    comment: str
    place: str
    """Profile and JSON path of the rule, for messages."""


class Network(Record):
    """What a profile says of the network. The sandbox has a loopback interface of its own, and no other.

    ``hosts`` (policy/network.py) are connected to from outside, on the sandbox's behalf.
    """

    allow: bool = False
    allow_dns: bool = False
    hosts: tuple[str, ...] = ()
    http: tuple[HttpRule, ...] = ()
    """Requests that the sandbox's proxy passes on; without any there is no proxy."""
    secrets: tuple[Secret, ...] = ()
    """Headers that the proxy adds to them."""
    index: str = ""
    """The index of packages that pip and uv use, as its URL; empty: their own default."""

    @property
    def leads_out(self) -> bool:
        """Whether there are hosts that can be reached, by programs themselves or through the proxy."""
        return self.allow and bool(self.hosts or self.http)


class MountRule(Record):
    """A host folder to show at its own path; ``mode`` is ro, overlay (writes are held) or rw."""

    path: str
    mode: str


class Filesystem(Record):
    """Folders shown and hidden. ``allow_write_overlay`` False makes the notebook's folder read-only."""

    mounts: tuple[MountRule, ...] = ()
    hidden: tuple[str, ...] = ()
    allow_write_overlay: bool = True
    commit: str = "none"
    """Which files that cells wrote reach the host by themselves at a cell's end: one of COMMITS."""
    rootfs: str = ""
    """A folder whose tree takes the place of the host's system folders; empty: they are the host's."""


class Outputs(Record):
    """What outputs may do. No profile lets a script of a cell run in the page itself."""

    javascript: str = "hold"
    """What becomes of ``application/javascript``: "hold" drops it with a notice."""
    html: str = "frame"
    """One of OUTPUT_HTML."""
    hosts: tuple[str, ...] = ()
    """Hosts that outputs may load from by https: ``cdn.plot.ly``, ``*.tile.openstreetmap.org``."""
    types: tuple[str, ...] = ()
    """MIME types beyond the usual ones that pass as they are."""
    widget_modules: tuple[str, ...] = ()
    """Modules of widgets that the server has, beyond ipywidgets' own and those in wide use."""
    comm_targets: tuple[str, ...] = ()
    """Targets of comms, beyond those of widgets, that cells may open."""


class Profile(Record):
    """One profile with everything that it extends merged in; rules in order, the first that matches wins."""

    name: str
    description: str = ""
    default_action: Action = fresh(default_factory=lambda: Action(ActionKind.NOTIFY))
    syscall_rules: tuple[SyscallRule, ...] = ()
    resources: Resources = fresh(default_factory=Resources)
    network: Network = fresh(default_factory=Network)
    filesystem: Filesystem = fresh(default_factory=Filesystem)
    outputs: Outputs = fresh(default_factory=Outputs)
    preflight: str = "off"
    minimum_isolation: str = "full"
    preload: tuple[str, ...] = ()
    """Modules that init imports before it forks the worker."""
    path: str = ""


def load_profile(name: str, directories: Iterable[str] = ()) -> Profile:
    """Return profile ``name`` (``strict``, ``sentinelbox/web``) from ``directories``, else the shipped one.

    Raises:
        ProfileError: there is none of that name, or its file can't be used; the JSON path says where.

    """
    # The reader of the grammar builds on the types of this module.
    from sentinel_kernel.policy.profile_document import read_profile  # noqa: PLC0415

    return read_profile(name, [*directories, shipped_directory("profiles")])


class NoProfileError(ProfileError):
    """There is no profile of the name: where it stands is wrong, not a profile's file."""


def find_profile(name: str, directories: Iterable[str]) -> str:
    """Return the path of the file of profile ``name``, the first among ``directories``.

    Raises:
        ProfileError: the name is not one of a profile, or there is no such file.

    """
    directories = list(directories)
    if not is_profile_name(name):
        raise NoProfileError(
            f"{name[:60]!r} is not the name of a profile.",
            "$",
            "Names are letters, digits, '.', '_', '-' and '/'.",
        )
    for path in find_files(name, directories):
        return path
    known = _names(directories)
    meant = closest(name, known)
    remedy = (f"Did you mean '{meant}'? " if meant else "") + f"Known: {', '.join(known)}."
    raise NoProfileError(f"There is no profile '{name}'.", "$", remedy)


def find_files(name: str, directories: Iterable[str]) -> list[str]:
    """Return the paths of all files of profile ``name``: the first one hides the others."""
    places = [os.path.join(directory, *name.split("/")) + _SUFFIX for directory in directories]
    return [path for path in places if os.path.isfile(path)]


def is_profile_name(name: str) -> bool:
    """Tell whether ``name`` can be one: nothing that leads out of the profile folders."""
    parts = name.split("/")
    return len(parts) <= _DEPTH and all(
        0 < len(part) <= 64 and part[0] not in ".-" and _NAME_CHARACTERS.issuperset(part) for part in parts
    )


def list_profiles(directories: Iterable[str] = ()) -> list[str]:
    """Return the names of all profiles in ``directories`` and of the shipped ones; those of the top first."""
    return _names([*directories, shipped_directory("profiles")])


def misnamed_files(directories: Iterable[str]) -> list[str]:
    """Return the paths of files in ``directories`` that are no profiles for their names, but hidden ones."""
    return [
        path
        for name, path in _files(directories)
        if not is_profile_name(name) and not any(part.startswith(".") for part in name.split("/"))
    ]


NAME_REMEDY = "Rename it: names of profiles are letters, digits, '.', '_' and '-'."
"""What to do about one of them."""


def _names(directories: Iterable[str]) -> list[str]:
    found = {name for name, _ in _files(directories) if is_profile_name(name)}
    order = ("strict", "datascience", "web")
    return sorted(found, key=lambda name: (name.count("/"), order.index(name) if name in order else 9, name))


def _files(directories: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each file that may hold a profile: the name that it stands for, and its path."""
    for directory in directories:
        for folder, below, files in os.walk(directory):
            relative = os.path.relpath(folder, directory)
            prefix = "" if relative == "." else f"{relative}/"
            if prefix.count("/") >= _DEPTH - 1:
                below.clear()
            for file in files:
                if file.endswith(_SUFFIX):
                    yield prefix + file.removesuffix(_SUFFIX), os.path.join(folder, file)
