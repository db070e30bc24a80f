"""What a commit needs a person's yes for, and whether a yes was given to just that."""

from __future__ import annotations

import hashlib

from sentinel_kernel.policy.committable import (
    CONFIGURATION,
    EXECUTABLE,
    LOADED,
    MODEL,
    OPTION,
    REFUSED,
    SETTINGS,
    VERSION_CONTROL,
    WAITS,
    looks_like_option,
)
from sentinel_kernel.workspace import change as kinds
from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.commit import questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.person_commit import Keeping
    from sentinel_kernel.workspace.request import FilesRequest

    Json = dict[str, Any]

_WORST = {
    reason: rank
    for rank, reason in enumerate(
        (VERSION_CONTROL, LOADED, CONFIGURATION, EXECUTABLE, OPTION, SETTINGS, MODEL, WAITS)
    )
}
_MOST_QUESTIONED = 100_000
"""The most paths that one yes can be about: what was asked for is known one by one."""


class Asking:
    """What a commit needs a yes for, and what of that the person has said yes to."""

    def __init__(self, wanted: FilesRequest, keeping: Keeping) -> None:
        """Begin with nothing looked at; ``wanted`` has what was answered, ``keeping`` tells what an undo can do."""
        self._wanted = wanted
        self._keeping = keeping
        self._final: dict[str, int] = {}
        self._options: dict[str, int] = {}
        self._digest = hashlib.blake2b(digest_size=16)
        self._counts: dict[str, int] = {}
        self._paths: dict[str, list[tuple[int, int, str]]] = {}
        """How bad, which, path: what is asked about names the worst first."""
        self._questioned: set[bytes] = set()
        self.count = 0

    def look_at(self, change: Change, shown: str) -> None:
        """Take note of one change; ``shown`` is its path as the person types it."""
        self.count += 1
        wanted = self._questions(change)
        final = 0 if self._keeping.keeps(change) else 1 + change.inside
        option = change.kind != kinds.DELETED and looks_like_option(change.path)
        worst = _WORST.get(change.committable or (OPTION if option else change.waits), len(_WORST))
        for what in wanted:
            if final and what in ("delete", "overwrite"):
                self._final[what] = self._final.get(what, 0) + final
            self._options[what] = self._options.get(what, 0) + option
            self._counts[what] = self._counts.get(what, 0) + 1 + change.inside
            named = self._paths.setdefault(what, [])
            named.append((worst, self.count, shown))
            if len(named) > 2 * asked.NAMED_PATHS:
                named.sort()
                del named[asked.NAMED_PATHS :]
        if wanted:
            identity = _identity(change)
            self._digest.update(identity)
            if len(self._questioned) < _MOST_QUESTIONED:
                self._questioned.add(identity)

    def _questions(self, change: Change) -> tuple[str, ...]:
        """Return what a change needs a yes for; a new one where it would not have been committed by itself either."""
        found = questions(change)
        if found or change.committable in REFUSED:
            return found
        return ("new",) if self._wanted.ask_new or not change.autocommit else ()

    @property
    def seen(self) -> str:
        """What names all that needs a yes, as it is now."""
        return self._digest.hexdigest()

    @property
    def open(self) -> bool:
        """Whether the person has to be asked: something else is in question than was answered."""
        return bool(self._counts) and (
            not set(self._counts) <= self._wanted.answers or self._wanted.seen != self.seen
        )

    def agreed(self, change: Change) -> bool:
        """Tell whether a change needs no yes, or is the very one that the person was asked about."""
        return not self._questions(change) or _identity(change) in self._questioned

    def needs(self) -> list[Json]:
        """Return what has to be asked."""
        return [
            {
                "what": what,
                "count": count,
                "final": self._final.get(what, 0),
                "options": self._options.get(what, 0),
                "paths": [path for *_, path in sorted(self._paths[what])[: asked.NAMED_PATHS]],
            }
            for what, count in sorted(self._counts.items())
        ]


def _identity(change: Change) -> bytes:
    text = repr((change.layer, change.path, change.kind, change.cell_key, change.host_key, questions(change)))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
