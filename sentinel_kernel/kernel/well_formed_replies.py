"""Whether a worker's reply has what clients read in it without a look: one that has not is answered in its stead.

jupyter_client ends at a kernel_info_reply without a version, nbclient at an execute_reply without a status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

_VERSIONS = tuple(f"5.{minor}" for minor in range(20))

_WHEN_OK: dict[str, dict[str, type]] = {
    "kernel_info_reply": {"implementation": str, "language_info": dict, "banner": str},
    "complete_reply": {"matches": list, "cursor_start": int, "cursor_end": int, "metadata": dict},
    "inspect_reply": {"found": bool, "data": dict, "metadata": dict},
    "history_reply": {"history": list},
    "comm_info_reply": {"comms": dict},
}
_STATUS = frozenset({*_WHEN_OK, "execute_reply", "is_complete_reply"})


def check_reply(msg_type: str, content: Json) -> None:
    """Check a reply's content; types that are not known pass. Raises ProtocolError."""
    if msg_type not in _STATUS:
        return
    status = content.get("status")
    if not isinstance(status, str):
        raise ProtocolError(f"A {msg_type} has no status.")
    if msg_type == "kernel_info_reply" and content.get("protocol_version") not in _VERSIONS:
        raise ProtocolError("A kernel_info_reply has no version of the protocol.")
    if status == "ok":
        for key, kind in _WHEN_OK.get(msg_type, {}).items():
            if not isinstance(content.get(key), kind):
                raise ProtocolError(f"A {msg_type} has no {key}.")
    if msg_type == "complete_reply" and not all(isinstance(text, str) for text in content.get("matches", ())):
        raise ProtocolError("A complete_reply has a match that is no text.")
    if msg_type == "execute_reply":
        _check_execute(status, content)


def _check_execute(status: str, content: Json) -> None:
    if not isinstance(content.get("payload"), list | None):
        raise ProtocolError("An execute_reply has a payload that is no list.")
    if status == "error":
        trace = content.get("traceback")
        texts = [content.get("ename"), content.get("evalue"), *(trace if isinstance(trace, list) else [None])]
        if not all(isinstance(text, str) for text in texts):
            raise ProtocolError("An execute_reply has no error to show.")
