"""Finding out what a start would fail by: another process's work, which is given up with all that it has started."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

from sentinel_kernel.supervisor import start_trial
from sentinel_kernel.supervisor.start_trial import StartTrial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FAILS = {"step": "data_folder", "cause_en": "…" * 4000}
CURRENT: Any = None


class Trial:
    """A trial, what it has told, and the named pipe that its process and what that has started hold open."""

    def __init__(self, pipe: Path) -> None:
        self.keeper = StartTrial()
        self.told: list[dict[str, Any]] = []
        os.mkfifo(pipe)
        self.held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def ask(self) -> None:
        self.keeper.ask(CURRENT, {}, "", self.told.append)

    def follow(self) -> None:
        """Serve until it has told something."""
        before = len(self.told)
        while len(self.told) == before:
            [reader] = self.keeper.descriptors()
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            assert poll.poll(60_000)
            self.keeper.serve({reader: select.POLLIN})

    def _is_let_go(self) -> bool:
        try:
            return os.read(self.held, 100) == b""
        except BlockingIOError:
            return False

    def all_ended(self) -> None:
        """Wait until nobody holds the pipe open."""
        wait_until(self._is_let_go, "all that was started has ended")
        wait_until(lambda: self.keeper.catch_up() is None and not self.keeper._dying, "it is reaped")


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    """Return one whose run folders lie in a folder of the test's."""
    (tmp_path / "run").mkdir(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    made = Trial(tmp_path / "pipe")
    yield made
    made.keeper.close()
    made.all_ended()
    os.close(made.held)
    assert list((tmp_path / "run" / "sentinel-kernel").iterdir()) == []


def finding(monkeypatch: pytest.MonkeyPatch, look: Callable[[], dict[str, Any]]) -> None:
    """Have the process ``look`` in place of what it looks at."""
    monkeypatch.setattr(start_trial, "start_fault", lambda *_: look())


def hang(pipe: Path) -> Callable[[], dict[str, Any]]:
    """Return what never ends, and has started something that never ends either: both hold ``pipe`` open."""

    def look() -> dict[str, Any]:
        held = os.open(pipe, os.O_WRONLY)
        if os.fork() == 0:
            os.write(held, b"here")
        while True:
            signal.pause()

    return look


def ask_one_that_hangs(trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a trial under way that never ends by itself."""
    finding(monkeypatch, hang(tmp_path / "pipe"))
    trial.ask()
    wait_until(lambda: select.select([trial.held], [], [], 0)[0], "it hangs")
    assert os.read(trial.held, 4) == b"here"


def test_what_the_process_finds_is_told_whole(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in (FAILS, {}):
        finding(monkeypatch, lambda found=found: found)
        trial.ask()
        assert (trial.keeper.due_seconds() or 0.0) > 0.0
        trial.follow()
        assert trial.told.pop() == found
        assert (trial.keeper.descriptors(), trial.keeper.due_seconds()) == ((), None)


def test_what_takes_too_long_is_refused_in_words_and_ended_with_all_that_it_has_started(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(monkeypatch, hang(tmp_path / "pipe"))
    monkeypatch.setattr(start_trial, "SECONDS", 0.0)
    trial.ask()
    wait_until(lambda: select.select([trial.held], [], [], 0)[0], "it hangs")
    assert os.read(trial.held, 4) == b"here"
    assert trial.told == []
    trial.keeper.catch_up()
    [told] = trial.told
    assert "does not answer" in told["cause_en"]
    assert "没有响应" in told["cause_zh"]
    assert told["remedy_en"]
    assert told["remedy_zh"]
    trial.all_ended()


def test_one_that_is_under_way_makes_room_for_the_next_and_says_so_to_who_still_waits(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_one_that_hangs(trial, tmp_path, monkeypatch)
    finding(monkeypatch, dict)
    trial.ask()
    overtaken = trial.told.pop()
    assert "Another cell asked for a change" in overtaken["cause_en"]
    assert "另一个单元格请求了更改" in overtaken["cause_zh"]
    assert (overtaken["remedy_en"], overtaken["remedy_zh"]) == ("Run the cell again.", "请重新运行该单元格。")
    trial.follow()
    assert trial.told == [{}]
    trial.all_ended()


def test_what_ends_without_a_word_is_not_taken_for_well(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(monkeypatch, lambda: {"step": object()})
    trial.ask()
    trial.follow()
    assert "ended without a word" in trial.told[0]["cause_en"]
    assert trial.told[0]["remedy_zh"]


def test_a_run_folder_that_can_not_be_removed_keeps_nobody_from_the_answer(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finding(monkeypatch, dict)
    trial.ask()
    [folder] = (tmp_path / "run" / "sentinel-kernel").iterdir()
    (folder / "kept").mkdir()  # unlink(2) refuses it, of root as well
    trial.follow()
    assert trial.told == [{}]
    (folder / "kept").rmdir()
    folder.rmdir()


def test_where_earlier_looks_still_hang_none_is_begun_and_nobody_is_told_of_a_look(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_trial, "_MOST_HUNG", 1)
    child = os.fork()  # stands for one that was killed, and can't end before its disk answers
    if child == 0:
        while True:
            signal.pause()
    trial.keeper._dying.append(child)
    try:
        trial.ask()
    finally:
        os.kill(child, signal.SIGKILL)
    [told] = trial.told
    assert "was not looked at: earlier looks still wait" in told["cause_en"]
    assert "先前的检查仍在等待" in told["cause_zh"]
    assert told["remedy_en"] == "Try again once it answers."
    assert trial.keeper.descriptors() == ()
    trial.all_ended()
    finding(monkeypatch, dict)
    trial.ask()
    trial.follow()
    assert trial.told[1:] == [{}]


@pytest.mark.parametrize("lacking", ["descriptors", "processes"])
def test_where_no_process_can_be_started_that_is_told_and_nothing_is_left(
    lacking: str, trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = sorted(os.listdir("/proc/self/fd"))
    expected = errno.EMFILE if lacking == "descriptors" else errno.EAGAIN
    if lacking == "descriptors":
        free = os.dup(trial.held)
        os.close(free)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (free + 1, limits[1])
        )  # enough for a folder, not for a pipe
    else:

        def refused() -> int:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

        monkeypatch.setattr(os, "fork", refused)  # RLIMIT_NPROC holds back no root
    try:
        trial.ask()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    [told] = trial.told
    assert (told["step"], told["errno"]) == ("prepare", expected)
    assert os.strerror(expected) in told["cause_en"]
    assert (trial.keeper.descriptors(), trial.keeper.due_seconds()) == ((), None)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert list((tmp_path / "run" / "sentinel-kernel").iterdir()) == []


def test_at_the_supervisors_end_what_is_under_way_ends_and_nobody_is_told(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_one_that_hangs(trial, tmp_path, monkeypatch)
    trial.keeper.close()
    trial.all_ended()
    assert trial.told == []
    assert list((tmp_path / "run" / "sentinel-kernel").iterdir()) == []
