"""What the supervisor is told of a cell as it begins and ends, for the audit and for who watches the sandbox."""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.wire import CONTENT, METADATA, decode, text_of

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.wire import Json, Part

CODE_BYTES = 32 * 1024
"""So much of a cell's source is kept; the hash is of the whole."""

_NAMED_CHARACTERS = 1 << 20
"""What is longer has no name in stacks: finding that would take a tenth of a second."""

_NAME_CHARACTERS = 200
_METADATA_BYTES = 256 * 1024
_ERROR_BYTES = 4 * 1024 * 1024


def begin_fields(cell: Cell) -> Json:
    """Return the fields of OP_BEGIN_CELL."""
    source = cell.code.encode("utf-8", "surrogatepass")
    code = _cut(cell.code, source)
    return {
        "msg_id": cell.request.msg_id[:_NAME_CHARACTERS],
        "cell_id": _cell_id(cell),
        "code": code,
        "file": _file(cell.code) if len(code) < len(cell.code) else "",
        "code_sha256": hashlib.sha256(source).hexdigest(),
        "lines": cell.code.count("\n") + 1,
        "silent": cell.silent,
        "store_history": cell.store_history,
        **({"dry_run": True} if cell.dry_run is not None else {}),
    }


def end_fields(cell: Cell) -> Json:
    """Return the fields of OP_END_CELL: what the worker itself said of the cell's end.

    Its reply decides where there is one: not every error is shown as one (IPython prints those of its magics), and one
    that is shown may have been caught.
    """
    status = cell.status or ("error" if cell.ename else "ok")
    return {
        "msg_id": cell.request.msg_id[:_NAME_CHARACTERS],
        "status": status,
        "ename": "" if status == "ok" else cell.ename,
        "execution_count": cell.execution_count,
        "explained": cell.explained,
    }


def error_name(parts: list[Part]) -> str:
    """Return the class of the exception in an ``error`` message."""
    with contextlib.suppress(ProtocolError):
        return text_of(decode(parts[CONTENT], _ERROR_BYTES), "ename")[:_NAME_CHARACTERS] or "error"
    return "error"


def take_reply(cell: Cell, content: Json) -> None:
    """Take from a reply's ``content`` how ``cell`` ended; what the protocol does not know counts as an error."""
    status = content.get("status")
    cell.status = status if status in ("ok", "aborted") else "error"
    if cell.status == "error":
        cell.ename = text_of(content, "ename")[:_NAME_CHARACTERS] or cell.ename or "error"


def words_fields(violation: Json) -> Json:
    """Return the fields of OP_WORDS for a violation that was completed with its words."""
    message, hint = violation.get("message") or {}, violation.get("hint") or {}
    remedies = [str(remedy.get("text")) for remedy in violation.get("remedies") or () if remedy]
    return {
        "violation": violation.get("id"),
        "semantic_msg": message.get("en"),
        "semantic_msg_zh": message.get("zh"),
        "hint": hint.get("en"),
        "hint_zh": hint.get("zh"),
        "remedy": "; ".join(remedies),
    }


def _file(code: str) -> str:
    """Return the name that a long cell's file has in stacks: who has but its beginning can't tell."""
    from sentinel_kernel.policy.cell_lines import file_name  # noqa: PLC0415 - not on the start path

    return file_name(code) if len(code) <= _NAMED_CHARACTERS else ""


def _cell_id(cell: Cell) -> str | None:
    """Return the notebook's id of the cell, which JupyterLab and others send with the request."""
    with contextlib.suppress(ProtocolError):
        metadata = decode(cell.request.parts[METADATA], _METADATA_BYTES)
        for name in ("cellId", "cell_id"):
            if isinstance(metadata.get(name), str):
                return str(metadata[name])[:_NAME_CHARACTERS]
    return None


def _cut(code: str, source: bytes) -> str:
    """Return as much of the source as a packet has room for: escaped, one byte can become six."""
    cut = code if len(source) <= CODE_BYTES else source[:CODE_BYTES].decode("utf-8", "ignore")
    while len(json.dumps(cut)) > 2 * CODE_BYTES:
        cut = cut[: len(cut) * 3 // 4]
    return cut
