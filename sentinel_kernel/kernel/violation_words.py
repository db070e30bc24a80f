"""Completes a violation with its words: what was refused, why, and what truly helps, in both languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.log import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.kernel.wire import Json


class ViolationWords:
    """Finds the words in the mappings; the code for it is imported at the first violation."""

    def __init__(
        self, settings: Settings, ready: Callable[[], Json], code_of: Callable[[str], str | None]
    ) -> None:
        """``ready`` returns what the supervisor told of the sandbox, ``code_of`` the source of a cell by its msg_id."""
        self._settings = settings
        self._ready = ready
        self._code_of = code_of

    def complete(self, violation: Json) -> Json:
        """Return the violation with message, hint and remedies; plain ones if the mappings fail."""
        try:
            return self._complete(violation)
        except (SentinelError, OSError, ValueError, KeyError, TypeError) as error:
            log(f"A violation could not be put into words: {error!r}")
            return {**violation, **_plain(violation)}

    def _complete(self, violation: Json) -> Json:
        from sentinel_kernel.kernel.leeway_in_force import leeway_in_force  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.hints import complete  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.violation import Violation  # noqa: PLC0415 - not on the start path

        read = Violation.from_json(violation)
        leeway = leeway_in_force(self._settings, self._ready())
        return complete(read, leeway=leeway, code=self._code_of(read.cell or "")).to_json()


def _plain(violation: Json) -> Json:
    call = str(violation.get("syscall", "?"))[:60]
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
