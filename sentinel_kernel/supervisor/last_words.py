"""Where the worker is when a limit or a rule ends what it does: asked for just before, known for what it is worth.

A stack is the worker's own word; of a death nobody else can tell the line. So it is never more than likely.
"""

from __future__ import annotations

import contextlib
import signal

from sentinel_kernel.record import as_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current

_PATIENCE_SECONDS = 0.1
_SHORT_PATIENCE_SECONDS = 0.02
"""How long a kill waits for a stack; the same where memory runs out meanwhile."""

_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT})


def place_fields(place: Place | None) -> dict[str, Any] | None:
    """Return a place as the host is told of it: line, function, library; ``cell``, where it is an earlier one's."""
    if place is None or (place.line is None and place.library is None):
        return None
    return {
        "cell": place.cell or None,
        "line": place.line,
        "function": place.function,
        "library": None if place.library is None else as_dict(place.library),
        "confidence": "likely",
    }


def note_place(current: Current, limit: dict[str, Any]) -> None:
    """Have it noted in ``limit`` (``place_of``) where the worker is as it is reached; to be called before a signal."""
    worker, line = current.worker_pid, current.held_line

    def found(place: Place | None) -> None:
        told = place_fields(place)
        if told is not None:  # the worker goes on: this is known as well as the line of a refusal
            limit["place_of"] = {**told, "confidence": "certain"}
        elif line is not None and line.last is not None:
            limit["place_of"] = place_fields(line.last)

    patience = _SHORT_PATIENCE_SECONDS if limit.get("name") == "memory" else _PATIENCE_SECONDS
    if worker > 0 and line is not None and not line.ask(worker, worker, found, patience):
        found(None)


def kill_worker(current: Current, cause: dict[str, Any]) -> None:
    """Kill the worker once its main thread has told in ``cause`` where it is; very soon in any case."""
    line, worker = current.held_line, current.worker_pid

    def kill(place: Place | None) -> None:
        known = place if place is not None and place.line is not None else None
        cause["place"] = place_fields(known or (line.last if line is not None else None))
        with contextlib.suppress(OSError):  # it is dead already
            signal.pidfd_send_signal(current.worker_pidfd, signal.SIGKILL)

    limit = cause.get("limit")
    scarce = isinstance(limit, dict) and limit.get("name") == "memory"
    patience = _SHORT_PATIENCE_SECONDS if scarce else _PATIENCE_SECONDS
    if line is None or not line.ask(worker, worker, kill, patience):
        kill(None)


def place_of_death(current: Current, cause: dict[str, Any]) -> dict[str, Any] | None:
    """Return where a worker was that has died for ``cause``, by its own last words or the last line that was seen."""
    line = current.held_line
    if line is None or cause.get("kind") != "signal":
        return None
    crash = line.crash() if cause.get("signal") in _CRASHES else None
    cause["recursion"] = line.went_round
    return place_fields(crash or line.last)
