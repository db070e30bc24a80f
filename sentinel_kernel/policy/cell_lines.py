"""Which cell a file name of a stack stands for, and which line of that cell as it was typed.

ipykernel compiles each cell under a file name that is made of its source (ipykernel.compiler.get_file_name), so that
who knows the source knows the name. IPython changes the source first; what that does to the numbers of lines is undone.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from sentinel_kernel.record import MutableRecord, Record

MOST_CELLS = 256
MOST_CHARACTERS = 1 << 20
"""So many cells are remembered, and so much of their sources in all; older ones are forgotten first."""

MOST_CONTINUED = 4096
"""So many lines of a cell that end with a backslash are looked at."""

_SEED = 0xC70F6907  # ipykernel.compiler.get_tmp_hash_seed
_FACTOR = 0x5BD1E995
_WORD = 0xFFFFFFFF
_CELLS = "/ipykernel_"
_SUFFIX = ".py"
# %%time, %%timeit: what they run is compiled under such a name, numbered from the line below the magic.
_BODY_FILES = frozenset({"<timed exec>", "<timed eval>", "<magic-timeit>"})
_ESCAPED = r"\s*(?:[%!]|[^\W\d][\w., \[\]*]*=\s*[%!])"
_CELL_MAGIC = "%%"
_OWN_MAGICS = "%sentinel_"
_NO_NAME = "-"


class CellLine(Record):
    """A line of a cell: the cell's ``msg_id`` and number (later cells have higher ones), and the line as typed.

    ``running``: the cell runs now. ``sure``: no line above it makes its number a guess.
    """

    cell: str
    number: int
    line: int
    running: bool
    sure: bool


class _Cell(MutableRecord):
    msg_id: str
    number: int
    code: str
    lines: int
    name: str = ""
    """The file name that it is compiled under; empty until it was wanted."""
    body_name: str = ""
    """The same of what is below its cell magic, which some run as a cell of its own."""
    magic: int = -1
    """The line of its cell magic, 0 where it has none; -1 until it was wanted."""
    whole: _Lines | None = None
    below: _Lines | None = None
    """Its lines, and those of what is below its cell magic, once they were wanted."""

    def magic_line(self) -> int:
        """Return the line of its cell magic; 0: it has none."""
        if self.magic < 0:
            self.magic = _magic_line(self.code)
        return self.magic

    def typed(self, line: int, *, below: bool) -> tuple[int, bool]:
        """Return the typed line of a compiled one, of the whole cell or of what is below its magic."""
        if not below:
            self.whole = self.whole or _Lines(self.code)
            return self.whole.typed(line)
        self.below = self.below or _Lines(_body(self.code))
        typed, sure = self.below.typed(line)
        return self.magic_line() + typed, sure


class CellNames:
    """The cells of a worker, found by the names of their files."""

    def __init__(self) -> None:
        """Know no cell."""
        self._cells: dict[str, _Cell] = {}
        self._characters = 0
        self._running: dict[str, None] = {}
        self._number = 0

    def begin(self, msg_id: str, code: str, name: str = "", lines: int = 0) -> None:
        """Take note of a cell that begins.

        Where ``code`` is but the beginning of a long one, ``name`` is that of its file, and ``lines`` their number.
        """
        self._forget(msg_id)
        self._number += 1
        lines = max(lines, code.count("\n") + 1)
        self._cells[msg_id] = _Cell(msg_id, self._number, code, lines, name, _NO_NAME if name else "")
        self._running[msg_id] = None
        self._characters += len(code)
        while len(self._cells) > MOST_CELLS or (self._characters > MOST_CHARACTERS and len(self._cells) > 1):
            self._forget(next(iter(self._cells)))

    def end(self, msg_id: str) -> None:
        """Take note that a cell has ended: from now on its lines are those of an earlier one."""
        self._running.pop(msg_id, None)

    def newest_running(self) -> str:
        """Return the cell that began last of those that run; empty where none does."""
        return next(reversed(self._running), "")

    def find(self, file: str, line: int) -> CellLine | None:
        """Return where line ``line`` of a stack's ``file`` is; None where that is no cell's, or a line it has not."""
        cell, below = self._owner(file)
        if cell is None:
            return None
        typed, sure = cell.typed(line, below=below)
        if not 0 < typed <= cell.lines:
            return None
        # Of what a cell magic does with what is below it the magic's own line may be all that is seen.
        sure = sure and (below or not cell.magic_line())
        return CellLine(cell.msg_id, cell.number, typed, cell.msg_id in self._running, sure)

    def _owner(self, file: str) -> tuple[_Cell | None, bool]:
        if file in _BODY_FILES:
            newest = self._cells.get(self.newest_running())
            return (newest, True) if newest is not None and newest.magic_line() else (None, True)
        name = _cell_name(file)
        if not name:
            return None, False
        for cell in reversed(self._cells.values()):
            # Hashed when first looked for: a cell that nothing is refused in costs nothing.
            if not cell.name:
                cell.name = file_name(cell.code)
                cell.body_name = file_name(_body(cell.code)) if cell.magic_line() else _NO_NAME
            if name in (cell.name, cell.body_name):
                return cell, name == cell.body_name
        return None, False

    def _forget(self, msg_id: str) -> None:
        cell = self._cells.pop(msg_id, None)
        if cell is not None:
            self._characters -= len(cell.code)


def is_cell_file(file: str) -> bool:
    """Tell whether ``file`` is named as the file of a cell, of any, or as what a cell magic runs."""
    return file in _BODY_FILES or bool(_cell_name(file))


def _cell_name(file: str) -> str:
    """Return the name of a cell's file without folder and suffix; empty for any other file."""
    folder, _, name = file.rpartition("/")
    number, name = folder.rpartition(_CELLS)[2], name.removesuffix(_SUFFIX)
    is_one = _CELLS in folder and number.isdigit() and name.isdigit() and file.endswith(_SUFFIX)
    return name if is_one else ""


def file_name(code: str) -> str:
    """Return the name, without folder and suffix, of the file of a cell with this source (MurmurHash2)."""
    data = code.encode("utf-8", "surrogatepass")
    whole = len(data) & ~3
    mixed = _SEED ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        part = word * _FACTOR & _WORD
        mixed = (mixed * _FACTOR & _WORD) ^ ((part ^ part >> 24) * _FACTOR & _WORD)
    rest = data[whole:]
    if rest:
        mixed = (mixed ^ int.from_bytes(rest, "little")) * _FACTOR & _WORD
    mixed = (mixed ^ mixed >> 13) * _FACTOR & _WORD
    return str(mixed ^ mixed >> 15)


class _Lines:
    """The compiled lines of one source: worked out once, since a dump of a stack asks for many of them."""

    def __init__(self, code: str) -> None:
        self._empty = _empty_lines(code)
        self._joined: list[int] = []
        """The compiled lines that were made of several typed ones, in their order."""

        self._more: list[int] = []
        """By how many typed lines those up to and with the one at the same place are more than the compiled."""

        if "\\\n" in code and ("%" in code or "!" in code):
            self._join(code)

    def typed(self, line: int) -> tuple[int, bool]:
        """Return the typed line that the compiled ``line`` begins with, and whether that is sure."""
        before = bisect_left(self._joined, line)
        return self._empty + line + (self._more[before - 1] if before else 0), not before

    def _join(self, code: str) -> None:
        """Go from one line that ends with a backslash to the next; what is between them only has to be counted."""
        import re  # noqa: PLC0415 - every start would wait for what few cells need

        escaped = re.compile(_ESCAPED)
        counted, number, more = 0, 1 - self._empty, 0
        at = code.find("\\\n")
        for _ in range(MOST_CONTINUED):
            if at < 0:
                return
            begin = code.rfind("\n", 0, at) + 1
            number += code.count("\n", counted, begin)
            counted = begin
            if escaped.match(code, begin, at + 1):
                end = at + 2
                while (stop := code.find("\n", end)) > 0 and code[stop - 1] == "\\" and stop > end:
                    end = stop + 1
                more += code.count("\n", begin, end)
                self._joined.append(number)
                self._more.append(more)
                counted, at = end, end - 1
            at = code.find("\\\n", at + 1)
        if at >= 0:  # what was not looked at makes each line below it a guess
            self._joined.append(number)
            self._more.append(more)


def typed_line(code: str, line: int) -> tuple[int, bool]:
    """Return which line of ``code`` as typed became line ``line`` of what IPython compiled, and whether that is sure.

    Empty lines at the top are left out, and an escaped command that goes on behind a backslash becomes one line.
    """
    return _Lines(code).typed(line)


def _body(code: str) -> str:
    """Return what is below a cell magic, as IPython hands it on."""
    body = "\n".join(code.split("\n")[_magic_line(code) :])
    return body if body.endswith("\n") else body + "\n"


def _magic_line(code: str) -> int:
    """Return the line (from 1) of the cell's ``%%`` magic, which the host's own may stand above; 0: it has none."""
    if code.lstrip().startswith(_CELL_MAGIC):
        return _empty_lines(code) + 1
    if code.startswith(_OWN_MAGICS) and "\n" + _CELL_MAGIC in code:
        for number, line in enumerate(code.split("\n"), 1):
            if line.startswith(_CELL_MAGIC):
                return number
            if line.strip() and not line.startswith((_OWN_MAGICS, "#")):
                break
    return 0


def _empty_lines(code: str) -> int:
    """Return how many lines without text ``code`` begins with, if text follows."""
    text = code.lstrip()
    return code[: len(code) - len(text)].count("\n") if text else 0
