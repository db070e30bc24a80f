"""The result of a run cell as the client gets it: status, outputs in fields of their own, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.mcp import ran_cell
from sentinel_kernel.mcp.cell_outputs import CellOutputs
from sentinel_kernel.mcp.ran_cell import Ran

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

OK, ERROR, REFUSED, TIMEOUT, CANCELLED, DIED = "ok", "error", "refused", "timeout", "cancelled", "died"
STATUSES = (OK, ERROR, REFUSED, TIMEOUT, CANCELLED, DIED)

_DEATHS = ("worker_killed", "worker_crashed")
_LOST = "The kernel had to be ended: its variables are gone. The next call with this kernel starts a new one."
_NO_INPUT = "input() has nobody to type here: put the values into the code."
_MOST_HINTS = 5


def status_of(ran: Ran) -> str:
    """Return how a cell ended, from what the trusted side says alone."""
    ended = {
        ran_cell.TIMEOUT: TIMEOUT,
        ran_cell.CANCELLED: CANCELLED,
        ran_cell.DIED: DIED,
        ran_cell.INPUT: ERROR,
    }.get(ran.ended)
    if ended is not None:
        return ended
    if ran.status == "ok":
        return OK
    violations = ran.outputs.violations.values()
    ended_by_sandbox = any(
        violation.get("cause") in _DEATHS or violation.get("outcome") == "killed" for violation in violations
    )
    named = (ran.outputs.error or {}).get("ename") == "SandboxDied"
    return DIED if named and ended_by_sandbox else ERROR


def no_sandbox(ran: Ran) -> str:
    """Return why there is none, where the kernel was asked for its limits and could not tell; else nothing.

    The code in a sandbox can fail a cell with any words. But behind a cell's execute_input the kernel shows the page at
    once: where none follows, it has answered the cell itself, as it does where there is nobody else.
    """
    by_the_kernel = ran.ended == ran_cell.FINISHED and ran.outputs.begun and ran.outputs.limits is None
    error = ran.outputs.error or {}
    named = error.get("ename") == "SandboxUnavailable"
    return str(error.get("evalue") or "") if by_the_kernel and named else ""


def of_ran(ran: Ran, kernel: str, profile: str, language: str, notes: Iterable[str] = ()) -> Json:
    """Return the fields that tell of one run cell."""
    status = status_of(ran)
    outputs = ran.outputs.to_json()
    hints = [*notes, *_hints(ran, status, outputs["violations"], language)]
    return {
        "status": status,
        "hint": " ".join(dict.fromkeys(hints)),
        "kernel": kernel,
        "profile": profile,
        "execution_count": ran.execution_count,
        "seconds": round(ran.seconds, 3),
        **outputs,
        "files": None,
        "findings": [],
        "questions": [],
    }


def not_run(status: str, hint: str, kernel: str, profile: str, findings: list[Json]) -> Json:
    """Return the fields that tell of a cell that was not run, and why."""
    empty = Ran(CellOutputs(), ran_cell.FINISHED, "ok", None, 0.0)
    return {
        **of_ran(empty, kernel, profile, "en"),
        "status": status,
        "hint": hint,
        "findings": findings,
    }


def _hints(ran: Ran, status: str, violations: list[Json], language: str) -> list[str]:
    hints = []
    if status == TIMEOUT:
        hints.append(
            f"The cell was interrupted after {ran.seconds:.0f} s (timeout_seconds). Do less in one cell, or allow more."
        )
    elif status == CANCELLED:
        hints.append("The cell was interrupted, as the call was cancelled.")
    elif ran.ended == ran_cell.INPUT:
        hints.append(_NO_INPUT)
    if ran.kernel_lost:
        hints.append(_LOST)
    for violation in violations[:_MOST_HINTS]:
        message, hint = words(violation, "message", language), words(violation, "hint", language)
        hints.append(f"{message} HINT: {hint}" if hint else message)
        remedies = violation.get("remedies") or []
        first = remedies[0] if remedies and isinstance(remedies[0], dict) else {}
        if first.get("kind") == "magic":
            hints.append(f"To try first: put `{first.get('text')}` on top of the cell.")
        elif first.get("kind") == "code" and first.get("code"):
            hints.append("To try first: the changed code in remedies[0].code.")
    for notice in ran.outputs.notices.values():
        message, hint = words(notice, "message", language), words(notice, "hint", language)
        hints.append(f"{message} HINT: {hint}" if hint else message)
    return [hint for hint in hints if hint]


def words(record: Json, key: str, language: str) -> str:
    """Return a record's message or hint in the language."""
    texts = record.get(key)
    text = (texts.get(language) or texts.get("en")) if isinstance(texts, dict) else ""
    return text if isinstance(text, str) else ""
