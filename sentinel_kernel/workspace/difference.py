"""What of a file's change is shown to a person: text, notebook, table or picture, within the bounds of one answer.

It runs in the files process, whose memory is bounded: what it reads was written by a cell. A difference has
``form`` and the fields of that form, which are data; the host words them (kernel/files_diff.py):

- ``text``: ``lines`` of a unified diff, and how many were ``added`` and ``removed`` in all.
- ``notebook``: ``cells``, ``counts``, ``outputs``, ``metadata`` (notebook_difference.py).
- ``table``: ``columns``, ``rows``, ``examples``, ``head``, ``came``, ``went`` (table_difference.py).
- ``image``: ``before`` and ``after``: null, or ``mime``, ``width``, ``height``, and whether it can be ``shown``;
  the host fetches those by ``export``, in parts.
- ``binary`` (no text), ``large`` (longer than is read), ``same`` (equal byte for byte): no fields.

``cut`` tells that something was left out.
"""

from __future__ import annotations

from sentinel_kernel.workspace import picture
from sentinel_kernel.workspace.notebook_difference import notebook_difference
from sentinel_kernel.workspace.shown_text import Budget, decoded, unified
from sentinel_kernel.workspace.table_difference import table_difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 4 * 1024 * 1024
"""So much of a file is read, and one byte more, which tells that it is longer."""

_TEXT_CHARACTERS = 1024 * 1024
_TEXT_LINES = 100_000
_ANSWER_BYTES = 56 * 1024
"""What the texts of one difference may take as they are sent; an answer holds 100 KiB."""

_LINES = 400
_TABLES = (".csv", ".tsv")
_NOTEBOOKS = (".ipynb",)


def difference(name: str, old: bytes | None, new: bytes | None) -> dict[str, Any]:
    """Return what is shown of the change of ``name`` from ``old`` to ``new``; None: there is no file.

    Each is the file's beginning, of at most READ_BYTES + 1 bytes. Total: where memory does not suffice, the
    form is ``large``.
    """
    try:
        return _difference(name.lower(), old, new)
    except MemoryError:
        return {"form": "large", "cut": True}


def _difference(name: str, old: bytes | None, new: bytes | None) -> dict[str, Any]:
    longest = max(len(old or b""), len(new or b""))
    if old == new and longest <= READ_BYTES:
        return {"form": "same", "cut": False}
    pictures = [None if data is None else _picture(data) for data in (old, new)]
    if all(found or data is None for found, data in zip(pictures, (old, new), strict=True)):
        return {"form": "image", "before": pictures[0], "after": pictures[1], "cut": False}
    if longest > READ_BYTES:
        return {"form": "large", "cut": True}
    budget = Budget(_ANSWER_BYTES, _LINES)
    told = notebook_difference(old, new, budget) if name.endswith(_NOTEBOOKS) else None
    if told is not None:
        return {"form": "notebook", **told, "cut": budget.cut}
    return _of_texts(name, old, new, budget)


def _of_texts(name: str, old: bytes | None, new: bytes | None, budget: Budget) -> dict[str, Any]:
    texts = [None if data is None else decoded(data) for data in (old, new)]
    if any(text is None and data is not None for text, data in zip(texts, (old, new), strict=True)):
        return {"form": "binary", "cut": True}
    told = table_difference(texts[0], texts[1], budget) if name.endswith(_TABLES) else None
    if told is not None:
        return {"form": "table", **told, "cut": budget.cut}
    before, after = texts[0] or "", texts[1] or ""
    if any(len(text) > _TEXT_CHARACTERS or text.count("\n") > _TEXT_LINES for text in (before, after)):
        return {"form": "large", "cut": True}
    lines, added, removed = unified(before, after, budget)
    return {"form": "text", "lines": lines, "added": added, "removed": removed, "cut": budget.cut}


def _picture(data: bytes) -> dict[str, Any] | None:
    found = picture.read_picture(data)
    if found is None:
        return None
    shown = found.drawable and len(data) <= picture.MOST_BYTES
    return {"mime": found.mime, "width": found.width, "height": found.height, "shown": shown}
