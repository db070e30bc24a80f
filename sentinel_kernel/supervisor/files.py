"""Looks at each cell's end whether files have changed, and has the files process deal with them.

What the look costs is two calls: how much the layers' file system holds, and when the workspace's upper folder was
changed last. Where nothing has changed since, nobody is asked.
"""

from __future__ import annotations

import os
import time

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.held_use import commit_mode, usage_of, writes_directly
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.quiet_looks import MANY, QuietLooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.files_process import FilesProcess
    from sentinel_kernel.supervisor.preparation import StartRequest

    Fields = dict[str, Any]
    Reply = Callable[[Fields], None]

_WAIT_SECONDS = 15.0
"""How long a cell's begin waits at most: what takes longer goes on beside the cells."""

_REPLY_SECONDS = 2.0
"""How long a cell's reply waits for new files to be in the folder."""
_QUIET_SECONDS = 0.05
"""How long a cell's begin waits where more files are held and none is known to have changed."""

_IDLE_SECONDS = 1.0
"""After so long without work the process goes; the next one starts in a millisecond."""

_TRIES = 2


class Files(Keeper):
    """The changed files of the sandbox in use."""

    def __init__(
        self, tell: Callable[[str, Fields], None], request: Callable[[], StartRequest | None]
    ) -> None:
        """Tell the host through ``tell``; ``request`` returns what the sandbox in use was asked for by."""
        self._tell = tell
        self._request = request
        self._current: Current | None = None
        self._generation = 0
        self._commits = True
        self._process: FilesProcess | None = None
        self._left: list[FilesProcess] = []  # processes that were let go, and not reaped yet
        self._seen: tuple[int, int, int] | None = None  # the layers at the last look; None: one is due
        self._history = (0, 0)  # what of their file system former versions take: blocks, inodes
        self._held = 0
        self._stamp = 0  # of the undo journal, as it was told last
        self._unwritten = False  # the process alone knows what is in it
        self._first = True
        self._token = 0
        self._asked: dict[int, tuple[object, Reply]] = {}  # token -> the host's request, and whom to answer
        self._settle: Fields | None = None  # the end of a cell that is being dealt with
        self._tries = 0
        self._fault = ""  # why the process failed, in its own words
        self._ending = self._begin_waits = False
        self._quiet = QuietLooks()
        self._runs = False  # whether a cell does
        self._cell = ""  # which ended last, if it has a number
        self._settles_change = False  # whether the end that is dealt with is of a cell that changed something
        self._until = self._last_work = 0.0
        self._trial = ""  # how far a dry run is: begun (no cell runs yet), runs, or left (to be taken back)
        self._taking_back = False
        self._stays_held = False  # something of a dry run is left: nothing is committed by itself any more

    # --- the sandbox and its cells

    def configure(self, message: Fields) -> None:
        """Take the settings of a start request."""
        self._commits = message.get("commit") != "none"

    def sandbox_ready(self, current: Current, generation: int) -> None:
        """Look at the layers of a sandbox for the first time."""
        self._generation = generation
        if current is self._current:
            return  # another worker in the same one: what the last one wrote was not looked at yet
        self._current = current
        self._history, self._held, self._settle = (0, 0), 0, None
        self._stamp, self._unwritten = 0, False
        self._trial, self._cell, self._stays_held = "", "", False
        self._quiet.forget()
        self._seen = usage_of(self._current, self._history)

    def sandbox_gone(self, cause: Fields) -> None:  # noqa: ARG002 - all are told alike
        """Make nothing wait for a worker that is gone."""
        self._trial_over()
        self._ending = self._begin_waits = self._runs = False

    def give_up_files(self, current: Current) -> FilesProcess | None:
        """Take note that the sandbox has ended; return its files process, which is the caller's now."""
        if current is not self._current:
            return None
        process, self._process = self._process, None
        self._current, self._settle, self._ending, self._begin_waits = None, None, False, False
        self._refuse_all("no_sandbox")
        return process if process is not None and not process.gone else None

    @property
    def busy(self) -> bool:
        """Whether a cell's end waits, or the next one's begin for former versions that are being kept."""
        return self._ending or (self._begin_waits and (self._settle is not None or self._taking_back))

    def cell_waits(self, message: Fields) -> None:
        """Take note that a cell wants to begin; what an earlier dry run left is taken back before."""
        self._begin_waits = True
        if not self._taking_back:
            # The look at many held files is worth no wait where nothing says that they changed.
            patient = self._held <= MANY or self._settles_change
            self._until = time.monotonic() + (_WAIT_SECONDS if patient else _QUIET_SECONDS)
        if self._trial == "left" and not message.get("dry_run"):
            self._take_back()
            self._until = time.monotonic() + _WAIT_SECONDS

    def begin_cell(self, message: Fields) -> None:
        """Take note that nobody waits any more."""
        self._begin_waits, self._runs = False, True
        if self._trial == "begun":
            self._trial = "runs" if message.get("dry_run") else ""

    def _trial_over(self) -> None:
        if self._trial == "runs":
            self._trial = "left"

    def _take_back(self) -> None:
        """Have what is left of a dry run taken back, whose host did not ask for it: its worker may have died."""
        if self._taking_back:
            return
        self._taking_back = True

        def done(fields: Fields) -> None:  # noqa: ARG001 - _trial tells
            self._taking_back = False

        self._ask(None, {"do": "trial_end"}, done)

    def end_cell(self, message: Fields) -> None:
        """Have the changes of a cell dealt with, if there are any; not those of a dry run."""
        self._trial_over()
        self._runs = False
        if self._trial:
            return
        if (usage := usage_of(self._current, self._history)) is None:
            return
        cell = self._cell = str(message.get("execution_count") or "")[:28]
        if self._settle is not None and self._settles_change:
            # The copies that are being made still change both numbers: what this cell did is told when they are done.
            self._quiet.put_off(cell)
            return
        changed = usage != self._seen
        if not changed:
            if not self._held or (self._held > MANY and self._quiet.put_off(cell)):
                return
            if self._settle is not None:
                return  # it is being looked at already: such looks pile up for quick cells else
        self._seen = usage
        self._look(self._quiet.take(cell), changed=changed)

    def profile_changes(self) -> bool:
        """Keep by the rule so far what is held, where nothing gets out by it; tell whether profiles rule on files."""
        if (usage := usage_of(self._current, self._history)) is None:
            return False
        if not self._trial and commit_mode(self._current) == "none":
            changed, self._seen = usage != self._seen, usage
            if changed or self._held:
                self._look(self._quiet.take(self._cell), changed=changed)
        return self._commits and not self._stays_held

    def _look(self, cell: str, *, changed: bool) -> None:
        """Have what is held looked at, as ``cell`` left it."""
        self._settles_change = changed or (self._settle is not None and self._settles_change)
        self._token += 1
        self._settle = {
            "do": "settle",
            "token": self._token,
            "cell": cell,
            "commit": self._rule,
            "first": self._first,
            "quiet": not changed,
        }
        self._tries = 0
        if not self._ending:  # else an end waits already, and no longer for this
            # A file that was written over in place changes neither number: what is held is looked at without waiting.
            self._ending, self._until = changed, time.monotonic() + _REPLY_SECONDS
        self._start_settling()

    def request(self, identifier: object, message: Fields, reply: Reply) -> None:
        """Pass a request of the host's on; ``reply`` gets the answer's fields, ``ok`` among them."""
        do = message.get("do")
        if self._trial in ("begun", "runs"):
            reply({"ok": False, "code": "busy", "message": ""})
        elif do == "trial_begin":
            self._begin_trial(identifier, message, reply)
        elif do == "trial_end" and not self._trial:
            reply({"ok": False, "code": "nothing_to_undo", "message": ""})
        else:
            if self._trial and do != "trial_end":
                self._take_back()  # it is done first: the process takes one after the other
            self._ask(identifier, message, reply)

    def _begin_trial(self, identifier: object, message: Fields, reply: Reply) -> None:
        """Have kept what a dry run starts from; without that there is none."""

        def begun(fields: Fields) -> None:
            self._trial = "begun" if fields.get("ok") is True else ""
            reply(fields)

        if writes_directly(self._current):
            reply({"ok": False, "code": "writes_directly", "message": ""})
        else:
            if self._trial:
                self._take_back()
            self._ask(identifier, message, begun)

    def _ask(self, identifier: object, message: Fields, reply: Reply) -> None:
        process = self._ready_process()
        if process is None:
            code = {"landlock": "rung"}.get(self._current.rung, "failed") if self._current else "no_sandbox"
            reply({"ok": False, "code": code, "message": ""})
            return
        if self._quiet.wait:  # also behind a cell's begin: what a magic asks for comes before its code
            self._look(self._quiet.take(), changed=False)
        self._token += 1
        self._asked[self._token] = identifier, reply
        fields = {name: value for name, value in message.items() if name not in ("op", "id")}
        process.give({"do": "ask", "token": self._token, "commit": self._rule, "request": fields})

    # --- the event loop

    def descriptors(self) -> Iterable[int]:
        """Return the process's socket."""
        return () if self._process is None or self._process.gone else (self._process.sock.fileno(),)

    def serve(self, ready: dict[int, int]) -> None:
        """Take what the process has said."""
        process = self._process
        if process is None or process.gone or process.sock.fileno() not in ready:
            return
        for said in process.receive():
            self._last_work = time.monotonic()
            self._hear(said)
        self._look_after_process()

    def due_seconds(self) -> float | None:
        """Return when nobody waits any longer, or when the process may rest."""
        now = time.monotonic()
        if self._process is not None and self._process.gone:
            return 0.0
        if self.busy:
            return max(0.0, self._until - now)
        if self._quiet_may_be_due:
            return self._quiet.due_seconds()
        if self._process is not None and not self._has_work:
            return max(0.0, self._last_work + _IDLE_SECONDS - now)
        return None

    def catch_up(self) -> None:
        """Let cells go on that have waited long enough, and the process go that has nothing to do."""
        now = time.monotonic()
        if self.busy and now >= self._until:
            self._ending = self._begin_waits = False
        self._look_after_process()
        if self._quiet_may_be_due and self._quiet.due_seconds() == 0.0:
            self._look(self._quiet.take(), changed=False)
        process = self._process
        if process is not None and not self._has_work and now >= self._last_work + _IDLE_SECONDS:
            process.rest()
            self._let_go(process)
        self._left = [left for left in self._left if not left.reap()]

    def close(self) -> None:
        """Let go of the process: it finishes what it was given."""
        if self._process is not None:
            self._process.rest()
            self._let_go(self._process)

    # --- small parts

    @property
    def _rule(self) -> str:
        """What is committed by itself."""
        return "none" if not self._commits or self._stays_held else commit_mode(self._current)

    @property
    def _quiet_may_be_due(self) -> bool:
        return self._quiet.wait and not self._runs and self._settle is None and not self._trial

    @property
    def _has_work(self) -> bool:
        """Whether the process has something to do, or to remember."""
        return self._settle is not None or bool(self._asked) or self._unwritten

    def _ready_process(self) -> FilesProcess | None:
        """Return the files process of the sandbox, a new one where there is none; None where there can't be one."""
        current = self._current
        if current is None or not current.sandbox.held.folders:
            return None
        self._look_after_process()
        if self._process is None:
            from sentinel_kernel.supervisor.files_process import FilesProcess  # noqa: PLC0415 - for changes alone
            from sentinel_kernel.supervisor.files_setup import setup_of  # noqa: PLC0415 - as above

            try:
                setup = setup_of(current, self._request(), self._stamp)
                self._process = FilesProcess(current.sandbox.held, setup)
            except OSError:
                return None
        self._last_work = time.monotonic()
        return self._process

    def _start_settling(self) -> None:
        process, settle = self._ready_process(), self._settle
        if process is None or settle is None:
            self._settled()
        else:
            process.give(settle)

    def _settled(self) -> None:
        """Nothing is under way any more; what was not done, which is told, is done at the next cell's end."""
        self._seen = self._settle = None
        self._ending = False
        self._tell(protocol.EVENT_FILES, {"generation": self._generation, "fault": self._fault})

    def _hear(self, said: Fields) -> None:
        token = said.get("token")
        match said.get("say"):
            case "answer" if token in self._asked:
                _, reply = self._asked.pop(token)
                self._note(said)
                self._note_trial(said["fields"])
                self._seen = None  # what it did has changed the layers, or may have
                reply(said["fields"])
            case "progress":
                fields = {**said["fields"], "for": self._asked[token][0] if token in self._asked else None}
                self._tell(protocol.EVENT_FILES, {"generation": self._generation, "progress": fields})
            case "written":
                self._note(said)
            case None if "fault" in said:
                self._fault = str(said["fault"])[:200]
            case "settled":
                if self._settle is not None and token == self._settle["token"]:
                    self._ending = False
                if said["told"]:  # also of an end that nobody waits for any more
                    self._first = self._first and not said["fields"]["held"]
                    self._tell(protocol.EVENT_FILES, {"generation": self._generation, **said["fields"]})
            case "kept" if self._settle is not None and token == self._settle["token"]:
                self._settle = None
                self._note(said)
                if said["changed"]:
                    self._seen = None  # the layers were changed from here, and perhaps by the cell meanwhile

    def _note_trial(self, fields: Fields) -> None:
        """Take note that a dry run was taken back, if that is what was answered."""
        if fields.get("ok") is True and "undone" in fields and "entries" in fields:
            self._trial = ""
            self._stays_held = self._stays_held or bool(fields["failed"]["count"])

    def _note(self, said: Fields) -> None:
        self._held, self._stamp, self._unwritten = said["held"], said["stamp"], said["unwritten"]
        blocks, inodes = said["history"]
        self._history = blocks, inodes
        current = self._current
        if current is not None and current.sandbox.held.folders:
            unit = os.fstatvfs(current.sandbox.held.folders[0].upper).f_frsize
            current.sandbox.keep_room(current.preparation.plan.sizes, (blocks * unit, inodes))

    def _look_after_process(self) -> None:
        """Go on without a process that ended by itself, or was killed: what it had done is whole."""
        process = self._process
        if process is None or not process.gone:
            return
        self._let_go(process)
        self._unwritten = False
        self._refuse_all("ended")
        if self._settle is not None:
            self._tries += 1
            if self._tries < _TRIES:
                self._start_settling()
            else:
                self._settled()

    def _refuse_all(self, code: str) -> None:
        asked, self._asked = self._asked, {}
        for _, reply in asked.values():
            reply({"ok": False, "code": code, "message": self._fault})

    def _let_go(self, process: FilesProcess) -> None:
        process.close()
        self._left.append(process)
        self._process = None
