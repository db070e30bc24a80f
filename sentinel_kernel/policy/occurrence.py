"""Makes the violations that no system call was held for: limits, hidden places, what is absent, deaths."""

from __future__ import annotations

import errno as errno_numbers
import signal

from sentinel_kernel.policy.cause import CAUSES, CRASHES
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.violation import VERSION, Frame, Limit, Subject, Violation
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_UNTRUSTED_CHARACTERS = 200


def make_occurrence(
    cause: str,
    *,
    id: str,  # noqa: A002 - the field's name
    profile: str,
    rule: str,
    time_ms: int,
    outcome: str = "refused",
    errno: int | None = None,
    subject: tuple[str, str] | None = None,
) -> Violation:
    """Return the violation of one ``cause`` other than ``call``, without place and words.

    ``rule`` is what said no, in one line; ``subject`` is kind and text, which is cut, with unprintable characters
    escaped. Whatever else is known is added by ``replace``.
    """
    name = None if errno is None else errno_numbers.errorcode.get(errno)
    return Violation(
        id=id,
        version=VERSION,
        cause=cause,
        profile=profile,
        rule=rule,
        origin="profile",
        action=CAUSES[cause].action,
        outcome=outcome,
        first_time_ms=time_ms,
        last_time_ms=time_ms,
        values={} if name is None else {"errno": name},
        errno=errno,
        errno_name=name,
        subject=None if subject is None else Subject(subject[0], shown(subject[1], _UNTRUSTED_CHARACTERS)),
    )


_KINDS_OF_REFUSAL = {
    "private": "private",
    "link-local": "private",
    "shared": "private",
    "own": "private",
    "reserved": "private",
    "loopback": "closed",
    "metadata": "closed",
    "multicast": "closed",
    "unreadable": "closed",
    "rule": "request",
    "full": "full",
    "unwatched": "unwatched",
}
"""Why a host was refused (policy/network.py, proxy/exchange.py) -> the kind of words and of remedy."""


def host_refusal(
    host: str,
    port: int,
    reason: str,
    *,
    id: str,  # noqa: A002 - the field's name
    profile: str,
    time_ms: int,
    address: str = "",
    errno: int | None = None,
) -> Violation:
    """Return the violation for a host that the profile does not let be reached.

    ``host`` is the name, or the address where there is none; ``port`` 0 is not known (a name was looked up).
    ``reason`` is a Decision's, or ``rule`` where no rule of HTTP passes a request on.
    """
    made = make_occurrence("host_refused", id=id, profile=profile, rule="", time_ms=time_ms, errno=errno)
    return as_host_refusal(made, host, port, reason, address)


def as_host_refusal(made: Violation, host: str, port: int, reason: str, address: str = "") -> Violation:
    """Return a refused call, or look-up, as what it meant: a host that the profile does not let be reached."""
    where = f"[{host}]" if ":" in host else host
    values = {
        **made.values,
        "host": shown(host, 253),
        **({"port": str(port)} if port else {}),
        **({"address": shown(address, 60)} if address else {}),
        **({"does": kind} if (kind := _KINDS_OF_REFUSAL.get(reason)) else {}),
    }
    return replace(
        made,
        cause="host_refused",
        action=CAUSES["host_refused"].action,
        rule=f"network.hosts: {shown(reason, 60)}",
        subject=Subject("host", shown(f"{where}:{port}" if port else host, _UNTRUSTED_CHARACTERS)),
        values=values,
        resource="network",
    )


_OUTCOMES = {"soft": "refused", "refused": "refused", "interrupt": "interrupted", "kill": "killed"}
_SETTINGS = {
    "memory": "memory_bytes",
    "disk": "disk_bytes",
    "tmp": "tmp_bytes",
    "shm": "shm_bytes",
    "file_size": "file_size_bytes",
    "output": "output_bytes",
}
"""Limit -> its name among a profile's ``resources``, where that is another."""


def limit_violation(told: Mapping[str, Any], *, id: str, time_ms: int, died: bool = False) -> Violation:  # noqa: A002
    """Return the violation for a limit as EVENT_LIMIT tells it; ``died``: the worker itself was ended for it.

    Raises:
        KeyError: it is no limit that ends or refuses anything (``left_running``).

    """
    name, stage = str(told["name"]), str(told["stage"])
    allowed, own = _amount(told.get("allowed")), told.get("own") is True
    machine = told.get("machine") is True
    of_child = stage == "kill" and not died
    killed_child = of_child and name in ("memory", "cpu_seconds", "wall_seconds")
    values = {}
    if machine:
        values["machine"] = "short"
    if told.get("wanted") == "thread":
        values["wanted"] = "thread"
    if told.get("detail") == "inodes":
        values["full_of"] = "names"
    if not allowed:
        values["detail"] = shown(str(told.get("detail") or ""), 200)
    for key, most in (("place", 100), ("ended", 20), ("left", 20), ("grace_seconds", 20)):
        if told.get(key) is not None:
            values[key] = shown(str(told[key]), most)
    made = make_occurrence(
        "child_killed" if killed_child else name,
        id=id,
        profile=str(told.get("profile") or ""),
        rule=f"{_SETTINGS.get(name, name)} = {allowed:.15g}" if allowed else _SETTINGS.get(name, name),
        time_ms=time_ms,
        outcome=_OUTCOMES[stage],
    )
    return replace(
        _placed(made, told.get("place_of")),
        origin="person" if own else "machine" if machine else "profile",
        resource="worker" if died else "child" if of_child else "cell",
        values=values,
        limit=Limit(
            name,
            stage,
            _amount(told.get("used")) or None,
            allowed,
            str(told.get("unit") or "count"),
            own,
            str(told.get("backend") or ""),
        ),
    )


_SHORT = frozenset(("SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL"))
"""What native code dies of that is refused memory; Python itself ends with status 1 then."""


def death_violation(told: Mapping[str, Any], *, id: str, profile: str, time_ms: int) -> Violation:  # noqa: A002
    """Return the violation for the worker's death, as EVENT_WORKER_DIED tells its cause; not for a KILL rule's.

    ``machine_short`` True: just before, the machine itself had too little memory left.
    """
    kind, limit = told.get("kind"), told.get("limit")
    if kind == "limit" and isinstance(limit, dict):
        placed = {**limit, "place_of": told.get("place") or limit.get("place_of")}
        return limit_violation(placed, id=id, time_ms=time_ms, died=True)
    outcome, values = "ended", {"ended_by": "lost", "detail": shown(str(told.get("detail") or ""), 300)}
    cause, rule = "worker_killed", "the supervisor stopped working"
    if kind == "signal":
        name = _signal_name(told.get("signal"))
        cause = "worker_crashed" if name in CRASHES else "worker_killed"
        values, rule = {"signal": name}, f"signal {name}"
        if told.get("recursion") is True:
            values = {**values, "ended_by": "recursion"}
    elif kind == "exit":
        values = {"ended_by": "exit", "status": shown(str(told.get("status")), 20)}
        rule = f"exit status {values['status']}"
    elif kind == "protocol":
        outcome, values = "killed", {"ended_by": "protocol"}
        rule = "messages that no Jupyter kernel sends"
    elif kind == "connection":
        outcome, values = "killed", {"ended_by": "connection"}
        rule = "network.hosts: a connection that could not be closed"
    short = told.get("machine_short") is True and (
        values.get("status") == "1" or values.get("signal") in _SHORT
    )
    if short:
        values = {**values, "ended_by": "short"}
    made = make_occurrence(cause, id=id, profile=profile, rule=rule, time_ms=time_ms, outcome=outcome)
    made = _placed(made, told.get("place"))
    if short:
        made = replace(made, confidence="likely")
    return replace(made, origin="linux" if kind == "signal" else "worker", resource="worker", values=values)


def _placed(made: Violation, place: object) -> Violation:
    """Add where it was, as the supervisor tells it (supervisor/last_words.py); a guess makes the whole one likely."""
    if not isinstance(place, dict):
        return made
    library = place.get("library")
    return replace(
        made,
        cell=place.get("cell"),
        line=place.get("line"),
        function=place.get("function"),
        library=Frame(**library) if isinstance(library, dict) else None,
        confidence="likely" if "likely" in (place.get("confidence"), made.confidence) else "certain",
    )


def _signal_name(number: object) -> str:
    try:
        return signal.Signals(number).name  # type: ignore[arg-type] # whatever the event says; ValueError if none
    except ValueError:
        return f"signal {shown(str(number), 20)}"


def _amount(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
