"""What a start would fail by, as far as that can be told while the sandbox that it would replace goes on.

It is a forked process's to find out, one at a time: a folder may lie on a disk that does not answer, and another
interpreter is run. The supervisor waits for neither.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

from sentinel_kernel.errors import BootError, SentinelError
from sentinel_kernel.linux.process import die_with_parent
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.rung import FULL
from sentinel_kernel.record import MutableRecord
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.forked_word import read_word
from sentinel_kernel.supervisor.keeper import Keeper
from sentinel_kernel.supervisor.killed_children import unreaped
from sentinel_kernel.supervisor.preparation import parse_start, prepare
from sentinel_kernel.supervisor.remedies import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from sentinel_kernel.supervisor.current import Current

    Problem = dict[str, Any]
    """What a start fails by, as an ``unavailable`` event says it; empty: by nothing known."""

SECONDS = 25.0
"""How long disks and an interpreter may take: longer than the interpreter is waited for, which has words of its own,
and less than the host waits for any answer."""

_ANSWER_BYTES = 64 * 1024
_MOST_HUNG = 4
"""So many may hang in a disk beyond their time; there is no further one until that answers."""


class _Trial(MutableRecord):
    """One that is under way; ``directory`` stands for the one of the start."""

    pid: int
    reader: int
    deadline: float
    directory: RunDirectory
    done: Callable[[Problem], None]
    said: bytes = b""


class StartTrial(Keeper):
    """Answers OP_TRY."""

    def __init__(self) -> None:
        """Start without any."""
        self._trial: _Trial | None = None
        self._dying: list[int] = []

    def ask(
        self,
        current: Current,
        message: dict[str, Any],
        package_directory: str,
        done: Callable[[Problem], None],
    ) -> None:
        """Call ``done`` with what the start of ``message`` fails by, now or before long.

        One that is still under way is given up: who asked has gone on, as by an interrupt, or waits in a cell beside
        this one, and is told.
        """
        self._end(_OVERTAKEN)
        if len(self._dying) >= _MOST_HUNG:
            done(_STILL_HUNG)
            return
        try:
            directory = RunDirectory()
        except (SentinelError, OSError) as error:
            done(_described(error))
            return
        ends: tuple[int, ...] = ()
        try:
            reader, writer = ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            pid = os.fork()
        except OSError as error:  # no descriptor or no process is to be had, as the start would need
            for descriptor in ends:
                os.close(descriptor)
            directory.close()
            done(_described(error))
            return
        if pid == 0:
            _answer(writer, current, message, package_directory, directory.path)
        os.close(writer)
        self._trial = _Trial(pid, reader, time.monotonic() + SECONDS, directory, done)

    # --- the loop

    def descriptors(self) -> Sequence[int]:
        """Return where the answer comes from."""
        return () if self._trial is None else (self._trial.reader,)

    def due_seconds(self) -> float | None:
        """Return when it is given up."""
        return None if self._trial is None else max(0.0, self._trial.deadline - time.monotonic())

    def serve(self, ready: dict[int, int]) -> None:
        """Take what the process has said, which is whole at its end."""
        trial = self._trial
        if trial is None or trial.reader not in ready:
            return
        try:
            chunk = os.read(trial.reader, _ANSWER_BYTES)
        except BlockingIOError:
            return
        trial.said += chunk
        if not chunk or len(trial.said) >= _ANSWER_BYTES:
            problem = read_word(trial.said, _ANSWER_BYTES)
            self._end(_UNTOLD if problem is None else problem)

    def catch_up(self) -> dict[str, Any] | None:
        """Give up one that takes too long."""
        if self._trial is not None and time.monotonic() >= self._trial.deadline:
            self._end(_too_slow())
        self._reap()
        return None

    def close(self) -> None:
        """Give up what is under way, and tell nobody."""
        if self._trial is not None:
            self._trial.done = lambda _problem: None
        self._end({})

    def _end(self, problem: Problem) -> None:
        trial, self._trial = self._trial, None
        if trial is not None:
            os.close(trial.reader)
            # Neither is reaped yet: the number is their own. What the process has started is of its group.
            os.kill(trial.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(trial.pid, signal.SIGKILL)
            self._dying.append(trial.pid)
            trial.done(problem)
            trial.directory.close()
        self._reap()

    def _reap(self) -> None:
        """Reap those that have ended; one that hangs in a disk stays until that answers."""
        self._dying = unreaped(self._dying)


# --- in the child


def _answer(
    writer: int, current: Current, message: dict[str, Any], package_directory: str, absent_inside: str
) -> NoReturn:
    """Answer and end; it shares the supervisor's pages and nothing else."""
    try:
        os.setpgid(0, 0)
        from sentinel_kernel.supervisor.live_mounts import alone  # noqa: PLC0415 - in the process alone

        own = alone((writer,))
        die_with_parent()
        os.set_blocking(own, True)
        problem = start_fault(current, message, package_directory, absent_inside)
        packet = json.dumps(problem).encode("ascii")
        while packet:
            packet = packet[os.write(own, packet) :]
    except BaseException:  # noqa: BLE001 - a fork must never go on with the supervisor's work
        os._exit(1)
    os._exit(0)


def start_fault(
    current: Current, message: dict[str, Any], package_directory: str, absent_inside: str
) -> Problem:
    """Return what the start of ``message`` fails by.

    It is prepared as a start is: the profile is read, its folders are looked at, the boot is planned. The sandbox that
    is there, ``current``, is not touched, and has shown that this machine lets one boot.
    """
    try:
        request = parse_start(message)
        preparation = prepare(request, current.lease.identity, package_directory, absent_inside)
        compile_policy(preparation.profile, os.uname().machine, current.preparation.refused)
        if current.rung != FULL and preparation.profile.minimum_isolation == FULL:
            return _lesser_alone(current, preparation.profile.name)
    except (SentinelError, OSError) as error:
        return _described(error)
    return {}


def _described(error: SentinelError | OSError) -> Problem:
    if isinstance(error, SentinelError):
        return describe(error)
    return describe(BootError("prepare", error.errno or 0, f"Preparing it failed: {error}."))


def _lesser_alone(current: Current, profile: str) -> Problem:
    """Return the words for a profile that asks for the full rung where the sandbox in use could not have it."""
    lists = current.preparation.plan.lists
    why = lists.words() if lists is not None else {}
    return {
        "step": "minimum_isolation",
        "errno": None,
        "cause_en": f"The profile {profile!r} asks for the full rung. {why.get('cause_en', '')}".strip(),
        "cause_zh": f"配置“{profile}”要求完整级别。{why.get('cause_zh', '')}",
        "remedy_en": why.get("remedy_en", ""),
        "remedy_zh": why.get("remedy_zh", ""),
    }


_ONCE_IT_ANSWERS = {"remedy_en": "Try again once it answers.", "remedy_zh": "请在其恢复响应后重试。"}


def _too_slow() -> Problem:
    """Return the words for a trial that took too long: what it waits for, a start would wait for, too."""
    return {
        "step": "prepare",
        "errno": None,
        "cause_en": f"Its folders and its interpreter were looked at for {SECONDS:g} s without an end: a disk, or the "
        "interpreter, does not answer.",
        "cause_zh": f"检查其文件夹和解释器用了 {SECONDS:g} 秒仍未完成：有磁盘或解释器没有响应。",
        **_ONCE_IT_ANSWERS,
    }


_UNTOLD: Problem = {
    "step": "prepare",
    "errno": None,
    "cause_en": "The process that was to find out whether it starts ended without a word.",
    "cause_zh": "用于检查它能否启动的进程没有给出结果就结束了。",
    "remedy_en": "Try again; `sentinel-kernel doctor` tells what is missing.",
    "remedy_zh": "请重试；`sentinel-kernel doctor` 会说明缺少什么。",
}
"""Fails closed: what is not known to start costs no variable."""

_OVERTAKEN: Problem = {
    "step": "prepare",
    "errno": None,
    "cause_en": "Another cell asked for a change before it was known whether this starts, and one is tried at a time.",
    "cause_zh": "在确认它能否启动之前，另一个单元格请求了更改，而每次只能检查一个。",
    "remedy_en": "Run the cell again.",
    "remedy_zh": "请重新运行该单元格。",
}
_STILL_HUNG: Problem = {
    "step": "prepare",
    "errno": None,
    "cause_en": "Whether it starts was not looked at: earlier looks still wait for a disk that does not answer.",
    "cause_zh": "没有检查它能否启动：先前的检查仍在等待没有响应的磁盘。",
    **_ONCE_IT_ANSWERS,
}
