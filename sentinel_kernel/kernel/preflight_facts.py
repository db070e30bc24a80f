"""Gathers what preflight has to know of one machine's sandbox: folders that can be written, packages, programs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.planning import FALLBACK_HOME, cache_folder
from sentinel_kernel.policy.preflight_finding import Facts
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.shown_folder import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PROGRAM_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def gather(profile: str, directories: Iterable[str], workspace: str, python: str = sys.executable) -> Facts:
    """Return the facts of a sandbox under ``profile`` for notebooks in ``workspace``, whose cells ``python`` runs.

    Raises:
        SentinelError: the profile can't be used, or the machine is not known.

    """
    loaded = load_profile(profile, directories)
    prefix = (
        sys.prefix if python == sys.executable else os.path.dirname(os.path.dirname(os.path.abspath(python)))
    )
    mounts = [
        os.path.expanduser(mount.path)
        for mount in loaded.filesystem.mounts
        if mount.mode in ("overlay", "rw")
    ]
    home = os.path.expanduser("~")
    places = [workspace, prefix, home, *mounts]
    if loaded.filesystem.allow_write_overlay:
        places.append(os.environ.get("PWD", workspace))  # the workspace's name before its links were followed
    else:
        places.remove(workspace)
    # Below /mnt lies what was shown while the sandbox ran, perhaps to be written: nothing is sure there.
    folders = [*places, *map(os.path.realpath, places), FALLBACK_HOME, "/tmp", "/var/tmp", PLACE]
    return Facts(
        policy=compiled(loaded, os.uname().machine),
        writable=tuple(
            dict.fromkeys(folder for folder in folders if folder.startswith("/") and folder != "/")
        ),
        workspace_writable=loaded.filesystem.allow_write_overlay,
        installed=_installed if python == sys.executable else None,
        has_program=_has_program(prefix),
        is_own_module=_is_own_module(workspace),
        has_wheels=os.path.isdir(cache_folder(os.environ, "wheels")),
    )


def _installed(name: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - only where a cell installs something

    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError):
        return ""


def _has_program(prefix: str) -> Callable[[str], bool]:
    path = os.pathsep.join((*_PROGRAM_FOLDERS, os.path.join(prefix, "bin")))

    def has(name: str) -> bool:
        import shutil  # noqa: PLC0415 - only where a cell starts a program that preflight knows

        return shutil.which(name, path=path) is not None

    return has


def _is_own_module(workspace: str) -> Callable[[str], bool]:
    def is_own(name: str) -> bool:
        place = os.path.join(workspace, name)
        return name.isidentifier() and (os.path.isfile(f"{place}.py") or os.path.isdir(place))

    return is_own
