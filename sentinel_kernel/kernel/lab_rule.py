"""What is left of a user's own settings under a lab's configuration, and what the user is told of the rest."""

from __future__ import annotations

import os
import sys

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.record import Record

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.lab_config import LabConfig

Notice = tuple[str, str]
"""What does not count, in English and Chinese."""


class Granted(Record):
    """The settings that a kernel gets."""

    profile: str
    ceiling: str
    profile_directories: tuple[str, ...]
    python: str
    ask_seconds: float
    notices: tuple[Notice, ...]


def under_lab(lab: LabConfig, wished: Granted) -> Granted:
    """Return what the lab lets stand of what a user has ``wished`` for ("" where there was no wish)."""
    directories = _directories(lab, wished.profile_directories)
    notices = []
    profile = lab.profile
    if wished.profile and wished.profile != profile:
        if not lab.locked and _within(wished.profile, lab.ceiling, directories):
            profile = wished.profile
        else:
            notices.append(_notice("SENTINEL_PROFILE", wished.profile, profile))
    if wished.ceiling and wished.ceiling != lab.ceiling:
        notices.append(_notice("SENTINEL_CEILING", wished.ceiling, lab.ceiling))
    python = wished.python or sys.executable
    if python != sys.executable and python not in lab.pythons:
        notices.append(_notice("SENTINEL_PYTHON", python, sys.executable))
        python = sys.executable
    seconds = wished.ask_seconds if lab.ask_seconds is None else lab.ask_seconds
    return Granted(
        profile=profile,
        ceiling=lab.ceiling,
        profile_directories=directories,
        python=python,
        ask_seconds=min(seconds, wished.ask_seconds),
        notices=tuple(notices),
    )


def _directories(lab: LabConfig, own: Sequence[str]) -> tuple[str, ...]:
    """Return where profiles are looked for: a user's own never stand before one that the lab or Sentinel brings."""
    from sentinel_kernel.policy.shipped import shipped_directory  # noqa: PLC0415 - only under a lab's configuration

    found = [lab.profiles] if lab.profiles else []
    return (*found, shipped_directory("profiles"), *own) if lab.own_profiles else tuple(found)


def _within(name: str, ceiling: str, directories: Sequence[str]) -> bool:
    from sentinel_kernel.policy.compare import is_within, no_larger  # noqa: PLC0415 - only for a user's own wish
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

    try:
        profile, most = load_profile(name, directories), load_profile(ceiling, directories)
        return is_within(profile, most, os.uname().machine) and no_larger(profile, most)
    except (SentinelError, OSError):
        return False  # what can't be read gives nothing


def _notice(name: str, wished: str, granted: str) -> Notice:
    # A value of the environment may be anything: it is shown cut, and without what is not printable.
    shown = "".join(character if character.isprintable() else "?" for character in wished[:80])
    return (
        f"{name} asks for {shown}; the lab's configuration grants {granted}.",
        f"{name} 请求 {shown}；实验室配置只允许 {granted}。",
    )
