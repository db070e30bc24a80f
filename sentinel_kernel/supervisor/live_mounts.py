"""Folders of the host that are shown in a running sandbox: which there are, and who makes and takes them away.

The work is a forked process's (showing.py), one at a time: a folder may lie on a disk that does not answer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time

from sentinel_kernel.linux.process import close_descriptors, die_with_parent
from sentinel_kernel.policy.planning import hidden_paths
from sentinel_kernel.policy.shown_folder import MODES, MOST, PLACE, Surroundings, name_for
from sentinel_kernel.record import MutableRecord, replace
from sentinel_kernel.supervisor.forked_word import read_word
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.killed_children import unreaped
from sentinel_kernel.supervisor.mount_layers import Task
from sentinel_kernel.supervisor.mount_work import discard, sweep
from sentinel_kernel.supervisor.showing import run
from sentinel_kernel.workspace.store import own_data, own_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from sentinel_kernel.supervisor.current import Current

    Done = Callable[[dict[str, Any]], None]

SECONDS = 20.0
"""How long a disk may take."""

_ANSWER_BYTES = 128 * 1024
_MOST_LISTED, _PATH_CHARACTERS = 64, 200
_DESCRIPTORS = 4
_SOCKET, _PIDFD, _PLACE = 3, 4, 5


class LiveMount(MutableRecord):
    """One folder that is shown: ``context`` refreshes it (fspick(2)), ``lock`` holds its work folder ``work``."""

    name: str
    target: str
    path: str
    mode: str
    context: int
    seen: tuple[int, int]
    """The folder's device and inode, by which it was asked about."""
    work: str = ""
    lock: int = -1

    def close(self) -> None:
        """Let go of it; the mount itself goes with the sandbox, or was taken away."""
        if self.work:
            _tidy(self.work, self.lock)
            self.work = ""
        for descriptor in (self.context, self.lock):
            if descriptor >= 0:
                os.close(descriptor)
        self.context = self.lock = -1

    def to_json(self) -> dict[str, str]:
        """Return what the host is told."""
        return {"name": self.name, "target": self.target, "path": self.path, "mode": self.mode}


class _Work(MutableRecord):
    """A helper that is under way."""

    pid: int
    sock: socket.socket
    deadline: float
    current: Current
    heard: Callable[[dict[str, Any], list[int]], None]


class LiveMounts(Keeper):
    """Serves the host's requests about folders."""

    def __init__(self, note: Callable[[str, str, dict[str, Any]], None]) -> None:
        """``note`` records in the audit: kind, name, detail."""
        self._note = note
        self._work: _Work | None = None
        self._dying: list[int] = []

    def request(self, current: Current | None, message: dict[str, Any], done: Done) -> None:
        """Do what the host asks (``do``: list, look, add, remove) and call ``done`` with the answer."""
        do = str(message.get("do") or "")
        if current is None:
            done({"done": False, "code": "no_sandbox"})
        elif do == "list":
            rules = current.preparation.profile.filesystem.mounts
            own = [{"path": rule.path[:_PATH_CHARACTERS], "mode": rule.mode} for rule in rules[:_MOST_LISTED]]
            live = [mount.to_json() for mount in current.sandbox.live]
            done({"done": True, "mounts": live, "profile": own})
        elif current.rung != "full":
            done({"done": False, "code": "rung"})
        elif self._work is not None:
            done({"done": False, "code": "busy"})
        elif do == "look":
            self._start(current, _task(current, "look", message), lambda told, _: done(_told(told)))
        elif do == "add":
            self._add(current, message, done)
        elif do == "remove":
            self._remove(current, str(message.get("name") or ""), done)
        else:
            done({"done": False, "code": "failed", "detail": f"unknown: {do!r}"})

    def _add(self, current: Current, message: dict[str, Any], done: Done) -> None:
        live = current.sandbox.live
        task = _task(current, "show", message)
        there = next((one for one in live if one.target == task.target), None)
        below = [one for one in live if one.target.startswith(PLACE + "/")]
        before = next((one for one in below if one.path == task.path), None)
        if there is not None:
            # Of an earlier worker of this sandbox: a folder at its own place is shown once, and not exchanged there,
            # as cells can move what lies around that place: what is taken away would be found by its name alone.
            same = (there.mode, there.seen) == (task.mode, task.identity_seen)
            done({"done": True, "mount": there.to_json()} if same else {"done": False, "code": "replaced"})
        elif before is not None and task.target.startswith(PLACE + "/"):
            self._show_anew(current, before, task, done)
        elif len(live) >= MOST:
            done({"done": False, "code": "too_many", "detail": str(MOST)})
        else:
            self._show(current, task, done)

    def _show_anew(self, current: Current, before: LiveMount, task: Task, done: Done) -> None:
        """Show a folder that is shown in another mode, or was exchanged for another on the host, where it is shown."""
        task = replace(task, target=before.target)
        if (before.mode, before.seen) == (task.mode, task.identity_seen):
            done({"done": True, "mount": before.to_json()})
            return

        def shown(told: dict[str, Any]) -> None:
            done(told)
            if not told["done"] and told.get("code") != "no_sandbox" and self._work is None:
                # As it was; what becomes of that, the list tells.
                former = replace(task, mode=before.mode, identity_seen=before.seen)
                self._show(current, former, lambda _: None)

        def hidden(told: dict[str, Any]) -> None:
            if told["done"]:
                self._show(current, task, shown)
            else:
                done(told)

        self._hide(current, before, hidden)

    def _show(self, current: Current, task: Task, done: Done) -> None:
        live = current.sandbox.live

        def heard(told: dict[str, Any], descriptors: list[int]) -> None:
            if told.get("ok") is not True or not descriptors:
                for descriptor in descriptors:
                    os.close(descriptor)
                self._note("mount_failed", task.path[:200], {"mode": task.mode, "code": told.get("code")})
                done(_told(told))
                return
            name = task.target.removeprefix(f"{PLACE}/")
            mount = LiveMount(
                name, task.target, str(told["path"]), task.mode, descriptors[0], task.identity_seen
            )
            mount.work = str(told.get("work") or "")
            mount.lock = descriptors[1] if len(descriptors) > 1 else -1
            live.append(mount)
            self._note("mount", name, mount.to_json())
            done({"done": True, "mount": mount.to_json(), "looked_through": told.get("looked_through")})

        self._start(current, task, heard)

    def _remove(self, current: Current, name: str, done: Done) -> None:
        found = next((one for one in current.sandbox.live if name in (one.name, one.target)), None)
        if found is None or not found.target.startswith(PLACE + "/"):
            done({"done": False, "code": "unknown_name", "detail": name[:200]})
        else:
            self._hide(current, found, done)

    def _hide(self, current: Current, found: LiveMount, done: Done) -> None:
        def heard(told: dict[str, Any], _descriptors: list[int]) -> None:
            if told.get("ok") is True and found in current.sandbox.live:
                current.sandbox.live.remove(found)
                self._note("unmount", found.name, found.to_json())
                found.close()
            done(_told(told) | {"mount": found.to_json()})

        self._start(current, _task(current, "hide", {"target": found.target}), heard)

    def _start(
        self, current: Current, task: Task, heard: Callable[[dict[str, Any], list[int]], None]
    ) -> None:
        self._reap()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            heard({"ok": False, "code": "failed", "detail": error.strerror or ""}, [])
            return
        if pid == 0:
            _be_helper(theirs, current, task)
        theirs.close()
        self._work = _Work(pid, ours, time.monotonic() + SECONDS, current, heard)

    # --- the loop

    def descriptors(self) -> Sequence[int]:
        """Return the helper's socket."""
        return (self._work.sock.fileno(),) if self._work is not None else ()

    def due_seconds(self) -> float | None:
        """Return when the helper is given up."""
        return None if self._work is None else max(0.0, self._work.deadline - time.monotonic())

    def serve(self, ready: dict[int, int]) -> None:
        """Take the helper's answer."""
        if self._work is None or self._work.sock.fileno() not in ready:
            return
        packet, descriptors, _, _ = socket.recv_fds(
            self._work.sock, _ANSWER_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
        )
        told = read_word(packet, _ANSWER_BYTES)
        if told is None:
            told = {"ok": False, "code": "failed", "detail": "the helper process died"}
        self._end(told, list(descriptors))

    def catch_up(self) -> dict[str, Any] | None:
        """Give up a helper that takes too long."""
        if self._work is not None and time.monotonic() >= self._work.deadline:
            self._end({"ok": False, "code": "too_slow"}, [])
        return None

    def sandbox_gone(self, cause: dict[str, Any]) -> None:  # noqa: ARG002 - whatever it was
        """Give up what is under way: the sandbox may be another one."""
        if self._work is not None:
            self._end({"ok": False, "code": "no_sandbox"}, [])

    def close(self) -> None:
        """Give up what is under way, and tell nobody."""
        if self._work is not None:
            self._work.heard = lambda _told, _descriptors: None
            self._end({}, [])

    def _end(self, told: dict[str, Any], descriptors: list[int]) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        work.sock.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(work.pid, signal.SIGKILL)  # not reaped yet: the number is its own
        self._dying.append(work.pid)
        self._reap()
        work.heard(told, descriptors)

    def _reap(self) -> None:
        self._dying = unreaped(self._dying)


def _told(told: dict[str, Any]) -> dict[str, Any]:
    return {"done": told.get("ok") is True} | {name: value for name, value in told.items() if name != "ok"}


def _task(current: Current, kind: str, message: dict[str, Any]) -> Task:
    plan = current.preparation.plan
    mode = str(message.get("mode") or "ro")
    path = str(message.get("path") or "/")
    seen = message.get("identity") or (0, 0)
    target = str(message.get("target") or "")
    if kind == "show":
        # A folder right below the root can't be written at its own place: Landlock would have to allow all.
        own = mode == "rw" and path in plan.asked and os.path.dirname(path) != "/"
        target = path if own else f"{PLACE}/{name_for(path, [one.name for one in current.sandbox.live])}"
    return Task(
        kind=kind,
        path=path,
        mode=mode if mode in MODES else "ro",
        target=target,
        identity_seen=(int(seen[0]), int(seen[1])),
        staging=plan.staging,
        started_by_root=plan.started_by_root,
        identity=plan.identity,
        work_folders=_work_folders(),
    )


def _surroundings(current: Current) -> Surroundings:
    """Return what is covered in the sandbox, and where the host loads code from."""
    home = os.path.realpath(os.environ.get("HOME") or "/")
    preparation = current.preparation
    hidden = [*preparation.hidden, own_data(os.environ), own_settings(os.environ)]
    paths = hidden_paths(preparation.plan.workspace, home, hidden)
    real = [os.path.realpath(path) for path in paths]
    run = [
        path
        for path in (*sys.path, sys.prefix, sys.base_prefix, *preparation.module_directories)
        if path.startswith("/")
    ]
    run += [os.path.dirname(os.path.dirname(preparation.plan.argv[0]))]
    return Surroundings(
        home, tuple(dict.fromkeys((*paths, *real))), tuple(dict.fromkeys(map(os.path.realpath, run)))
    )


def _work_folders() -> str:
    return os.path.join(own_data(os.environ), "work")


def _be_helper(sock: socket.socket, current: Current, task: Task) -> NoReturn:
    """Do the work in the forked process; never returns."""
    try:
        alone((sock.fileno(), current.sandbox.pidfd, current.sandbox.place))
        die_with_parent()
        task = replace(task, around=_surroundings(current))  # here, as a path may lead to a disk that hangs
        own = socket.socket(fileno=_SOCKET)
        sock.detach()
        if task.kind == "show" and task.mode == "rw":
            sweep(task.work_folders)
            sweep(os.path.dirname(task.path))
        run(own, _PIDFD, _PLACE, task)
    except BaseException:  # noqa: BLE001 - a fork must never go on with the supervisor's work
        os._exit(1)


def _tidy(work: str, held: int) -> None:
    """Remove a work folder in a process that nobody waits for; what is left there is swept the next time."""
    try:
        pid = os.fork()
    except OSError:
        return
    if pid != 0:
        os.waitpid(pid, 0)  # it forks and ends
        return
    try:
        if os.fork() == 0:
            discard(work, alone((held,)) if held >= 0 else -1)
    finally:
        os._exit(0)


def alone(kept: Sequence[int]) -> int:
    """Keep nothing of the supervisor's but these descriptors, as 3 (which is returned) and the numbers after it."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    moved = [_beyond(descriptor) for descriptor in kept]
    for place, descriptor in enumerate(moved, _SOCKET):
        os.dup2(descriptor, place)
    close_descriptors(_SOCKET + len(moved), 0x7FFFFFFF)
    return _SOCKET


def _beyond(descriptor: int) -> int:
    """Return a duplicate out of the way of the numbers that are given out."""
    while (descriptor := os.dup(descriptor)) <= _PLACE:
        pass
    return descriptor
