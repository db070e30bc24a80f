"""Where a hidden path is seen once its folder is shown: the folder to type, the path inside, the cell that reads it."""

from __future__ import annotations

import os.path
import re

from sentinel_kernel.policy.cell_source import CellSource
from sentinel_kernel.policy.host_commands import HOMES, is_folder, is_secret
from sentinel_kernel.policy.repair_paths import redirected_reads
from sentinel_kernel.policy.shown_folder import PLACE, name_for
from sentinel_kernel.policy.violation import Remedy, Text
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation

SHOW = Text(
    "You are asked whether cells may read the folder. It holds until the sandbox ends; the variables stay.",
    "系统会询问您是否允许单元格读取该文件夹。在沙箱结束前有效；变量会保留。",
)
SHOWN = Text(
    "The folder is shown to cells already, at that place.",
    "该文件夹已向单元格显示，位于该位置。",
)
_TYPED = re.compile(r"/[A-Za-z0-9_./+@=,:-]{1,150}", re.ASCII)
"""A path that can be typed without quotes, and stand between backquotes."""


class Showing(Record):
    """``folder`` is the host's, as it may be typed; ``inside`` is where cells then see what they asked for."""

    folder: str
    inside: str
    mounted: bool
    """Whether the folder is shown already."""
    code: str
    """The changed cell."""


def showing_of(violation: Violation, code: str | None, leeway: Leeway) -> Showing | None:
    """Return how a hidden path that a cell names is seen inside; None where its folder is better not named.

    As for a copy: only what stands in the source is taken, no secret, no home and nothing that needs quotes. What is
    not shown yet takes a person's yes.
    """
    subject = violation.subject
    if violation.cause != "path_hidden" or subject is None or not code or is_secret(subject.text):
        return None
    cell = CellSource(code)
    read = redirected_reads(cell, violation, leeway, "")
    if read is None:
        return None
    path = read[0]
    for outside, target in leeway.shown:
        if path == outside or path.startswith(outside.rstrip("/") + "/"):
            inside = os.path.normpath(f"{target}/{path[len(outside.rstrip('/')) :]}")
            return _made(cell, violation, leeway, outside, inside)
    if not leeway.asks or leeway.rung != "full":
        return None
    folder = path if is_folder(cell, violation, path) else os.path.dirname(path)
    if not _TYPED.fullmatch(folder) or HOMES.fullmatch(folder):
        return None
    taken = [target.removeprefix(f"{PLACE}/") for _, target in leeway.shown]
    inside = os.path.normpath(f"{PLACE}/{name_for(folder, taken)}/{path[len(folder) :]}")
    return _made(cell, violation, leeway, folder, inside, f"%sentinel_mount {folder}")


def shown_read_only(violation: Violation, leeway: Leeway) -> dict[str, str]:
    """Return what words say of a path below a folder that is shown read-only for now: how it can be written, or where.

    A folder that the profile wants written is, once the person has agreed; by the profile alone it is read.
    """
    subject = violation.subject
    if violation.cause != "path_read_only" or subject is None:
        return {}
    path = os.path.normpath(subject.text)
    for outside, place in leeway.asked:
        if path == outside or path.startswith(f"{outside}/"):
            return {} if place == outside else _consent(outside, place, leeway)
    for outside, target in leeway.shown:
        if path != target and not path.startswith(f"{target}/"):
            continue
        if outside in dict(leeway.asked):
            return _consent(outside, dict(leeway.asked)[outside], leeway)
        written = next((place for folder, place in leeway.shown if folder == outside and place != target), "")
        if written:
            return {"does": "written", "inside": written}
        does = "shown" if leeway.asks else "unasked"
        return {"does": does, "folder": outside} if _TYPED.fullmatch(outside) else {}
    return {}


def _consent(folder: str, place: str, leeway: Leeway) -> dict[str, str]:
    """Return what words say of a folder that the profile wants written, seen where it can only be read."""
    if place:
        return {"does": "written", "inside": place}
    named = {"folder": folder} if _TYPED.fullmatch(folder) else {}
    return {"does": "consent" if leeway.asks else "unagreed", **named}


def showing_remedies(violation: Violation, code: str | None, leeway: Leeway) -> list[Remedy]:
    """Return the cell that reads the path where it is shown, with the line that has it shown on top where it is not."""
    showing = showing_of(violation, code, leeway)
    if showing is None:
        return []
    if showing.mounted:
        return [Remedy("code", f"Read {showing.inside}", SHOWN, showing.code)]
    if (code or "").lstrip().startswith("%%"):
        return []
    return [Remedy("code", f"%sentinel_mount {showing.folder}", SHOW, showing.code)]


def _made(
    cell: CellSource, violation: Violation, leeway: Leeway, folder: str, inside: str, line: str = ""
) -> Showing | None:
    if not _TYPED.fullmatch(inside):
        return None
    changed = redirected_reads(cell, violation, leeway, inside)
    if changed is None:
        return None
    text = changed[1]
    if line and line not in map(str.strip, text.split("\n")):
        text = f"{line}\n{text}"
    return Showing(folder, inside, not line, text)
