"""Reading a stack that faulthandler wrote in the worker: which line of a cell made a call, and through which library.

What is read here was written by hostile code's process: it is bounded, parsed strictly, and only ever displayed.
"""

from __future__ import annotations

from sentinel_kernel.policy.cell_lines import is_cell_file
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.cell_lines import CellNames

MAXIMUM_BYTES = 32768
_FRAMES = 100  # faulthandler writes no more
_HIGHEST_LINE = 1_000_000
_FUNCTION_CHARACTERS = 100
_FILE_CHARACTERS = 200
_HEADER = b" (most recent call first):"
_CUT = "  ..."
_FATAL = b"Fatal Python error: "
_THREADS = 64
_CELL_LEVEL = "<module>"
# Where Python and its libraries are: what comes behind it is how people name a module's file.
_LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/")
_STANDARD_FOLDER = "/python3."
_SHOWN_PARTS = 2


_ROUND = 8
"""So many functions may call each other in turn."""


class Frame(Record):
    """One frame of a stack, as faulthandler names it."""

    file: str
    line: int
    function: str


class Place(Record):
    """Where a call came from.

    ``cell`` is the ``msg_id`` of the cell that ``line`` is of; empty: the running one. ``library`` is the innermost
    frame, where that is no cell's. ``sure`` is False where the line may be another one.
    """

    cell: str = ""
    line: int | None = None
    function: str | None = None
    library: Frame | None = None
    sure: bool = True


def parse_stack(dump: bytes) -> tuple[Frame, ...]:
    """Return the frames of the last stack in ``dump``, innermost first; none where it is not one."""
    parts = dump[-MAXIMUM_BYTES:].split(_HEADER)[1:]
    # Python 3.14 writes a stack of C behind that of Python, which has no frame that is one here.
    return next((frames for part in reversed(parts[-_THREADS:]) if (frames := _frames(part))), ())


def parse_stacks(dump: bytes) -> tuple[tuple[Frame, ...], ...]:
    """Return the stacks of all threads in ``dump``, each of which has a header of its own."""
    return tuple(map(_frames, dump[-MAXIMUM_BYTES:].split(_HEADER)[1 : _THREADS + 1]))


def parse_crash(dump: bytes) -> tuple[Frame, ...]:
    """Return the frames that a dying process wrote last (faulthandler.enable), none where it wrote none."""
    _, found, rest = dump.rpartition(_FATAL)
    parts = rest.split(_HEADER, 2) if found else []
    return _frames(parts[1]) if len(parts) > 1 else ()


def is_recursion(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack that was cut for its length goes round in a few functions: it had no end."""
    return _is_cut(frames) and len({(frame.file, frame.function) for frame in frames}) <= _ROUND


def is_whole(dump: bytes) -> bool:
    """Tell whether ``dump`` ends as the stack of a thread does, so that nothing is missing."""
    text = dump[-2000:].rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    if not dump.endswith(b"\n") or text == _CUT:
        return text == _CUT
    last = _frame(text)
    if last is None:
        return False
    return _is_main((last,)) or (last.function == "_bootstrap" and last.file.endswith("/threading.py"))


def is_whole_of_all(dump: bytes) -> bool:
    """Tell whether ``dump`` ends as the stacks of all threads do: the main thread, which was the first, is the last."""
    last = _frame(dump[-2000:].rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace"))
    return dump.endswith(b"\n") and last is not None and _is_main((last,))


def place_of(frames: Sequence[Frame], names: CellNames, *, whole: bool = True) -> Place | None:
    """Return where the call of a stack came from; None for no stack. Not ``whole``: its outer frames may be missing.

    The innermost line of a running cell, also where that calls a function of an earlier one. In a thread that runs
    nothing of one: the innermost line of the last of the earlier cells.
    """
    if not frames:
        return None
    library = _library(frames[0])
    found = [(frame, line) for frame in frames if (line := names.find(frame.file, frame.line)) is not None]
    found = [pair for pair in found if pair[1].running] or found
    if not whole and found and not found[0][1].running:
        return Place(library=library)  # the running cell may have called the earlier one's function
    running = _running_frame(frames, names)
    if found and (running is None or found[0][1].running):
        frame, line = max(
            found, key=lambda pair: pair[1].number
        )  # of equals the first, which is the innermost
        cell = "" if line.running and line.cell == names.newest_running() else line.cell
        function = _CELL_LEVEL if frame.file.startswith("<") else frame.function
        return Place(cell, line.line, function, library, line.sure)
    if running is None:
        return Place(library=library)
    return Place("", running.line, running.function, library)


def only_place(
    stacks: Sequence[Sequence[Frame]], names: CellNames, *, main: bool | None = None
) -> Place | None:
    """Return the place in the one of ``stacks`` that runs a cell; None where there are several, or none.

    ``main``: only the main thread's stack, or only others, can be the one.
    """
    asked = [
        stack for stack in stacks if stack and (main is None or _is_cut(stack) or main is _is_main(stack))
    ]
    places = [place for stack in asked if (place := place_of(stack, names)) is not None and place.line]
    return places[0] if len(places) == 1 else None


def readable_file(file: str) -> str:
    """Return a module's file as people name it: ``requests/adapters.py``."""
    for folder in _LIBRARY_FOLDERS:
        if folder in file:
            return file.rpartition(folder)[2][-_FILE_CHARACTERS:]
    if _STANDARD_FOLDER in file:
        return file.rpartition(_STANDARD_FOLDER)[2].partition("/")[2][-_FILE_CHARACTERS:]
    return "/".join(file.split("/")[-_SHOWN_PARTS:])[-_FILE_CHARACTERS:]


def _is_main(frames: Sequence[Frame]) -> bool:
    """Tell whether a stack is the main thread's: what the supervisor starts is no file (supervisor/worker_link.py)."""
    return frames[-1].file == "<string>" and frames[-1].function == _CELL_LEVEL and frames[-1].line == 1


def _is_cut(frames: Sequence[Frame]) -> bool:
    return len(frames) >= _FRAMES


def _running_frame(frames: Sequence[Frame], names: CellNames) -> Frame | None:
    """Return the innermost frame of the running cell where its name is not known: of a very long one, or a renamed one.

    The running cell is the one whose own level is at the bottom. In another thread there is none, and the lines of an
    earlier cell would be taken for the running one's.
    """
    cells = [frame for frame in frames if is_cell_file(frame.file)]
    if not cells or cells[-1].function != _CELL_LEVEL or names.find(cells[-1].file, cells[-1].line):
        return None
    running = cells[-1].file
    return next(frame for frame in cells if frame.file == running)


def _library(frame: Frame) -> Frame | None:
    """Return the frame in which a call was made as it is shown, where it is in a file that is no cell's."""
    if is_cell_file(frame.file) or (frame.file.startswith("<") and not frame.file.startswith("<frozen ")):
        return None
    return Frame(readable_file(frame.file), frame.line, frame.function)


def _frames(rest: bytes) -> tuple[Frame, ...]:
    frames = []
    for text in rest.split(b"\n", _FRAMES + 1)[1 : _FRAMES + 1]:
        frame = _frame(text.decode("utf-8", "replace"))
        if frame is None:
            break
        frames.append(frame)
    return tuple(frames)


def _frame(text: str) -> Frame | None:
    """Return the frame in one line: ``  File "NAME", line NUMBER in FUNCTION``."""
    if not text.startswith('  File "'):
        return None
    file, found, rest = text[8:].partition('", line ')
    number, also, function = rest.partition(" in ")
    if (
        not found
        or not also
        or not number.isascii()
        or not number.isdigit()
        or len(number) > len(str(_HIGHEST_LINE))
    ):
        return None
    line = int(number)
    return Frame(file, line, function[:_FUNCTION_CHARACTERS]) if 0 < line <= _HIGHEST_LINE else None
