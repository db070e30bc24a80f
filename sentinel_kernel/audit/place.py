"""Where the audit's database is, how much it keeps and whom it alerts, from the environment's words."""

from __future__ import annotations

import math
import os

from sentinel_kernel.record import Record

TYPE_CHECKING = False  # the supervisor reads this before it starts a sandbox
if TYPE_CHECKING:
    from collections.abc import Mapping

REQUIRED = "SENTINEL_AUDIT_REQUIRED"
"""Set where a lab says that there has to be an audit: without one there is no sandbox."""

_OFF = ("off", "no", "0", "none")
_DAYS = 90.0
_MOST_DAYS = 36_500.0
"""A century: a time before it is no number that SQLite takes."""
_BYTES = 256 << 20
_LEAST_BYTES = 1 << 20
_ALL_BYTES = 1 << 62
_SHOWN = 12
"""So much of an address that can't be one is told: what follows may be a secret."""
REMEDY = "Set SENTINEL_AUDIT to a file in a folder of its own (an absolute path), or to off."
"""What to do where the database can't be where it was meant to be."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class AuditSettings(Record):
    """What was asked for. ``path`` is empty where there is no audit; ``problem`` says why, unless that was asked."""

    path: str
    days: float = _DAYS
    maximum_bytes: int = _BYTES
    alert: str = ""
    """"syslog", an http(s) address, or nothing."""
    problem: str = ""
    remedy: str = ""
    doubts: tuple[str, ...] = ()
    """Of what can't be understood though there is an audit, what is in force instead: nothing is deleted meanwhile."""


def read_audit_settings(environment: Mapping[str, str]) -> AuditSettings:
    """Return the settings; what can't be understood is a ``problem`` or a doubt, never another setting in silence."""
    chosen = environment.get("SENTINEL_AUDIT", "").strip()
    if chosen.lower() in _OFF:
        return AuditSettings("")
    path = chosen or default_path(environment)
    if not os.path.isabs(path):
        return _relative(environment, chosen)
    doubts = []
    try:
        days = read_days(environment.get("SENTINEL_AUDIT_DAYS") or str(_DAYS))
    except ValueError as error:
        days = _MOST_DAYS
        doubts.append(
            f"SENTINEL_AUDIT_DAYS can't be understood: {error} (such as 90). No row is deleted for its age."
        )
    try:
        maximum = read_bytes(environment.get("SENTINEL_AUDIT_BYTES") or str(_BYTES))
    except ValueError as error:
        maximum = _ALL_BYTES
        doubts.append(
            f"SENTINEL_AUDIT_BYTES can't be understood: {error} (such as 256M). The audit may take any room."
        )
    alert = environment.get("SENTINEL_AUDIT_ALERT", "").strip()
    if alert.lower() in ("", "off"):
        alert = ""
    elif alert != "syslog" and not alert.startswith(("https://", "http://")):
        doubts.append(
            f"SENTINEL_AUDIT_ALERT must be syslog or an https:// or http:// address, not {alert[:_SHOWN]!r}. "
            "Nobody is alerted."
        )
        alert = ""
    return AuditSettings(
        os.path.normpath(path), days, max(maximum, _LEAST_BYTES), alert, doubts=tuple(doubts)
    )


def _relative(environment: Mapping[str, str], chosen: str) -> AuditSettings:
    """Return the settings for a path that is not absolute, with the variable that it comes from."""
    name = "XDG_STATE_HOME" if environment.get("XDG_STATE_HOME") else "HOME"
    if chosen:
        what = f"SENTINEL_AUDIT must be an absolute path or off, not {chosen!r}."
        return AuditSettings("", problem=what, remedy=REMEDY)
    what = f"{name} must be an absolute path, not {environment[name]!r}: the audit's database is below it."
    return AuditSettings("", problem=what, remedy=f"Set {name} to an absolute path.")


def default_path(environment: Mapping[str, str]) -> str:
    """Return where the database is if nobody says otherwise (XDG base directory specification)."""
    state = environment.get("XDG_STATE_HOME") or os.path.join(
        environment.get("HOME") or "/", ".local", "state"
    )
    return os.path.join(state, "sentinel-kernel", "audit.db")


def make_place(settings: AuditSettings) -> None:
    """Make the database's folder, the user's alone. Raises OSError where that can't be done."""
    folder = os.path.dirname(settings.path)
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)


def settings_beside(environment: Mapping[str, str], workspace: str) -> AuditSettings:
    """Return the settings for a kernel whose cells see ``workspace``; there is no audit that they could read."""
    settings = read_audit_settings(environment)
    folder = hidden_folder(settings)
    if folder and os.path.commonpath([folder, os.path.realpath(workspace)]) == folder:
        what = f"The audit's database would lie in {folder}, where the notebook's folder is too: cells could read it."
        return AuditSettings("", problem=what, remedy=REMEDY)
    return settings


def hidden_folder(settings: AuditSettings) -> str:
    """Return the folder that no sandbox may see; empty where there is no audit."""
    return os.path.realpath(os.path.dirname(settings.path)) if settings.path else ""


def read_days(text: str) -> float:
    """Return a number of days, a century at most. Raises ValueError with words."""
    try:
        days = float(text)
    except ValueError:
        days = math.nan
    if not (math.isfinite(days) and days > 0):
        raise ValueError(f"{text!r} is no number of days")
    return min(days, _MOST_DAYS)


def read_bytes(text: str) -> int:
    """Return a size such as 64M or 1GiB in bytes. Raises ValueError with words."""
    plain = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = plain[-1:] if plain[-1:] in _UNITS else ""
    try:
        size = float(plain.removesuffix(unit)) * _UNITS[unit]
    except ValueError:
        size = math.nan
    if not (math.isfinite(size) and size >= 0):
        raise ValueError(f"{text!r} is no size")
    return int(size)
