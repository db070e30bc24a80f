"""The violations of this kernel's session, the newest last, and who is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from sentinel_kernel.kernel.wire import Json, Part

    class Listener(Protocol):
        """Who wants to hear of violations."""

        def noted(self, record: Json, *, new: bool) -> None:
            """Hear of a violation, or (``new`` False) of a later state of one."""

        def settle(self, parent: Part) -> None:
            """Tell on what waits: a cell, whose request has the header ``parent``, ends."""


MOST = 2000
"""How many violations are kept; the oldest go first."""

MOST_REMEDY_CHARACTERS = 8 * 1024 * 1024
"""How much changed code is kept with them: each remedy of a long cell holds all of it. The oldest lose theirs."""

_MOST_CELLS = 64
_CODE_CHARACTERS = 64 * 1024


class SessionViolations:
    """Keeps the records that the host has made (policy/violation.py, as JSON), whether they were shown or not."""

    def __init__(self) -> None:
        self._records: dict[str, Json] = {}
        self._codes: dict[str, str] = {}
        self._with_code: dict[str, int] = {}
        """How many characters of changed code a record has, of those that have any."""

        self.code_of: Callable[[str], str | None] = lambda _msg_id: None
        """Returns the code of a cell that runs, or ran last, by its msg_id."""

        self.listener: Listener | None = None

    def note(self, record: Any) -> None:  # noqa: ANN401 - what stands in a bundle
        """Take a record, or a later state of one that is known."""
        identifier = record.get("id") if isinstance(record, dict) else None
        if not isinstance(identifier, str):
            return
        new = identifier not in self._records
        self._records[identifier] = record
        if new:
            self._keep_code(record)
            if len(self._records) > MOST:
                oldest = next(iter(self._records))
                del self._records[oldest]
                self._with_code.pop(oldest, None)
            self._bound_remedies(identifier, record)
        if self.listener is not None:
            self.listener.noted(record, new=new)

    def settle(self, parent: Part) -> None:
        """Let the listener tell on what it held back."""
        if self.listener is not None:
            self.listener.settle(parent)

    def newest(self, most: int) -> list[Json]:
        """Return up to ``most`` records, the newest last."""
        return list(self._records.values())[-most:] if most > 0 else []

    def __len__(self) -> int:
        return len(self._records)

    def code(self, record: Json) -> str | None:
        """Return the code of the cell that a record is about, where it is still known."""
        return self._codes.get(str(record.get("cell")))

    def _bound_remedies(self, identifier: str, record: Json) -> None:
        """Take the changed code out of the oldest records (whoever holds them) where there is too much."""
        size = sum(len(remedy.get("code") or "") for remedy in record.get("remedies") or ())
        if size:
            self._with_code[identifier] = size
        while sum(self._with_code.values()) > MOST_REMEDY_CHARACTERS:
            oldest = next(iter(self._with_code))
            del self._with_code[oldest]
            kept = self._records[oldest]
            kept["remedies"] = [remedy for remedy in kept["remedies"] if not remedy.get("code")]

    def _keep_code(self, record: Json) -> None:
        cell = record.get("cell")
        if not isinstance(cell, str) or cell in self._codes:
            return
        code = self.code_of(cell)
        if code is not None:
            self._codes[cell] = code[:_CODE_CHARACTERS]
            if len(self._codes) > _MOST_CELLS:
                del self._codes[next(iter(self._codes))]
