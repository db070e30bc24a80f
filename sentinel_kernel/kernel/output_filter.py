"""The output filter of one kernel: which rules are in force, what the person has added, and what is told of it.

What a message may hold is decided by ``filtering/``, which is imported when the first message comes that could need
it: text without escapes, and pictures' worth of statuses, never do.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.kernel.log import log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.filtering.messages import Filtered, Messages
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part
    from sentinel_kernel.policy.profile import Outputs

_NEVER = frozenset({"status", "execute_input", "clear_output", "comm_close", "interrupt_reply"})
_PLAIN = frozenset({"text/plain"})
_ANSWER = frozenset({"status", "execution_count", "user_expressions", "payload"})
_MOST_OF_A_KIND = 3
"""Notices of one kind in a cell: each names other hosts or types."""

_C1 = re.compile(rb"\xc2[\x80-\x9f]")


class OutputFilter:
    """Judges contents by the rules of the profile in force. ``hosts`` and ``scripts`` are the person's own yes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._messages: Messages | None = None
        self._generation = -1
        """The sandbox whose models ``_messages`` remembers; the next one has none of them."""

        self._known: tuple[tuple[object, ...], Outputs] | None = None
        self.hosts: tuple[str, ...] = ()
        self.scripts = False

    def judge(
        self,
        msg_type: str,
        raw: Part,
        content: Json,
        request: Request | None = None,
        buffers: Sequence[Part] = (),
    ) -> Filtered | None:
        """Make ``content``, which ``raw`` was read as, harmless in place; None where there was nothing to look at.

        ``request`` is what a reply answers; ``buffers`` follow the content.
        """
        if msg_type in _NEVER or not _may_need(msg_type, raw, content):
            return None
        if self._messages is None or self._generation != self._host.lifecycle.generation:
            from sentinel_kernel.kernel.filtering.messages import Messages  # noqa: PLC0415 - see above

            self._messages, self._generation = Messages(), self._host.lifecycle.generation
        asked: Json | None = None
        if request is not None and msg_type == "complete_reply":
            with contextlib.suppress(ProtocolError):
                asked = request.content()
        return self._messages.filter(msg_type, content, self.rules(), asked, buffers)

    def rules(self) -> Outputs:
        """Return what outputs may do now. A profile that can't be read lets them do the least but show tables."""
        host = self._host
        key = (host.lifecycle.profile, host.lifecycle.generation, self.hosts, self.scripts)
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        from sentinel_kernel.policy.profile import Outputs, load_profile  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.record import replace  # noqa: PLC0415 - as above

        try:
            rules = load_profile(host.lifecycle.profile, host.settings.profile_directories).outputs
        except (SentinelError, OSError) as error:
            log(f"The profile's rules for outputs can't be read, scripts are left out: {error}")
            rules = Outputs(html="sanitize")
        rules = replace(
            rules,
            hosts=tuple(dict.fromkeys((*rules.hosts, *self.hosts))),
            html="frame" if self.scripts else rules.html,
        )
        self._known = key, rules
        return rules

    def tell(self, kinds: frozenset[str], parent: Part, msg_id: str) -> None:
        """Say in the cell what was held back, once for each kind and what it is of."""
        if not kinds or (cell := self._host.execution.running.get(msg_id)) is None:
            return
        from sentinel_kernel.kernel.filtering.held import notices  # noqa: PLC0415 - where something was

        for about, words, data in notices(kinds):
            # Names are the worker's, who has as many as it likes.
            of_kind = f"output {about.split()[0]}"
            if sum(one.split(" ", 2)[:2] == of_kind.split() for one in cell.notices) < _MOST_OF_A_KIND:
                self._host.displays.notice(words, "held", parent, cell, f"output {about}", data)


def _may_need(msg_type: str, raw: Part, content: Json) -> bool:
    """Tell whether there may be anything in a message that pages act on."""
    bare = content.keys() == {"name", "text"} or (
        content.keys() <= {"data", "metadata", "execution_count", "transient"}
        and isinstance(data := content.get("data"), dict)
        and data.keys() == _PLAIN
        and not content.get("metadata")
    )
    if not bare and msg_type == "execute_reply":
        bare = (
            content.keys() <= _ANSWER and not content.get("payload") and not content.get("user_expressions")
        )
    if not bare:
        return True
    # Escapes are controls; JSON writes those of ASCII as \\u00XX or \\f, and may write the others as they are.
    data = bytes(raw)
    if any(spelled in data for spelled in (b"\\u", b"\\f", b"\x7f")):
        return True
    return not data.isascii() and _C1.search(data) is not None
