"""Comms that are the host's own: which of the worker's messages reach for one, and how they are listed.

The host's widgets (widgets.py) and what frontends opened towards the host (frontend_comms.py) have ids that the
worker is never told. Who knows one all the same may not use it; nor may the worker open, or claim to have, a comm of
the host's target: a page would take it for the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.output_rule import BUNDLES
from sentinel_kernel.kernel.widgets import COMM_TYPES, hides_ascii, mentions
from sentinel_kernel.kernel.wire import CONTENT, decode, encode

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json, Part

TARGET = "sentinel"
"""The target that frontends open to hear of violations."""

_CONTENT_BYTES = 512 * 1024 * 1024
_VIEW = b"widget-view"


def forged(host: Host, msg_type: str, content: Part) -> bool:
    """Tell whether a worker's message names a comm of the host's, or opens one of its target.

    Raises ProtocolError for a content that can't be read.
    """
    if msg_type in COMM_TYPES:
        if host.widgets.forges(content) or (_has_frontends(host) and mentions(content, host.frontends.ids)):
            return True
        return msg_type == "comm_open" and is_target(content)
    if msg_type not in BUNDLES or not host.widgets.ids:
        return False
    raw = bytes(content)  # a view of the host's, put where the worker wants it
    return (_VIEW in raw.lower() or hides_ascii(raw)) and host.widgets.forges(raw)


def is_target(content: Part) -> bool:
    """Tell whether a comm_open is for the host's target, however it is written. Raises ProtocolError."""
    raw = bytes(content)
    # One letter beyond ASCII's, U+017F, folds to an s; none does to another of the name's.
    if b"entinel" not in raw.lower() and not hides_ascii(raw):
        return False
    target = decode(raw, _CONTENT_BYTES).get("target_name")
    return isinstance(target, str) and _reserved(target)


def takes(host: Host, request: Request) -> bool:
    """Answer a client's comm message if it is to the host itself. Raises ProtocolError."""
    if not _has_frontends(host) and (
        request.msg_type != "comm_open" or not is_target(request.parts[CONTENT])
    ):
        return False
    return host.frontends.takes(request)


def add_listed(host: Host, request: Request, parts: list[Part]) -> None:
    """Put the host's comms into the worker's answer to ``comm_info_request``. Raises ProtocolError."""
    content = decode(parts[CONTENT], _CONTENT_BYTES)
    comms = content.get("comms")
    parts[CONTENT] = encode(
        {**content, "comms": listed(host, request, comms if isinstance(comms, dict) else {})}
    )


def listed(host: Host, request: Request, comms: Json) -> Json:
    """Return the comms of an answer to ``comm_info_request``: the worker's without what it claims, and the host's."""
    theirs = {
        comm_id: told
        for comm_id, told in comms.items()
        if isinstance(told, dict) and not _reserved(str(told.get("target_name")))
    }
    target = request.content().get("target_name")
    ours = host.frontends.ids if _has_frontends(host) and target in (None, "", TARGET) else {}
    return {
        **host.widgets.comm_info(request, theirs),
        **{comm_id: {"target_name": TARGET} for comm_id in ours},
    }


def _reserved(target: str) -> bool:
    return target.strip().casefold() == TARGET


def _has_frontends(host: Host) -> bool:
    return "frontends" in vars(host)
