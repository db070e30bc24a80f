"""Every text that a cell puts out becomes a message: characters that UTF-8 has no bytes for are replaced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_client.jsonutil import json_clean, json_default

if TYPE_CHECKING:
    from collections.abc import Callable

    Pack = Callable[[Any], bytes]


def whole(pack: Pack) -> Pack:
    """Return ``pack`` (a session's) as it is, save for lone surrogates, which become question marks.

    With them jupyter_client's own raises (the output is lost, and for a reply the client waits for good), or
    writes a byte that is no UTF-8: the undecodable names of files. A strict reader takes neither.
    """

    def packed(value: Any) -> bytes:  # noqa: ANN401 - whatever JSON can hold
        try:
            data = pack(value)
        except UnicodeEncodeError:
            text = json.dumps(json_clean(value), default=json_default, ensure_ascii=False, allow_nan=False)
            return text.encode("utf-8", "replace")
        if not data.isascii():
            try:
                str(data, "utf-8")
            except UnicodeDecodeError:
                return str(data, "utf-8", "surrogateescape").encode("utf-8", "replace")
        return data

    return packed
