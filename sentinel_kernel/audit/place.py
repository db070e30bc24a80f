"""Where the audit's database is, how much it keeps and whom it alerts, from the environment's words."""

from __future__ import annotations

import os

from sentinel_kernel.record import Record

TYPE_CHECKING = False  # the supervisor reads this before it starts a sandbox
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = ("SENTINEL_AUDIT", "SENTINEL_AUDIT_ALERT", "SENTINEL_AUDIT_BYTES", "SENTINEL_AUDIT_DAYS")
"""The variables that are heeded."""

_OFF = ("off", "no", "0", "none")
_DAYS = 90.0
_BYTES = 256 << 20
_LEAST_BYTES = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class AuditSettings(Record):
    """What was asked for. ``path`` is empty where there is no audit; ``problem`` says why, unless that was asked."""

    path: str
    days: float = _DAYS
    maximum_bytes: int = _BYTES
    alert: str = ""
    """"syslog", an http(s) address, or nothing."""
    problem: str = ""


def read_audit_settings(environment: Mapping[str, str]) -> AuditSettings:
    """Return the settings; a word that can't be understood is a ``problem``, never another setting in silence."""
    chosen = environment.get("SENTINEL_AUDIT", "").strip()
    if chosen.lower() in _OFF:
        return AuditSettings("")
    path = chosen or default_path(environment)
    if not os.path.isabs(path):
        return AuditSettings("", problem=f"SENTINEL_AUDIT must be an absolute path or off, not {chosen!r}.")
    try:
        days = _days(environment.get("SENTINEL_AUDIT_DAYS") or str(_DAYS))
        maximum = _bytes(environment.get("SENTINEL_AUDIT_BYTES") or str(_BYTES))
    except ValueError as error:
        return AuditSettings("", problem=f"How much the audit keeps can't be understood: {error}.")
    alert = environment.get("SENTINEL_AUDIT_ALERT", "").strip()
    if alert.lower() in ("", "off"):
        alert = ""
    elif alert != "syslog" and not alert.startswith(("https://", "http://")):
        return AuditSettings("", problem="SENTINEL_AUDIT_ALERT must be syslog or an https:// address.")
    return AuditSettings(os.path.normpath(path), days, max(maximum, _LEAST_BYTES), alert)


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
        return AuditSettings("", problem=what)
    return settings


def hidden_folder(settings: AuditSettings) -> str:
    """Return the folder that no sandbox may see; empty where there is no audit."""
    return os.path.realpath(os.path.dirname(settings.path)) if settings.path else ""


def _days(text: str) -> float:
    days = float(text)
    if not days > 0:
        raise ValueError(f"{text!r} is no number of days")
    return days


def _bytes(text: str) -> int:
    """Return a size such as 64M or 1GiB in bytes. Raises ValueError."""
    plain = text.strip().upper().removesuffix("IB").removesuffix("B")
    unit = plain[-1:] if plain[-1:] in _UNITS else ""
    return int(float(plain.removesuffix(unit)) * _UNITS[unit])
