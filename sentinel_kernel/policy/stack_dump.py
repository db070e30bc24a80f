"""Reading a stack that faulthandler wrote in the worker: which line of the running cell made a call.

What is read here was written by hostile code's process: it is bounded, parsed strictly, and only ever displayed.
"""

from __future__ import annotations

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAXIMUM_BYTES = 16384
_FRAMES = 100
_HIGHEST_LINE = 1_000_000
_FUNCTION_CHARACTERS = 100
_HEADER = b"Stack (most recent call first):"
_THREAD_HEADER = b" (most recent call first):"
_THREADS = 64
# ipykernel compiles each cell under a name of its own in such a folder (ipykernel.compiler.get_tmp_directory).
_CELLS = "/ipykernel_"
_CELL_LEVEL = "<module>"


class Frame(Record):
    """One frame of a stack, as faulthandler names it."""

    file: str
    line: int
    function: str


def parse_stack(dump: bytes) -> tuple[Frame, ...]:
    """Return the frames of the last stack in ``dump``, innermost first; none where it is not one."""
    _, header, rest = dump[-MAXIMUM_BYTES:].rpartition(_HEADER)
    return _frames(rest) if header else ()


def parse_stacks(dump: bytes) -> tuple[tuple[Frame, ...], ...]:
    """Return the stacks of all threads in ``dump``, each of which has a header of its own."""
    return tuple(map(_frames, dump[-MAXIMUM_BYTES:].split(_THREAD_HEADER)[1 : _THREADS + 1]))


def only_cell_line(stacks: Sequence[Sequence[Frame]]) -> int | None:
    """Return the line of the one running cell that is on one of ``stacks``; None where there are several, or none."""
    lines = [line for stack in stacks if (line := cell_line(stack)) is not None]
    return lines[0] if len(lines) == 1 else None


def _frames(rest: bytes) -> tuple[Frame, ...]:
    frames = []
    for text in rest.decode("utf-8", "replace").split("\n")[1 : _FRAMES + 1]:
        frame = _frame(text)
        if frame is None:
            break
        frames.append(frame)
    return tuple(frames)


def cell_line(frames: Sequence[Frame]) -> int | None:
    """Return the innermost line of the running cell in a stack, or None where it can't be told.

    The running cell is the one whose own level is at the bottom; functions of earlier cells may be called from it.
    In another thread there is none, and the lines of an earlier cell would be taken for the running one's.
    """
    cells = [frame for frame in frames if _CELLS in frame.file]
    if not cells or cells[-1].function != _CELL_LEVEL:
        return None
    running = cells[-1].file
    return next(frame.line for frame in cells if frame.file == running)


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
