"""At a cell's end: which limit it ran into, told only where what is measured bears it out, and what it left running.

Most limits are kept by the Linux kernel, which tells nobody but the program: a full file system, RLIMIT_NPROC. Errors
that a cell shows are explained at once (explaining.py). What it prints, as children do, only names suspects: the words
of a program are no proof, so each is looked at from outside.
"""

from __future__ import annotations

import os
import select
import time

from sentinel_kernel.policy.plan import is_within, process_limit
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.clearing import LOOK_SECONDS, Clearing
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.last_words import place_fields
from sentinel_kernel.supervisor.processes import processes_below, same_sandbox
from sentinel_kernel.supervisor.processor_time import count_tasks, is_running
from sentinel_kernel.supervisor.reached import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current

_FULL = 0.97
"""From this share on a file system counts as full, and the tasks as used up."""

_CROWDED = 0.5
"""From this share on the tasks that a cell has left, after it was refused more, are ended."""

_NEARLY = 0.9
"""From this share on of the open files, or of a file's size, an error about them is borne out."""

_ROOMS = frozenset({"disk", "tmp", "shm"})
_NAMED_CHARACTERS = 60
_MOST_EVENTS = 100

_OF_LIBRARIES = frozenset({"torch_shm_manag"})
"""Helpers that end by themselves when the notebook's process does (comm of proc(5): 15 characters)."""


class LimitWatch(Keeper):
    """Looks at a sandbox when a cell has ended. ``tell`` sends an event to the host."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self._tell = tell
        self._current: Current | None = None
        self._generation = 0
        self._refusals = 0
        self._told: set[str] = set()
        """The limits that this cell was told of."""
        self.owed: dict[str, Any] | None = None
        """The limit of tasks, where an error has met it: told at the cell's end, with what was ended for it."""
        self.events: list[dict[str, Any]] = []
        """What was told of them."""
        self._full_places: set[str] = set()
        """The folders that were full at the last cell's end."""
        self._began = 0.0
        """When the last cell began, on the clock of a process's start time (seconds since the boot)."""
        self.began_ns = 0
        """The same on that of time.monotonic_ns."""
        self._known: set[int] = set()
        """Children of init that were told of, and the worker."""
        self._clearing: tuple[Clearing, dict[str, Any], dict[str, Any]] | None = None
        """What is being ended, for which limit, and the message of the cell's end."""

    @property
    def busy(self) -> bool:
        """Tell whether what the last cell has started is still being ended: the next one must find it gone."""
        return self._clearing is not None

    def due_seconds(self) -> float | None:
        """Return when to look whether it has gone."""
        return None if self._clearing is None else LOOK_SECONDS

    def catch_up(self) -> dict[str, Any] | None:
        """Look whether it has gone."""
        self._go_on()
        return None

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Look at this sandbox from here on."""
        self._current, self._generation = current, generation
        self._known = _children(current.sandbox.pid)

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - nothing is left to look at
        """Look at nothing."""
        self._current = None
        self._clearing = None

    def begin_cell(self, message: dict[str, Any]) -> None:  # noqa: ARG002 - each cell alike
        """Take note of how often the tasks were used up so far, where the back end counts that."""
        self._told.clear()
        self.events.clear()
        self.owed = None
        if self._current is not None:
            self._current.peak_tasks = 0
            self._current.held_peaks.clear()
            self._current.promised_bytes = 0
            if (shares := self._current.handler.shares) is not None and shares.threads is not None:
                shares.threads.begin_cell()
        self._began = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.began_ns = time.monotonic_ns()
        events = self._current.backend.events() if self._current is not None else None
        self._refusals = events.pids_refusals if events is not None else 0

    def end_cell(self, message: dict[str, Any]) -> None:
        """Tell of the limits that the cell's errors speak of, and of processes that it left behind."""
        current = self._current
        if current is None:
            return
        suspects = [
            one for one in message.get("suspects") or () if one.get("name") != "memory"
        ]  # the meter's
        if self.pids_counted():
            # Told also where the code made nothing of it.
            suspects = [one for one in suspects if one.get("name") != "pids"] + [
                {"name": "pids", "certain": True, "counted": True}
            ]
        owed, self.owed = self.owed, None
        owed = owed or _crowded(current)
        if owed is not None:
            suspects = [one for one in suspects if one.get("name") != "pids"] + [
                {"name": "pids", "owed": owed}
            ]
        suspects += self._noted(current, suspects, str(message.get("msg_id")))
        known = self._told | {str(one.get("name")) for one in suspects}
        if self.filled(current) is not None and not known & _ROOMS:
            suspects.append({"name": "space"})  # told also where the code made nothing of it
        clearing: tuple[Clearing, dict[str, Any]] | None = None
        for suspect in suspects:
            found = self._found(current, suspect)
            if found is not None and "place_of" not in found:
                found |= _filled_at(current, found["name"])
            if found is None or (found["name"] in self._told and found["name"] != "pids"):
                continue
            if found["name"] == "pids" and clearing is None:
                # Where each copy forks until it is refused, and ends then, they are all but all only now and then.
                crowded = count_tasks(current) >= found["allowed"] * _CROWDED
                clearing = (Clearing(current, self._began, crowded=crowded), found)
            else:
                self._event(message, found)
        if clearing is None:
            self._look_around(current, message)
        else:
            self._clearing = (*clearing, message)
            self._go_on()

    def _noted(self, current: Current, suspects: list[dict[str, Any]], cell: str) -> list[dict[str, Any]]:
        """Return the limits that the worker has noted as met in this ``cell``, and that nobody else speaks of."""
        note = current.started.refused(self.began_ns) if current.started is not None else None
        bus = current.started.overfull(self.began_ns) if current.started is not None else None
        wrote = _readable(current.size_pipe)
        if note is None and bus is None and not wrote:
            return []
        from sentinel_kernel.supervisor import swallowed  # noqa: PLC0415 - for the few cells that meet such a limit

        known = self._told | {str(one.get("name")) for one in suspects if one.get("name") != "file_size"}
        found = []
        if note is not None and not known & {"pids", "memory"}:
            found.append(swallowed.refused_start(current, note, cell))
        if bus is not None and not known & _ROOMS:
            found.append(swallowed.ended_by_bus(current, bus, cell))
        if wrote and (stack := swallowed.take_size_stack(current)) and "file_size" not in known:
            found.append(swallowed.refused_size(current, stack, cell))
        return [{"name": one["name"], "owed": one} for one in found if one is not None]

    def _go_on(self) -> None:
        """End what takes up the tasks; once that has gone, tell of it."""
        current = self._current
        if current is None or self._clearing is None:
            return
        clearing, found, message = self._clearing
        if not clearing.step():
            return
        self._clearing = None
        # What is older than the cell may hold the room still, or take longer than the cell's end can wait.
        left = clearing.tasks_left()
        told = {} if left < found["allowed"] * _FULL else {"left": left}
        self._event(message, {**found, "ended": clearing.ended, **told})
        self._look_around(current, message)

    def _look_around(self, current: Current, message: dict[str, Any]) -> None:
        """Take note of what is full, and tell of processes that the cell left behind."""
        self._full_places = {one[1] for one in file_systems(current) if fullness(current, *one) is not None}
        children = _children(current.sandbox.pid)
        new = [pid for pid in sorted(children - self._known) if is_running(pid) and _is_daemon(pid, current)]
        self._known &= children
        if new:
            self._known |= set(new)
            detail = ", ".join(_named(pid) for pid in new[:3]) + (", …" if len(new) > 3 else "")
            self._event(
                message, reached(current, "left_running", "soft", len(new), None, "count", detail=detail)
            )

    def _found(self, current: Current, suspect: dict[str, Any]) -> dict[str, Any] | None:
        """Return the limit that was reached; only what is measured counts, whoever speaks of it."""
        owed: dict[str, Any] | None = suspect.get("owed")
        if owed is not None:
            return owed
        name, sizes = str(suspect.get("name")), current.preparation.plan.sizes
        if name == "space":
            return self._full(current, str(suspect.get("path") or ""))
        if name == "pids" and sizes.pids is not None:
            used, allowed = count_tasks(current), process_limit(sizes) or sizes.pids
            if suspect.get("counted") is True or max(used, current.peak_tasks) >= allowed * _FULL:
                return reached(current, "pids", "refused", used, allowed, "count")
        elif name == "file_size" and sizes.file_size_bytes is not None:
            # Nothing smaller holds a file of that size, unless it has holes.
            rooms = [
                (status.f_blocks - status.f_bfree) * status.f_frsize for _, _, status in file_systems(current)
            ]
            if max(rooms, default=0) >= sizes.file_size_bytes * _NEARLY:
                return reached(current, "file_size", "refused", 0, sizes.file_size_bytes, "bytes")
        elif name == "open_files" and sizes.open_files is not None:
            most = max(map(count_files, processes_below(current.sandbox.pid)), default=0)
            if most >= sizes.open_files * _NEARLY:
                return reached(current, "open_files", "refused", 0, sizes.open_files, "count")
        return None

    def _full(self, current: Current, path: str) -> dict[str, Any] | None:
        """Return the limit of the file system that is full: of the one that ``path`` lies in, or of a fresh one."""
        systems = file_systems(current)
        full = [found for one in systems if (found := fullness(current, *one)) is not None]
        if path.startswith("/"):
            place = next((one[1] for one in systems if is_within(path, one[1])), None)
            return next((limit for limit in full if limit["place"] == place), None)
        fresh = next((limit for limit in full if limit["place"] not in self._full_places), None)
        if fresh is not None or not full:
            return fresh
        # One that was full before the cell began: that this cell has met it too its words alone tell.
        return {**full[0], "place_of": {"confidence": "likely"}}

    def filled(self, current: Current) -> dict[str, Any] | None:
        """Return the limit of a file system that this cell has filled to the last block, or the last name."""
        for name, place, status in file_systems(current):
            out = status.f_bfree == 0 or (status.f_files > 0 and status.f_ffree == 0)
            if out and place not in self._full_places:
                return fullness(current, name, place, status)
        return None

    def heard(self, limit: dict[str, Any]) -> None:
        """Take note of a limit that others have told of."""
        self._told.add(str(limit.get("name")))
        if len(self.events) < _MOST_EVENTS:
            self.events.append(limit)

    def pids_counted(self) -> bool:
        """Tell whether the back end has counted refused tasks since the cell began."""
        events = self._current.backend.events() if self._current is not None else None
        return events is not None and events.pids_refusals > self._refusals

    def _event(self, message: dict[str, Any], found: dict[str, Any]) -> None:
        told = {**found, "msg_id": str(message.get("msg_id"))}
        self._tell(protocol.EVENT_LIMIT, {"generation": self._generation, "limit": told})


def _crowded(current: Current) -> dict[str, Any] | None:
    """Return the limit of tasks that a program of the cell has met, whatever it made of it."""
    shares = current.handler.shares
    return shares.threads.limit() if shares is not None and shares.threads is not None else None


def _filled_at(current: Current, name: str) -> dict[str, Any]:
    """Return where the worker was seen as the file system of the limit ``name`` was filling up, for an event."""
    keys = ("tmp_bytes", "home") if name == "tmp" else (f"{name}_bytes",)
    fields = next((place_fields(current.filling[key]) for key in keys if key in current.filling), None)
    return {} if fields is None else {"place_of": fields}


def _readable(descriptor: int) -> bool:
    """Tell whether there is anything to read."""
    if descriptor < 0:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


def file_systems(current: Current) -> list[tuple[str, str, os.statvfs_result]]:
    """Return (limit, folder inside, what it holds) of each file system in memory, deepest folders first."""
    plan = current.preparation.plan
    # The folders are mount points in a sealed root: nothing inside can put a link in their place.
    root = f"/proc/{current.sandbox.pid}/root"
    places = [("tmp", "/tmp"), ("tmp", plan.home), ("shm", "/dev/shm")] if plan.lists is None else []
    found = []
    for name, place in places:
        try:
            found.append((name, place, os.statvfs(root + place)))
        except OSError:
            continue  # the sandbox is ending
    if current.sandbox.workspace_upper >= 0:
        status = os.fstatvfs(current.sandbox.workspace_upper)
        found.append(("disk", plan.workspace, _without(status, *current.sandbox.kept)))
    return sorted(found, key=lambda one: len(one[1]), reverse=True)


def _without(status: os.statvfs_result, kept_bytes: int, kept_inodes: int) -> os.statvfs_result:
    """Return a file system's numbers as if what is kept in it, beside what cells write, were not there."""
    blocks = status.f_blocks - kept_bytes // (status.f_frsize or 1)
    files = status.f_files - kept_inodes
    return os.statvfs_result((*status[:2], max(0, blocks), *status[3:5], max(0, files), *status[6:]))


def size_name(current: Current, name: str, place: str) -> str:
    """Return the name of the size that goes with a file system of :func:`file_systems`, "home" for that of HOME."""
    return "home" if place == current.preparation.plan.home else f"{name}_bytes"


def fullness(current: Current, name: str, place: str, status: os.statvfs_result) -> dict[str, Any] | None:
    """Return the limit of a file system that is full, of bytes or of names; None where it is not."""
    size, used = status.f_blocks * status.f_frsize, (status.f_blocks - status.f_bfree) * status.f_frsize
    if size and used >= size * _FULL:
        return {**reached(current, name, "refused", used, size, "bytes"), "place": place}
    names = status.f_files - status.f_ffree
    if status.f_files and names >= status.f_files * _FULL:
        found = reached(current, name, "refused", names, status.f_files, "count", detail="inodes")
        return {**found, "place": place}
    return None


def count_files(pid: int) -> int:
    """Return how many files a process holds open; 0 where it is gone."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def is_inside(pid: int, current: Current | None) -> bool:
    """Tell whether a process is in the sandbox: in the process namespace of its init."""
    return current is not None and same_sandbox(pid, current.sandbox.pid)


def _is_daemon(pid: int, current: Current) -> bool:
    """Tell whether a process that outlived its parent has left the notebook's session too (daemon(7)).

    What a command that was given up leaves behind has not, and is no surprise; neither are a library's own helpers.
    """
    try:
        if os.getsid(pid) == os.getsid(current.worker_pid):
            return False
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() not in _OF_LIBRARIES
    except OSError:
        return False


def _children(pid: int) -> set[int]:
    """Return the children of a process with one thread: of init, which orphans are given to."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return set(map(int, file.read().split()))
    except OSError:
        return set()


def _named(pid: int) -> str:
    """Return what a process calls itself, and its number inside; to be shown and no more."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(4 * _NAMED_CHARACTERS).decode("utf-8", "replace").replace("\0", " ").strip()
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            inside = next((line.split()[-1] for line in file if line.startswith("NSpid:")), str(pid))
    except OSError:
        return str(pid)
    shown = "".join(character if character.isprintable() else "?" for character in command)
    return f"{shown[:_NAMED_CHARACTERS] or '?'} (pid {inside})"
