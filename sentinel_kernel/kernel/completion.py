"""Tab behind a host magic: the profiles' names, the options. What is not about a leading line is the worker's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.files_arguments import OPTIONS
from sentinel_kernel.kernel.wire import CONTENT
from sentinel_kernel.worker.leading_block import parse_leading_block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json

_MARK = b"%sentinel_"
_LINE = re.compile(r"[ \t]*%(sentinel_(?:discard|files|profile|status|violations))[ \t]+(?:\S+[ \t]+)*?(\S*)")
_OPTIONS = {**OPTIONS, "sentinel_status": ["--live"], "sentinel_violations": ["--json", "--last"]}


def complete(request: Request, profiles: Callable[[], Sequence[str]]) -> Json | None:
    """Return the answer to a ``complete_request`` behind a leading magic that takes an argument, else None.

    ``profiles`` returns the names that a cell may switch to. Raises ProtocolError for an unreadable content.
    """
    if _MARK not in bytes(request.parts[CONTENT]):
        return None
    content = request.content()
    code, cursor = content.get("code"), content.get("cursor_pos")
    if not isinstance(code, str) or not isinstance(cursor, int):
        return None
    typed_so_far = code[:cursor]
    matched = _LINE.fullmatch(typed_so_far.rpartition("\n")[2])
    leading = parse_leading_block(typed_so_far).lines
    if matched is None or not leading or leading[-1].line_number != typed_so_far.count("\n") + 1:
        return None
    typed = matched[2]
    if matched[1] in OPTIONS and not typed.startswith("-"):
        return None  # a path, which the worker knows
    known = profiles() if matched[1] == "sentinel_profile" else _OPTIONS[matched[1]]
    return {
        "status": "ok",
        "matches": [name for name in known if name.startswith(typed)],
        "cursor_start": cursor - len(typed),
        "cursor_end": cursor,
        "metadata": {},
    }
