"""How far the cells of this kernel may go now: what remedies may propose."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.leeway import DEFAULT_CEILING, Leeway
from sentinel_kernel.policy.own_limits import OWN_LIMITS
from sentinel_kernel.policy.packages import canonical
from sentinel_kernel.policy.planning import cache_folder
from sentinel_kernel.policy.profile import find_profile, list_profiles, load_profile
from sentinel_kernel.policy.shipped import shipped_directory

if TYPE_CHECKING:
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.profile import Profile


def leeway_in_force(settings: Settings, ready: Json, *, takes_input: bool = True) -> Leeway:
    """Return it; ``ready`` is what the supervisor told of the sandbox in use (its sizes, and the ceiling's).

    ``takes_input``: whether the client of the cell that it is for can be asked (nbclient's can't).
    """
    lab = settings.lab
    return Leeway(
        profiles=_profiles(settings.profile_directories),
        ceiling=settings.ceiling or DEFAULT_CEILING,
        started=settings.profile,
        locked=lab is not None and lab.locked,
        lab=lab is not None,
        sizes=_sizes(ready.get("sizes")),
        most=_sizes(ready.get("ceiling")),
        workspace=settings.workspace,
        python=settings.python,
        asks=takes_input and settings.ask_seconds > 0,
        shown=_shown(ready.get("mounts")),
        asked=_asked(ready.get("asked"), ready.get("mounts")),
        wheels=_wheels(),
        fenced=ready.get("fenced") is True,
        rung=str(ready.get("rung") or "full"),
        rung_words=_words(ready.get("rung_words")),
    )


def _wheels() -> frozenset[str]:
    """Return the packages in the folder that `sentinel-kernel wheels` fills."""
    try:
        names = os.listdir(cache_folder(os.environ, "wheels"))
    except OSError:
        return frozenset()
    return frozenset(canonical(name.partition("-")[0]) for name in names if name.endswith(".whl"))


def _shown(told: object) -> tuple[tuple[str, str], ...]:
    mounts = told if isinstance(told, list) else []
    return tuple((str(one.get("path")), str(one.get("target"))) for one in mounts if isinstance(one, dict))


def _asked(folders: object, mounts: object) -> tuple[tuple[str, str], ...]:
    """Return the folders that the profile wants written, each with where it can be ("": nowhere)."""
    shown = mounts if isinstance(mounts, list) else []
    written = _shown([one for one in shown if isinstance(one, dict) and one.get("mode") == "rw"])
    return tuple(
        (str(folder), dict(reversed(written)).get(str(folder), ""))
        for folder in (folders if isinstance(folders, list) else [])
    )


def _words(told: object) -> dict[str, str]:
    return (
        {name: text for name, text in told.items() if isinstance(text, str)} if isinstance(told, dict) else {}
    )


def _profiles(directories: tuple[str, ...]) -> tuple[Profile, ...]:
    """Return all profiles that can be read; people may write theirs while the kernel runs.

    Those read last are returned where no file has changed: reading and compiling them anew takes longer than all else
    that a refusal takes until it is shown.
    """
    names = list_profiles(directories)
    places = [*directories, shipped_directory("profiles")]
    return _read(directories, tuple(names), tuple(_stamp(name, places) for name in names))


def _stamp(name: str, places: list[str]) -> tuple[str, int, int]:
    """Return what changes with a profile's file."""
    try:
        path = find_profile(name, places)
        status = os.stat(path)
    except (SentinelError, OSError):
        return "", 0, 0
    return path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1)
def _read(
    directories: tuple[str, ...], names: tuple[str, ...], _stamps: tuple[tuple[str, int, int], ...]
) -> tuple[Profile, ...]:
    found = []
    for name in names:
        try:
            found.append(load_profile(name, directories))
        except (SentinelError, OSError):
            continue  # a broken one can't be a remedy, and must not cost the others theirs
    return tuple(found)


def _sizes(told: object) -> dict[str, float | None]:
    """Return the limits that can be set, as the supervisor told them; a fraction of processors as such."""
    if not isinstance(told, dict):
        return {}
    sizes: dict[str, float | None] = {
        name: told[name]
        for name in OWN_LIMITS
        if name in told and (told[name] is None or isinstance(told[name], int | float))
    }
    quota = told.get("cpu_quota")
    if isinstance(quota, int | float):
        sizes["cpu_count"] = quota
    return sizes
