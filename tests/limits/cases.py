"""The limit suite's table: which program runs under which limits, and what the notebook must say and still be able to.

Each program is a cell in ``programs/``. Before it ``kept = 41`` has run, and `%sentinel_limit` with ``limits``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One program and what it comes to."""

    program: str
    limits: str
    """What `%sentinel_limit` is given."""
    ename: str = ""
    """The error that the cell ends with; none: it ends well. SandboxDied: by the limit, and the variables are lost."""
    told: tuple[tuple[str, str], ...] = ()
    """(limit, stage) of each card that must be in the cell."""
    says: str = ""
    """Words of one of the cards, or of the error."""
    later: tuple[tuple[str, str], ...] = ()
    """Cards of this cell or the next one."""
    clean: str = ""
    """A cell that takes back what the program did to the sandbox; "reset": a fresh one."""
    bomb: bool = False

    @property
    def name(self) -> str:
        """Return what the case is called."""
        return self.program

    @property
    def survives(self) -> bool:
        """Tell whether the variables must still be there."""
        return self.ename != "SandboxDied"


_INTERRUPTED = "KeyboardInterrupt"
_REMOVE = "import os, shutil\nshutil.rmtree('/tmp/many', True)\n" + "".join(
    f"if os.path.exists({path}): os.remove({path})\n"
    for path in (
        "'/tmp/filler'",
        "'filler'",
        "'/dev/shm/filler'",
        "'/tmp/large'",
        "os.path.expanduser('~/filler')",
    )
)

CASES = (
    Case(
        "sleeper", "wall=1", _INTERRUPTED, (("wall_seconds", "interrupt"),), "ran for the 1 second", bomb=True
    ),
    Case(
        "cpu_burner",
        "cpu_seconds=1",
        _INTERRUPTED,
        (("cpu_seconds", "interrupt"),),
        "used the 1 second",
        bomb=True,
    ),
    Case("children_burn", "cpu_seconds=1", _INTERRUPTED, (("cpu_seconds", "interrupt"),)),
    Case(
        "unheard_children_burn",
        "cpu_seconds=1",
        _INTERRUPTED,
        (("cpu_seconds", "interrupt"),),
        clean="reset",
    ),
    Case(
        "short_children_burn",
        "cpu_seconds=1",
        _INTERRUPTED,
        (("cpu_seconds", "interrupt"),),
        clean="reset",
    ),
    Case(
        "deaf_children_burn",
        "cpu_seconds=1",
        _INTERRUPTED,
        (("cpu_seconds", "interrupt"),),
        clean="reset",
    ),
    Case("loop_in_c", "wall=1", "SandboxDied", (("wall_seconds", "interrupt"),), "was killed"),
    Case(
        "signal_ignorer", "wall=1", "SandboxDied", (("wall_seconds", "interrupt"),), "was killed", bomb=True
    ),
    Case(
        "interrupt_swallower",
        "cpu_seconds=60 wall=1",
        "SandboxDied",
        (("wall_seconds", "interrupt"),),
        "was killed",
    ),
    Case(
        "threads",
        "pids=8",
        "RuntimeError",
        (("pids", "refused"),),
        "of both together",
        clean="reset",
        bomb=True,
    ),
    Case("children", "pids=8", "BlockingIOError", (("pids", "refused"),), "had started were ended"),
    Case("fork_bomb", "pids=8", "BlockingIOError", (("pids", "refused"),), "of both together", bomb=True),
    Case(
        "memory_bomb",
        "memory=256M",
        "MemoryError",
        (),
        "set with %sentinel_limit",
        clean="hoard.clear()",
        bomb=True,
    ),
    Case(
        "tmp_filler",
        "tmp=4M",
        "OSError",
        (("tmp", "refused"),),
        "The folder /tmp is full: 4 MiB",
        clean=_REMOVE,
        bomb=True,
    ),
    Case(
        "tmp_filled_for_a_moment",
        "tmp=4M",
        "OSError",
        (("tmp", "refused"),),
        "The folder /tmp is full: 4 MiB",
    ),
    Case("home_filler", "tmp=4M", "OSError", (("tmp", "refused"),), " is full: 4 MiB", clean=_REMOVE),
    Case("disk_filler", "disk=4M", "OSError", (("disk", "refused"),), "is full: 4 MiB", clean=_REMOVE),
    Case("shm_filler", "shm=4M", "", (("shm", "refused"),), "/dev/shm is full: 4 MiB", clean=_REMOVE),
    Case(
        "inode_filler",
        "tmp=16M",
        "OSError",
        (("tmp", "refused"),),
        "no room for the name",
        clean=_REMOVE,
        bomb=True,
    ),
    Case(
        "large_file",
        "file_size=1M",
        "OSError",
        (("file_size", "refused"),),
        "allows one file to be: 1 MiB",
        clean=_REMOVE,
    ),
    Case(
        "large_file_of_a_child",
        "file_size=1M",
        "CalledProcessError",
        (("file_size", "refused"),),
        clean=_REMOVE,
    ),
    Case(
        "many_files",
        "open_files=300",
        "OSError",
        (("open_files", "refused"),),
        "was reached: 300",
        clean="held.clear()",
    ),
    Case(
        "output_flood",
        "output=100K wall=1",
        _INTERRUPTED,
        (("output", "refused"), ("wall_seconds", "interrupt")),
        "output was cut",
        bomb=True,
    ),
    Case("displays_flood", "output=100K", "", (("output", "refused"),), "more than 100 KiB"),
    Case("daemon", "wall=60", "", later=(("left_running", "soft"),), clean="reset", bomb=True),
)
BY_NAME = {case.name: case for case in CASES}
