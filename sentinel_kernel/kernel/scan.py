"""Scans a notebook before anybody runs it: each cell by preflight, in the light of those above it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.preflight_facts import gather
from sentinel_kernel.kernel.settings import DEFAULT_PROFILE
from sentinel_kernel.policy.dangerous import DangerousNotebook
from sentinel_kernel.policy.leeway import Leeway
from sentinel_kernel.policy.preflight import Notebook
from sentinel_kernel.policy.preflight_expected import with_remedies
from sentinel_kernel.policy.preflight_unread import unread
from sentinel_kernel.policy.profile import find_profile, list_profiles, load_profile
from sentinel_kernel.record import Record
from sentinel_kernel.worker.leading_block import parse_leading_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sentinel_kernel.policy.preflight_finding import Finding

_MOST_BYTES = 64 << 20
_MOST_CELLS = 10_000
_REMEDY = "Give a notebook (.ipynb) or a Python file (.py)."


class _Code(Record):
    """One cell of code, counted as people count them: from 1, among the code cells and among all of them."""

    code: str
    number: int | None = None
    notebook_cell: int | None = None
    execution_count: int | None = None


def scan_notebook(
    notebook: str | os.PathLike[str] | Mapping[str, Any],
    profile: str = DEFAULT_PROFILE,
    *,
    dangerous: bool = False,
    directories: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the findings of a notebook, by cell and line, as they would be met in a run from top to bottom.

    ``notebook`` is the path of a .ipynb or .py file, or a notebook's document (nbformat 3 or later). ``profile`` is the
    one that it starts under: leading `%sentinel_profile` lines are followed. ``directories`` are where profiles are
    looked for before the shipped ones. Each finding is a dict: ``cell`` (the code cell, from 1) and ``notebook_cell``
    (the same among all cells, from 1), both None for a .py file, ``execution_count`` and the fields of
    policy/preflight_finding.py. A cell that can't be read has a finding of the cause ``unread``. What comes from the
    notebook is in ``source`` and ``subject`` alone, cut and escaped.

    Raises:
        SentinelError: the file can't be read or is no notebook, or there is no such profile.

    """
    folder = os.getcwd()
    if not isinstance(notebook, str | os.PathLike):
        cells = _cells(notebook)
    else:
        path = os.fspath(notebook)
        folder = os.path.dirname(os.path.realpath(path))
        text = _text(path)
        cells = [_Code(text)] if path.endswith(".py") else _cells(_document(text, path))
    reader = Notebook(gather(profile, directories, folder))
    leeway = _leeway(directories, profile, folder)
    checker = DangerousNotebook() if dangerous else None
    found: list[dict[str, Any]] = []
    for cell in cells:
        code = cell.code
        switched = _switched(code, directories)
        if switched and switched != profile:
            profile = switched
            reader.under(gather(profile, directories, folder))
        findings: Iterable[Finding] = [
            with_remedies(finding, reader.policy, code, leeway) for finding in reader.read(code)
        ]
        if (fault := unread(code, skipped=reader.skipped)) is not None:
            findings = (fault,)
        if checker is not None:
            findings = sorted((*findings, *checker.read(code)), key=lambda one: (one.line, one.column))
        found += [
            {
                "cell": cell.number,
                "notebook_cell": cell.notebook_cell,
                "execution_count": cell.execution_count,
                "profile": profile,
                **finding.as_json(),
            }
            for finding in findings
        ]
    return found


def _leeway(directories: Sequence[str], started: str, folder: str) -> Leeway:
    profiles = []
    for name in list_profiles(directories):
        try:
            profiles.append(load_profile(name, directories))
        except (SentinelError, OSError):
            continue  # a broken one can't be a remedy, and must not cost the others theirs
    return Leeway(
        profiles=tuple(profiles), started=started, workspace=folder, python=sys.executable, asks=True
    )


def _switched(code: str, directories: Sequence[str]) -> str:
    """Return the profile that the cell's leading lines change to, "" where they change to none that there is."""
    name = ""
    for line in parse_leading_block(code).lines:
        words = line.argument_text.split()
        if line.name == "sentinel_profile" and words:
            try:
                find_profile(words[0], [*directories, *_shipped()])
            except SentinelError:
                continue  # the cell would not run at all
            name = words[0]
    return name


def _shipped() -> list[str]:
    from sentinel_kernel.policy.shipped import shipped_directory  # noqa: PLC0415 - only for notebooks with magics

    return [shipped_directory("profiles")]


def _text(path: str) -> str:
    if not path.endswith((".ipynb", ".py")):
        raise SentinelError(f"{path!r} is neither a notebook nor a Python file.", _REMEDY)
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SentinelError(
            f"{path!r} can't be read: {error.strerror}.", "Check the path and its rights."
        ) from None
    if len(raw) > _MOST_BYTES:
        raise SentinelError(f"{path!r} is longer than {_MOST_BYTES} bytes.", "Clear its outputs first.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SentinelError(f"{path!r} is not UTF-8 text.", _REMEDY) from None


def _document(text: str, path: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise SentinelError(f"{path!r} is not JSON, as a notebook is.", _REMEDY) from None
    if not isinstance(document, dict):
        raise SentinelError(f"{path!r} is no notebook: it holds no object.", _REMEDY)
    return document


def _cells(document: Mapping[str, Any]) -> list[_Code]:
    """Return the code cells. Raises SentinelError where it is no notebook."""
    cells = document.get("cells")
    if cells is None and isinstance(document.get("worksheets"), list):  # nbformat 3
        sheets = [sheet for sheet in document["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets for cell in sheet.get("cells") or ()]
    if not isinstance(cells, list) or len(cells) > _MOST_CELLS:
        raise SentinelError("This is no notebook: it has no list of cells.", _REMEDY)
    found: list[_Code] = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            raise SentinelError(f"This is no notebook: cell {number} is no object.", _REMEDY)
        if cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input", ""))
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise SentinelError(f"This is no notebook: the source of cell {number} is no text.", _REMEDY)
        count = cell.get("execution_count")
        ran = count if isinstance(count, int) and not isinstance(count, bool) else None
        found.append(_Code(source, len(found) + 1, number, ran))
    return found
