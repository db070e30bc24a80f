"""Reads what a client names to be run or looked at: a notebook or a Python file in the workspace, or a document."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.linux.files import open_without_links
from sentinel_kernel.record import Record

MAXIMUM_BYTES = 16 << 20
MAXIMUM_CELLS = 500
_SUFFIXES = (".ipynb", ".py")
_FORMAT = 4
_MOST_FORMATS = 100


class CodeCell(Record):
    """One cell of code, counted as `sentinel-kernel scan` does: ``number`` among the code cells, from 1.

    ``notebook_cell`` is its place among all cells of the notebook, from 1; None where there is no notebook.
    """

    code: str
    number: int = 1
    notebook_cell: int | None = None


def read_cells(workspace: str, path: str | None, document: object) -> list[CodeCell]:
    """Return each code cell that is not empty.

    ``path`` is relative to the workspace or inside it; ``document`` is a notebook's JSON, as a value or as text.

    Raises:
        SentinelError: neither or both are given, or it can't be read.

    """
    if (path is None) == (document is None):
        raise SentinelError("Give either 'path' or 'document'.")
    if path is not None:
        text = _read(workspace, path)
        if path.endswith(".py"):
            return [CodeCell(text)]
        return _cells(_parsed(text, path), path)
    if isinstance(document, str):
        document = _parsed(document, "document")
    return _cells(document, "document")


def _read(workspace: str, path: str) -> str:
    """Return the text of a file in the workspace; no other file of the person's is read for a client.

    Links are followed by name first, and what they lead to is then opened through none: a cell that changes a folder of
    the workspace meanwhile (``%sentinel_mount DIR rw``) leads nowhere else.
    """
    if "\0" in path or not _is_text(path):
        raise SentinelError(f"{path!r} is no path.", "Name a file in the workspace, relative to it.")
    root = os.path.realpath(workspace)
    try:
        place = os.path.realpath(os.path.join(root, path))
    except OSError as error:  # a link that is none any more by the time that it is read
        raise SentinelError(f"{path!r} can't be read: {error.strerror}.") from None
    if os.path.commonpath([root, place]) != root:
        raise SentinelError(
            f"{path!r} is not in the workspace {root}.", "Name a file in it, relative to the workspace."
        )
    if not place.endswith(_SUFFIXES):
        raise SentinelError(f"{path!r} is neither a notebook (.ipynb) nor a Python file (.py).")
    try:
        descriptor = _open_below(root, os.path.relpath(place, root))
        try:
            with open(descriptor, "rb", closefd=False) as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise SentinelError(f"{path!r} is no regular file.")
                raw = file.read(MAXIMUM_BYTES + 1)
        finally:
            os.close(descriptor)  # open() takes no descriptor of a folder, and leaves it open
    except OSError as error:
        # Its own text names the system call.
        raise SentinelError(f"{path!r} can't be read: {os.strerror(error.errno or 0)}.") from None
    if len(raw) > MAXIMUM_BYTES:
        raise SentinelError(f"{path!r} is longer than {MAXIMUM_BYTES >> 20} MiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SentinelError(f"{path!r} is not UTF-8 (byte {error.start}).", "Save it as UTF-8.") from None


def _open_below(root: str, path: str) -> int:
    """Open ``path``, which leads through no link, below the folder ``root``.

    Raises:
        OSError: it can't be opened, or leads through a link by now (ELOOP).

    """
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return open_without_links(folder, path, os.O_RDONLY | os.O_NONBLOCK)
    finally:
        os.close(folder)


def _is_text(value: str) -> bool:
    """Tell whether a string can be written as UTF-8: JSON can name halves of characters."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parsed(text: str, name: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SentinelError(
            f"{name!r} is no notebook: it is not JSON ({error}).", "Save it again in Jupyter."
        ) from None
    return value


def _cells(document: Any, name: str) -> list[CodeCell]:  # noqa: ANN401 - any JSON value
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise SentinelError(
            f"{name!r} is no notebook of format {_FORMAT}: it has no list of cells.",
            "Convert an older one with: jupyter nbconvert --to notebook.",
        )
    found = document.get("nbformat", _FORMAT)
    if found != _FORMAT:
        # The notebook's author gets no words of their own into what the server says: a small number, or none.
        is_number = type(found) is int and abs(found) < _MOST_FORMATS
        told = f"the notebook format {found}" if is_number else "a notebook format that is no number"
        raise SentinelError(
            f"{name!r} has {told}, and only {_FORMAT} is known.",
            "Convert it with: jupyter nbconvert --to notebook.",
        )
    cells: list[CodeCell] = []
    count = 0
    for number, cell in enumerate(document["cells"], start=1):
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise SentinelError(f"Cell {number} of {name!r} has no source.")
        if not _is_text(source):
            raise SentinelError(f"Cell {number} of {name!r} is not UTF-8.", "Save it as UTF-8.")
        if cell.get("cell_type") == "code":
            count += 1
            if source.strip():
                cells.append(CodeCell(source, count, number))
    if len(cells) > MAXIMUM_CELLS:
        raise SentinelError(f"{name!r} has {len(cells)} code cells, more than {MAXIMUM_CELLS}.")
    return cells
