"""The files requests and their answers: read strictly, answered in bounded parts; pure.

A request is ``{"op": "files", "id": n, "do": WORD, ...}`` with these fields, all but ``do`` optional:

- ``do``: ``list``, ``diff``, ``commit``, ``discard``, ``undo``, ``export``, ``count``, ``trial_begin`` or
  ``trial_end`` (the two ends of a dry run, workspace/trial.py).
- ``paths``: at most 100 texts; a path or a glob (``*``, ``?``, ``[...]`` within a name, ``**`` for any folders),
  relative to the workspace or absolute. A folder means all that is in it. None: everything.
- ``page``: from 0; a page of ``list`` holds 200 entries at most, one of ``diff`` what fits a packet.
- ``answers``: ``{"overwrite": bool, "delete": bool, "dangerous": bool, "conflict": bool, "new": bool}``: what the
  person said yes to.
- ``ask_new``: of ``commit``: new files that need no other yes need one (``new``) though they are ``autocommit``, as
  those that are not need it always.
- ``seen``: that of the answer that asked; where what needs a yes is another by now, it is asked anew.
- ``offset``: of ``export``, in bytes; ``side``: ``after`` (the cell's file, the default) or ``before`` (the host's).

An answer is an event ``reply`` with the request's ``id``. Where it failed: ``{"ok": false, "code": CODE,
"message": TEXT}``; the text is technical, the host words the code (:data:`CODES`). Else ``"ok": true`` and:

- ``list``: ``{"entries": [ENTRY...], "page", "pages", "count", "bytes", "conflicts", "left_out"}``. An entry has
  ``path`` (relative to its layer; a name that is no UTF-8 with surrogates), ``layer``, ``folder`` (the layer's,
  on the host), ``kind`` (``new``, ``changed``, ``deleted``, ``renamed``, ``mode``, ``special``), ``is_folder``,
  ``size`` and ``host_size`` in bytes (-1: none), ``mtime_ns``, ``conflict``, ``committable`` (empty, or why it
  needs a question of its own or can't be), ``autocommit``, ``binary``. ``left_out`` counts what lies beyond the
  bounds of a walk and is in no page.
- ``diff``: ``{"diffs": [DIFF...], "page", "more"}``. A diff has ``path``, ``layer``, ``kind``, ``size``,
  ``host_size``, and the fields of workspace/difference.py (``form``, ``cut`` ...); of what is no file, ``form`` is
  ``special``. Pictures are fetched by ``export``.
  (Of a refusal ``no_such_path``, ``near``: up to 5 paths of the same names in other folders, as the person types them;
  ``settled``: of the first 5 paths that were typed, those at which the host has what cells see.)
- ``commit``: either ``{"needs": [{"what": one of ANSWERS, "paths": [<= 20], "count": n, "final": how many of them
  an undo could not bring back, "options": how many begin with ``-`` or ``~``}], "seen"}``, and nothing was done; or
  ``{"committed": DONE, "failed": FAILED, "beside", "aside", "held", "bytes"}``; ``aside`` counts bytecode and the like,
  which is left out unless it is named.
- ``discard``: ``{"discarded": DONE, "failed": FAILED, "held", "bytes"}``.
- ``undo``: ``{"undone": DONE, "failed": FAILED, "held", "bytes", "steps", "incomplete"}``; ``steps`` more can be taken
  back; ``incomplete``: not all that cells wrote was seen, or kept.
  Of what is in FAILED with ``former_gone`` the former version was not kept; with ``only_copy`` it may be the last
  copy of such a one; with ``put_beside`` a commit put it beside the host's.
- ``export``: ``{"path", "layer", "size", "mtime_ns", "offset", "data": base64 of at most 64 KiB, "next": offset
  or null}``; of one file.
- ``count``: ``{"held", "bytes", "conflicts", "steps"}``.
- ``trial_begin``: ``{"held", "bytes"}``; refused where what is held could not be brought back afterwards: with
  ``not_kept`` comes ``unkept``, ``{"count", "paths": [<= 20], "bytes": of the largest, "room": bytes for copies}``;
  with ``unseen`` (where nobody could look) ``unseen``, ``{"count", "paths": [<= 20]}``.
- ``trial_end``: ``{"count", "entries": [<= 200], "diffs", "more", "undone": DONE, "failed": FAILED, "held",
  "bytes"}``; entries and diffs as those of ``list`` and ``diff``, against what cells saw before the dry run.

Where a list names paths alone, and in FAILED, they are as a person types them: of the workspace relative to it, of any
other folder in full. DONE is ``{"count", "bytes", "paths": [<= 20]}``, of an undo also ``folders``: how many were taken
back with no file in them, the first of which are the last of the paths, with a slash behind. FAILED is ``{"count",
"paths": [{"path", "layer", "why": CODE}, <= 20]}``. Work that takes longer tells of itself twice a second: an event
``files`` with ``{"progress": {"for": id, "done", "of", "bytes"}}``. At a cell's end where something has changed, an
event ``files`` with the fields of :class:`CellEnd` and ``generation`` comes before the end is answered. Give a request
a deadline of an hour: a person may commit what they like, and a request that is overdue ends the supervisor.

Paths are the cell's own words: display them escaped and cut.
"""

from __future__ import annotations

import errno
import json

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.record import Record, as_dict, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

WORDS: Final = (
    "list",
    "diff",
    "commit",
    "discard",
    "undo",
    "export",
    "count",
    "trial_begin",
    "trial_end",
)
ANSWERS: Final = ("overwrite", "delete", "dangerous", "conflict", "new")
"""What a commit may need a yes for; ``conflict``: the host's file changed after the cell's write, both are kept."""

CODES: Final = (
    "malformed",
    "no_sandbox",
    "rung",
    "busy",
    "no_such_path",
    "no_such_file",
    "nothing_to_undo",
    "is_folder",
    "unreadable",
    "not_writable",
    "folder_gone",
    "no_space",
    "not_committable",
    "changed_meanwhile",
    "not_kept",
    "former_gone",
    "only_copy",
    "put_beside",
    "changed_since",
    "not_empty",
    "in_the_way",
    "disk",
    "too_many",
    "unseen",
    "writes_directly",
    "connected",
    "ended",
    "failed",
)
"""Why a request, or one path of it, failed. ``ended``: the files process was killed; what it had done stays whole."""

PAGE_ENTRIES: Final = 200
NAMED_PATHS: Final = 20
"""The most paths in one answer that only counts the rest."""
EXPORT_BYTES: Final = 64 * 1024
ANSWER_BYTES: Final = 100 * 1024
"""An answer's entries are cut at this; a packet takes 128 KiB."""
NAMED_BYTES: Final = 60 * 1024
"""All lists of paths in an answer are cut at this together: a path has 4,096 bytes, JSON makes six of a letter."""
PACKET_BYTES: Final = 120 * 1024
"""The longest packet of the files process; the host's, of 128 KiB, has some words around it."""

_CODES_OF: Final = {
    errno.ENOENT: "no_such_path",
    errno.EISDIR: "is_folder",
    errno.EACCES: "unreadable",
    errno.EPERM: "not_writable",
    errno.EROFS: "not_writable",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EINVAL: "not_committable",
    errno.ELOOP: "not_committable",
    errno.ESTALE: "changed_meanwhile",
    errno.EAGAIN: "busy",
    errno.EBUSY: "busy",
    errno.ENOTEMPTY: "not_empty",
    errno.ENOTDIR: "in_the_way",
    errno.EEXIST: "in_the_way",
    errno.EIO: "disk",
}
_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True).encode
_ENVELOPE_BYTES: Final = 512
_MOST_PATHS: Final = 100
_PATH_CHARACTERS: Final = 4096
_FIELDS: Final = frozenset(
    {"op", "id", "do", "paths", "page", "answers", "seen", "offset", "side", "ask_new"}
)
_SIDES: Final = ("after", "before")
_SEEN_CHARACTERS: Final = 64
_MOST: Final = 1 << 62


class FilesRequest(Record):
    """A request, read; the fields are those of the module's text."""

    do: str
    paths: tuple[str, ...] = ()
    page: int = 0
    answers: frozenset[str] = frozenset()
    """The names of what the person said yes to."""
    seen: str = ""
    offset: int = 0
    side: str = "after"
    ask_new: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the request's own fields, as :func:`read_request` takes them."""
        return {
            "do": self.do,
            "paths": list(self.paths),
            "page": self.page,
            "answers": dict.fromkeys(sorted(self.answers), True),
            "seen": self.seen,
            "offset": self.offset,
            "side": self.side,
            "ask_new": self.ask_new,
        }


class CellEnd(Record):
    """What a cell's end has changed of the files; paths are at most 20, the counts are of all."""

    held: int = 0
    """How many changes wait for the person."""
    bytes: int = 0
    conflicts: tuple[str, ...] = ()
    conflict_count: int = 0
    committed: tuple[str, ...] = ()
    committed_count: int = 0
    committed_bytes: int = 0
    folders: tuple[str, ...] = ()
    """New folders that were made on the host with no file in them; files tell of theirs by their paths."""
    folder_count: int = 0
    failed: tuple[dict[str, str], ...] = ()
    """New files that could not be committed by themselves and are held: path, layer, why (a code)."""
    waiting: tuple[dict[str, str], ...] = ()
    """New plain files of this cell that the profile does not let out by themselves: path, why (a code of
    policy/committable.py)."""
    waiting_count: int = 0
    steps: int = 0
    """How many cells' files can be taken back."""
    incomplete: bool = False
    """Of some files the former version could not be kept, so that undo can't bring it back."""
    first: bool = False
    """The first time that this kernel holds files."""
    risk: str = ""
    """Why what is held could not be saved if the sandbox ended now: a code, as ``no_space``; empty: it could be."""
    risk_bytes: int = 0
    """How much there is room for then."""
    leaving: tuple[str, ...] = ()
    """Saved files of earlier sandboxes (their folders) that will be dropped ``leaving_days`` from now."""
    leaving_days: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the event."""
        fields = as_dict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


class Tally(Record):
    """How many files, how many bytes, and the first of their paths."""

    count: int = 0
    bytes: int = 0
    paths: tuple[str, ...] = ()
    folders: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return DONE of the module's text."""
        done = {"count": self.count, "bytes": self.bytes, "paths": list(self.paths[:NAMED_PATHS])}
        return {**done, "folders": self.folders} if self.folders else done


class Failures(Record):
    """How many files it failed for, and the first of them with the reason's code."""

    count: int = 0
    paths: tuple[tuple[str, str, str], ...] = fresh(default_factory=tuple)
    """(path, layer, code)."""

    def to_json(self) -> dict[str, Any]:
        """Return FAILED of the module's text."""
        named = [
            {"path": path, "layer": layer, "why": why if why in CODES else "failed"}
            for path, layer, why in self.paths[:NAMED_PATHS]
        ]
        return {"count": self.count, "paths": named}


def read_request(message: Mapping[str, Any]) -> FilesRequest:
    """Return the request that ``message`` is.

    Raises:
        ProtocolError: a field is unknown, of another kind, or out of bounds.

    """
    unknown = set(message) - _FIELDS
    if unknown:
        raise ProtocolError(f"A files request has no field {min(unknown)[:40]!r}.")
    do = message.get("do")
    if do not in WORDS:
        raise ProtocolError(f"A files request does one of {', '.join(WORDS)}.")
    answers = message.get("answers") or {}
    if not isinstance(answers, dict) or any(
        name not in ANSWERS or not isinstance(value, bool) for name, value in answers.items()
    ):
        raise ProtocolError(f"'answers' has true or false for {', '.join(ANSWERS)}.")
    seen = message.get("seen") or ""
    if not isinstance(seen, str) or len(seen) > _SEEN_CHARACTERS:
        raise ProtocolError("'seen' is the text of an earlier answer.")
    side = message.get("side") or "after"
    if side not in _SIDES:
        raise ProtocolError(f"'side' is one of {', '.join(_SIDES)}.")
    return FilesRequest(
        do=do,
        paths=_paths(message.get("paths")),
        page=_number(message, "page"),
        answers=frozenset(name for name, yes in answers.items() if yes),
        seen=seen,
        offset=_number(message, "offset"),
        side=side,
        ask_new=message.get("ask_new") is True,
    )


def code_of(error: OSError) -> str:
    """Return the code of an error of the Linux kernel."""
    return _CODES_OF.get(error.errno or 0, "failed")


def refusal(code: str, message: str = "") -> dict[str, Any]:
    """Return the fields of an answer that says no; the text is cut."""
    return {"ok": False, "code": code if code in CODES else "failed", "message": message[:200]}


def fitted(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer, or an event, that fits a packet: its lists of paths are cut, the longest first.

    What is counted stays counted. Lists of entries and differences are bounded where they are made.
    """
    made: dict[str, Any] = {}
    named: list[list[Any]] = []
    for name, value in fields.items():
        made[name] = _copied(value, named) if name not in ("entries", "diffs") else value
    sizes = [[len(_ENCODE(item)) + 1 for item in items] for items in named]
    totals = [sum(of_list) for of_list in sizes]
    room = min(NAMED_BYTES, PACKET_BYTES - len(_ENCODE(made)) + sum(totals) - _ENVELOPE_BYTES)
    while sum(totals) > room and any(named):
        longest = max(range(len(named)), key=totals.__getitem__)
        named[longest].pop()
        totals[longest] -= sizes[longest].pop()
    return made


def _copied(value: object, named: list[list[Any]]) -> object:
    """Return a copy of ``value`` whose lists of texts, or of flat objects, are its own, and in ``named``."""
    if isinstance(value, dict):
        return {name: _copied(one, named) for name, one in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if any(isinstance(one, dict) and any(isinstance(part, list) for part in one.values()) for one in value):
        return [_copied(one, named) for one in value]
    items = list(value)
    named.append(items)
    return items


def pages_of(count: int) -> int:
    """Return how many pages ``count`` entries take: one at least."""
    return max(1, -(-count // PAGE_ENTRIES))


def page_of(entries: Sequence[Any], page: int) -> Sequence[Any]:
    """Return the entries of a page, none beyond the last."""
    return entries[page * PAGE_ENTRIES : (page + 1) * PAGE_ENTRIES]


def _paths(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _MOST_PATHS:
        raise ProtocolError(f"'paths' is a list of at most {_MOST_PATHS} texts.")
    for path in value:
        if not isinstance(path, str) or not 0 < len(path) <= _PATH_CHARACTERS or "\0" in path:
            raise ProtocolError(f"A path is a text of 1 to {_PATH_CHARACTERS} characters.")
    return tuple(value)


def _number(message: Mapping[str, Any], name: str) -> int:
    value = message.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ProtocolError(f"{name!r} is a number from 0.")
    return value
