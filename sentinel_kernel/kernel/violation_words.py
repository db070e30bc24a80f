"""Completes a violation with its words: what was refused, why, and what truly helps, in both languages."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Protocol

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.log import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.kernel.words import Words
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.mapping import Mappings
    from sentinel_kernel.policy.violation import Violation

_SECONDS_A_CELL = 1.0
"""So much processor time is spent on what helps in one cell; of what it is refused beyond, its text is not read."""

_REMEMBERED = 64


class KnowsCells(Protocol):
    """What is asked about cells that run, or ran last (kernel/execution.py)."""

    def code_of(self, msg_id: str) -> str | None:
        """Return the code of a cell."""

    def takes_input(self, msg_id: str) -> bool:
        """Tell whether the client that sent a cell can be asked."""


class ViolationWords:
    """Finds the words in the mappings; the code for it is imported at the first violation."""

    def __init__(
        self, settings: Settings, ready: Callable[[], Json], execution: Callable[[], KnowsCells]
    ) -> None:
        """``ready`` returns what the supervisor told of the sandbox, ``execution`` what knows cells by their msg_id."""
        self._settings = settings
        self._ready = ready
        self._execution = execution
        self._mappings: Mappings | None = None
        self._found: dict[str, tuple[Leeway, Violation]] = {}
        self._spent: dict[str, float] = {}

    def own_faults(self) -> list[Words]:
        """Return what is to be told of files with words of one's own that can't be used; the first time alone."""
        if self._mappings is not None or not self._has_own():
            return []
        try:
            return self._load()
        except SentinelError as error:
            log(f"The words for violations can't be read: {error}")
            return []

    def _load(self) -> list[Words]:
        from sentinel_kernel.kernel.words import own_words_unused  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.own_words import words_in_use  # noqa: PLC0415 - not on the start path

        settings = self._settings
        self._mappings, unused = words_in_use(settings.mapping_files, settings.named_mapping)
        return [own_words_unused(file.path, file.place, file.why, file.remedy) for file in unused]

    def _has_own(self) -> bool:
        """Tell whether there are words of a lab's or of the user's own, or should be."""
        named = self._settings.named_mapping
        return bool(named) or any(map(os.path.exists, self._settings.mapping_files))

    def complete(self, violation: Json) -> Json:
        """Return the violation with message, hint and remedies; plain ones if the mappings fail."""
        try:
            return self._complete(violation)
        except Exception as error:  # noqa: BLE001 - no cell's text and no report of it may end the host
            log(f"A violation could not be put into words: {error!r}")
            return {**violation, **_plain(violation)}

    def _complete(self, violation: Json) -> Json:
        from sentinel_kernel.kernel.leeway_in_force import leeway_in_force  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.hints import complete  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.violation import Violation  # noqa: PLC0415 - not on the start path

        read = Violation.from_json(violation)
        cells = self._execution()
        leeway = leeway_in_force(
            self._settings, self._ready(), takes_input=cells.takes_input(read.cell or "")
        )
        if self._mappings is None:
            self._load()
        from sentinel_kernel.record import replace  # noqa: PLC0415 - not on the start path

        process = None if read.process is None else replace(read.process, pid=0)
        kind = replace(read, id="", count=1, first_time_ms=0, last_time_ms=0, process=process)
        key, cell = repr(kind), read.cell or ""
        known = self._found.pop(key, None)
        if known is None or known[0] != leeway:
            began = time.thread_time()
            spent = self._spent.pop(cell, 0.0)
            code = cells.code_of(cell) if spent < _SECONDS_A_CELL else None
            known = leeway, complete(kind, self._mappings, leeway=leeway, code=code)
            self._spent[cell] = spent + time.thread_time() - began
            _bound(self._spent)
        self._found[key] = known
        _bound(self._found)
        said = known[1]
        return replace(read, message=said.message, hint=said.hint, remedies=said.remedies).to_json()


def _bound(kept: dict[str, Any]) -> None:
    """Let the oldest go."""
    if len(kept) > _REMEMBERED:
        del kept[next(iter(kept))]


def _plain(violation: Json) -> Json:
    call = str(violation.get("syscall") or "")[:60]
    if not call:
        rule = str(violation.get("rule") or violation.get("cause"))[:200]
        return {
            "message": {"en": f"The sandbox stopped this ({rule}).", "zh": f"沙箱阻止了此操作（{rule}）。"},
            "hint": {
                "en": "See what is allowed: %sentinel_limit and %sentinel_profile.",
                "zh": "请用 %sentinel_limit 和 %sentinel_profile 查看允许的范围。",
            },
        }
    return {
        "message": {
            "en": f"The sandbox refused the system call {call}.",
            "zh": f"沙箱拒绝了系统调用 {call}。",
        },
        "hint": {
            "en": "Leave the call out, or look for a profile that allows it with %sentinel_profile.",
            "zh": "请去掉该调用，或用 %sentinel_profile 查看允许它的配置。",
        },
    }
