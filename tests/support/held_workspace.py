"""A real sandbox without a kernel: a cell's code runs in it as pid 1, and what commits and lists works on its layers.

The program (``python held_workspace.py WORKSPACE STORE``) is the supervisor's part: one thread, JSON lines on stdin
and stdout. What handles the layers is a child of it each time, whose memory is bounded as the files process's is.
"""

from __future__ import annotations

import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from ordinary_user import Identity

MEMORY_BYTES = 200 << 20
_SECONDS = 60
_PACKET_BYTES = 150_000

# Runs inside: one packet is one cell's code, the answer is what it told.
_AGENT = r"""
import ctypes, errno, fcntl, json, mmap, os, signal, socket, stat, sys, threading, time, traceback
control = socket.socket(fileno=3)
space = dict(globals())
while True:
    code = control.recv(150000)
    if not code:
        break
    answer = {"told": None, "error": ""}
    space["tell"] = lambda value: answer.update(told=value)
    try:
        exec(code.decode("utf-8", "surrogateescape"), space)
    except BaseException:
        answer["error"] = traceback.format_exc()[-2000:]
    control.send(json.dumps(answer).encode("ascii"))
"""


class HeldWorkspace:
    """Starts the program as ``identity`` and speaks with it."""

    def __init__(self, identity: Identity, place: Path) -> None:
        """Boot a sandbox whose workspace is ``place``/work; ``place`` is the identity's own."""
        self.identity = identity
        self.place = place
        self.work = place / "work"
        self.store = place / "store"
        script = place / "held_workspace.py"
        shutil.copyfile(__file__, script)
        script.chmod(0o644)
        variables = {
            name: str(place / name) for name in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CACHE_HOME")
        }
        self._log = (place / "log").open("w+")
        self._process = identity.popen(
            identity.python,
            "-P",
            str(script),
            str(self.work),
            str(self.store),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=identity.environment() | variables | {"HOME": str(place / "home")},
        )
        try:
            self._hear()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_SECONDS)
        self._process.stdout.close()
        self._log.close()

    def cell(self, code: str) -> Any:
        """Run a cell and return what it told (``tell(value)``), as soon as it is done."""
        answer = self._ask({"do": "cell", "code": code})
        assert not answer["error"], answer["error"]
        return answer["told"]

    def begin(self, code: str) -> None:
        """Let a cell begin; :meth:`end` waits for it."""
        self._ask({"do": "begin", "code": code})

    def over(self) -> bool:
        """Tell whether the cell that was begun is done; what it waits for is served only while this one works."""
        answer: bool = self._ask({"do": "over"})["over"]
        return answer

    def end(self) -> Any:
        """Return what the cell that was begun told."""
        answer = self._ask({"do": "end"})
        assert not answer["error"], answer["error"]
        return answer["told"]

    def work_on(self, what: str, **fields: Any) -> Any:
        """Have something done with the layers, in a process of bounded memory; return what came of it."""
        answer = self._ask({"do": "work", "what": what, **fields})
        assert answer["status"] == 0, (answer, self._told())
        assert answer["peak_bytes"] < MEMORY_BYTES, answer["peak_bytes"]
        return answer["result"]

    def changes(self, below: str = "") -> dict[str, dict[str, Any]]:
        """Return what is listed below a folder, by path."""
        return {change["path"]: change for change in self.work_on("list", below=below)["changes"]}

    def commit(self, below: str = "", answers: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
        """Commit what is listed below a folder."""
        outcome: dict[str, Any] = self.work_on("commit", below=below, answers=answers, **fields)
        return outcome

    def _told(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the program has ended: {self._told()}")
        heard: dict[str, Any] = json.loads(line)
        return heard


# --- the program


def _main(work: str, store: str) -> None:
    import sentinel_kernel
    from sentinel_kernel.linux import mounts
    from sentinel_kernel.supervisor.backend import Backends
    from sentinel_kernel.supervisor.channels import RunDirectory
    from sentinel_kernel.supervisor.identities import Identities
    from sentinel_kernel.supervisor.ledger import Ledger
    from sentinel_kernel.supervisor.notifications import NotificationHandler
    from sentinel_kernel.supervisor.preparation import compile_filter, parse_start, prepare
    from sentinel_kernel.supervisor.sandbox import start_sandbox
    from sentinel_kernel.supervisor.trees import prepare_trees

    payload = (sys.executable, "-I", "-c", _AGENT)
    request = parse_start(
        {"profile": "datascience", "workspace": work, "python": sys.executable, "payload": payload}
    )
    lease = Identities().lease()
    directory = RunDirectory()
    package = os.path.dirname(sentinel_kernel.__file__)
    preparation = prepare(request, lease.identity, package, directory.path)
    plan = preparation.plan
    backend = Backends().make("fallback", (plan.workspace, plan.argv[0]))
    backend.set(plan.sizes, processors=False)
    policy, program = compile_filter(preparation)
    sandbox = start_sandbox(plan, lambda: program, prepare_trees(plan), backend)
    handler = NotificationHandler(sandbox.listener, policy, Ledger(lambda _: True), sandbox.pid)

    def wait_for(descriptor: int) -> None:
        """Answer the sandbox's held calls until there is something to read."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(sandbox.listener.descriptor, select.POLLIN)
        while True:
            ready = dict(poll.poll(_SECONDS * 1000))
            if descriptor in ready or not ready:
                return
            handler.serve_waiting()

    worked_on = _Work(sandbox.held, plan.identity, store)
    try:
        _say({"ready": True})
        for line in sys.stdin:
            message = json.loads(line)
            if message["do"] == "work":
                _say(_bounded(worked_on, message, wait_for))
                continue
            if message["do"] not in ("end", "over"):
                for folder in sandbox.held.folders:
                    mounts.reconfigure(folder.context)
                code = f"os.chdir({work!r})\n" + message["code"]
                sandbox.control.send(code.encode("utf-8", "surrogateescape"))
            _say(
                {"over": _is_over(sandbox.control)}
                if message["do"] in ("begin", "over")
                else _answer(sandbox.control, wait_for)
            )
    finally:
        sandbox.end()
        sandbox.close()
        backend.close()
        directory.close()
        lease.close()


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _is_over(control: socket.socket) -> bool:
    return bool(select.select([control], [], [], 0)[0])


def _answer(control: socket.socket, wait_for: Callable[[int], None]) -> dict[str, Any]:
    wait_for(control.fileno())
    control.settimeout(0)
    answer: dict[str, Any] = json.loads(
        control.recv(_PACKET_BYTES) or b'{"told": null, "error": "it has ended"}'
    )
    return answer


def _bounded(work: _Work, message: dict[str, Any], wait_for: Callable[[int], None]) -> dict[str, Any]:
    """Do the work in a child, and measure it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            signal.alarm(_SECONDS)  # what hangs is ended, which its status tells
            result = work.do(message)
            with os.fdopen(writer, "w") as file:
                json.dump(result, file)
            status = 0
        except BaseException:  # noqa: BLE001 - a child never goes on with its parent's work
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)
    wait_for(reader)
    with os.fdopen(reader) as file:
        text = file.read()
    _, status, usage = os.wait4(pid, 0)
    return {
        "status": status,
        "peak_bytes": usage.ru_maxrss * 1024,
        "result": json.loads(text) if text else None,
    }


class _Work:
    """What can be done with the layers of a sandbox; one method for each."""

    def __init__(self, held: Any, identity: Any, store: str) -> None:
        from sentinel_kernel.workspace.layer import Layer

        _import_all()
        self._folder = held.folders[0]
        self._store = store
        root = os.geteuid() == 0
        status = os.fstat(self._folder.lower)
        self._layer = Layer(
            name=self._folder.name,
            path=self._folder.path,
            upper=self._folder.upper,
            merged=self._folder.merged,
            lower=self._folder.lower,
            context=self._folder.context,
            parked=held.parked,
            owner=(status.st_uid, status.st_gid) if root else None,
            writer=(identity.host_uid, identity.host_gid) if root else None,
        )
        self._message: dict[str, Any] = {}
        self._bounds: Any = None

    def do(self, message: dict[str, Any]) -> Any:
        """Do what ``message`` asks for."""
        self._message = message
        return getattr(self, message["what"])()

    def _meant(self) -> Any:
        from sentinel_kernel.policy.committable import Surroundings
        from sentinel_kernel.workspace.bounds import Bounds
        from sentinel_kernel.workspace.listing import changes

        self._bounds = Bounds(**self._message.get("bounds", {}))
        below = self._message.get("below", "")
        surroundings = Surroundings(tuple(self._message.get("loaded", ())))
        found = changes(self._layer, surroundings, self._bounds, look=True)
        return (change for change in found if not below or f"{change.path}/".startswith(below + "/"))

    def list(self) -> Any:
        listed = [change.to_json() for change in self._meant()]
        return {"changes": listed, "left_out": self._bounds.left_out, "unreadable": self._bounds.unreadable}

    def count(self) -> Any:
        counted = sum(1 for _ in self._meant())
        return {"count": counted, "left_out": self._bounds.left_out}

    def commit(self) -> Any:
        from sentinel_kernel.workspace.commit import Outcome, commit, settle

        outcome = Outcome()
        answers = frozenset(self._message.get("answers", ()))
        by_itself = self._message.get("by_itself", False)
        commit(self._layer, self._meant(), answers, outcome=outcome, by_itself=by_itself)
        if self._message.get("settled"):
            settle(self._layer)
        return {
            "count": outcome.count,
            "bytes": outcome.bytes,
            "paths": outcome.paths,
            "beside": outcome.beside,
            "failed": {path: code for path, _, code in outcome.failed},
            "failed_count": outcome.failed_count,
        }

    def commit_while_renamed(self) -> Any:
        """Commit; while the cell's copies lie aside, a folder gets another name, as a cell gives it (``rename``)."""
        from sentinel_kernel.linux.acting import acting_as
        from sentinel_kernel.workspace import giving_up

        is_seen, names = giving_up._is_seen, [*self._message["rename"]]

        def renamed(layer: Any, one: Any) -> bool:
            if names:
                with acting_as(layer.writer):
                    os.rename(*names, src_dir_fd=layer.merged, dst_dir_fd=layer.merged)
                names.clear()
            return is_seen(layer, one)

        giving_up._is_seen = renamed  # this process does nothing else
        return self.commit()

    def give_up(self) -> Any:
        from sentinel_kernel.workspace.giving_up import give_up

        for _ in self._meant():
            pass
        return give_up(self._layer, [one for _, one in self._bounds.settled])

    def discard(self) -> Any:
        from sentinel_kernel.workspace.taking_back import discard

        failed = {}
        for change in reversed([*self._meant()]):
            try:
                discard(self._layer, change)
            except OSError as error:
                failed[change.path] = error.errno
        return failed

    def export(self) -> Any:
        from sentinel_kernel.workspace.reading import open_version

        told = []
        for path in self._message["paths"]:
            try:
                descriptor, size, _ = open_version(self._layer, path, before=False)
            except OSError as error:
                told.append([error.errno, ""])
                continue
            told.append([size, os.pread(descriptor, 1 << 16, 0).decode("latin-1")])
            os.close(descriptor)
        return told

    def diff(self) -> Any:
        from sentinel_kernel.workspace.difference import READ_BYTES, difference
        from sentinel_kernel.workspace.reading import head

        told = {}
        for change in self._meant():
            if change.is_folder or change.kind == "special":
                continue
            try:
                old = head(self._layer, change.path, READ_BYTES + 1, before=True)
                new = head(self._layer, change.path, READ_BYTES + 1, before=False)
            except OSError as error:
                told[change.path] = f"errno {error.errno}"
                continue
            told[change.path] = difference(change.path, old, new)["form"]
        return told

    def look(self) -> Any:
        """List, compare, export and save what is held below a folder: each is a name of what it does."""
        return {name: getattr(self, name)() for name in ("list", "diff", "export", "save")}

    def commit_and_list(self) -> Any:
        """Commit, and tell what is held afterwards, in ``left``."""
        return {**self.commit(), "left": self.list()["changes"]}

    def save(self) -> Any:
        """Save what is held below a folder as an artifact of its own; what it holds is in ``saved``."""
        from sentinel_kernel.linux.files import open_beneath
        from sentinel_kernel.workspace.saving import Source, new_name, save
        from sentinel_kernel.workspace.store import StoreSettings

        folder, below = self._folder, self._message.get("below") or "."
        opened = [
            open_beneath(root, below, os.O_RDONLY | os.O_DIRECTORY) for root in (folder.upper, folder.lower)
        ]
        try:
            saved = save(
                [Source(folder.name, folder.path, *opened)], StoreSettings(self._store), "", new_name()
            )
        finally:
            for descriptor in opened:
                os.close(descriptor)
        return {
            "path": saved.path,
            "files": saved.files,
            "skipped": saved.skipped,
            "deleted": saved.deleted,
            "left_out": saved.left_out,
        }


def _import_all() -> None:
    """What each child would import anew."""
    import sentinel_kernel.workspace.commit
    import sentinel_kernel.workspace.difference
    import sentinel_kernel.workspace.reading
    import sentinel_kernel.workspace.saving
    import sentinel_kernel.workspace.taking_back  # noqa: F401


if __name__ == "__main__":
    _main(*sys.argv[1:])
