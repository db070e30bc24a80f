"""The corpus of programs that a sandbox refuses, limits or ends, and of programs that fail for reasons of their own.

A file in ``programs/`` holds cells as a notebook holds them. Each begins with ``=== name``, then come lines
``key: value`` (what must be said of it), then ``---`` and the cell. ``# <-`` ends each line that may be named as the
one that did it; it is taken off before the cell runs. ``{outside}`` and ``{home}`` stand for folders of the host,
``{nr:mount}`` for the number of a system call on this machine.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from sentinel_kernel.abi.architecture import architecture_of

FOLDER = Path(__file__).parent / "programs"
OWN = "own_failures"
"""The file of programs whose failures nobody may blame on the sandbox."""
MARK = "# <-"


@dataclass(frozen=True)
class Program:
    """One cell, and what must be said of it."""

    name: str
    group: str
    """The file that it stands in."""
    code: str
    lines: tuple[int, ...]
    """The lines of the cell that may be named, counted from one."""
    profile: str = "strict"
    kernel: str = ""
    """Which kernel runs it, where that is not simply the profile's: "packages", "home", or "outside": near hosts."""
    limits: str = ""
    """What `%sentinel_limit` is given before."""
    setup: str = ""
    """A cell that runs before, one line for each ``setup`` key."""
    cause: tuple[str, ...] = ()
    """Names of causes, any of which a person would call right."""
    also: tuple[str, ...] = ()
    """Causes of further records that are true as well, and not what the program stands for."""
    rule: tuple[str, ...] = ()
    """Call, limit or words of the rule, any of which must be named; none: the cause says all."""
    where: str = "main"
    """main, thread, child, swallowed or library."""
    line_known: str = "yes"
    """yes; likely: a confidence below certain excuses another line or none; no: nobody could tell a line."""
    error: str = ""
    """For failures of one's own: the error as plain Python words it, ``ename: evalue``; "..." is any end."""
    result: str = ""
    """What is printed only where the program has done its work."""
    none: str = ""
    """Why no remedy can exist up to the ceiling."""
    fix: str = ""
    """A line on top of the cell that is known to help: it proves that the program can work."""
    after: str = ""
    """reset: what it leaves behind only a fresh sandbox clears away."""

    @property
    def owned(self) -> bool:
        """Tell whether the failure is the program's own."""
        return self.group == OWN


def programs() -> list[Program]:
    """Return every program of every file, in their order."""
    found = [program for path in sorted(FOLDER.glob("*.cells")) for program in _read(path)]
    names = [program.name for program in found]
    assert len(names) == len(set(names)), "two programs of one name"
    return found


def _read(path: Path) -> list[Program]:
    numbers = architecture_of(platform.machine()).syscalls
    text = "\n" + path.read_text(encoding="utf-8")
    text = re.sub(r"\{nr:(\w+)\}", lambda found: str(numbers[found[1]]), text)
    return [_parse(path.stem, part) for part in text.split("\n=== ")[1:]]


def _parse(group: str, text: str) -> Program:
    head, _, code = text.partition("\n---\n")
    name, *pairs = head.splitlines()
    values: dict[str, list[str]] = {}
    for pair in filter(None, pairs):
        key, colon, value = pair.partition(": ")
        assert colon, f"{name}: {pair!r} is no pair"
        values.setdefault(key, []).append(value)
    plain, lines = _unmarked(code.rstrip("\n"))
    lists = {key: tuple(" ".join(values.pop(key, [])).split(" | ")) for key in ("cause", "also", "rule")}
    return Program(
        name=name.strip(),
        group=group,
        code=plain,
        lines=lines,
        **{key: tuple(filter(None, found)) for key, found in lists.items()},
        **{key: "\n".join(found) for key, found in values.items()},
    )


def _unmarked(code: str) -> tuple[str, tuple[int, ...]]:
    """Return the cell without marks, and the numbers of the lines that had one."""
    lines = code.split("\n")
    marked = tuple(number for number, line in enumerate(lines, 1) if line.endswith(MARK))
    return "\n".join(line.removesuffix(MARK).rstrip() if MARK in line else line for line in lines), marked
