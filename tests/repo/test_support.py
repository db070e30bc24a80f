"""What tests and measurements rest on: it leaves nothing changed, and hides no fault as something that did not come."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pinning import kept_on, threads_of
from waiting import wait_until, waits_in

if TYPE_CHECKING:
    from collections.abc import Callable


def _processors() -> dict[int, set[int]]:
    return {thread: os.sched_getaffinity(thread) for thread in threads_of(os.getpid())}


def _failing_once(own: int) -> Callable[[], dict[int, int]]:
    """Return what fails when all threads are kept, and it is looked for more."""
    looks = 0

    def look() -> dict[int, int]:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise OSError("once")
        return threads_of(own)

    return look


def test_threads_that_were_kept_on_a_processor_run_where_they_did_before() -> None:
    own, before = os.getpid(), os.sched_getaffinity(0)
    one = {max(before)}
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    gone = ended.native_id or 0
    wait_until(lambda: gone not in threads_of(own), "the thread has ended")
    done = threading.Event()
    meanwhile = threading.Thread(target=done.wait)
    try:
        # One ends behind the look at them, one begins while the others are kept there.
        with kept_on(one, lambda: {gone: own, **threads_of(own)}):
            meanwhile.start()
            assert set(map(frozenset, _processors().values())) == {frozenset(one)}
        assert set(map(frozenset, _processors().values())) == {frozenset(before)}
        with pytest.raises(OSError, match="once"), kept_on(one, _failing_once(own)):
            pass
        assert set(map(frozenset, _processors().values())) == {frozenset(before)}
    finally:
        done.set()
        if meanwhile.ident is not None:
            meanwhile.join()
        for thread in threads_of(own):
            os.sched_setaffinity(thread, before)


_CLOSED = """
from sentinel_kernel.linux import process
process.set_dumpable(dumpable=False)
print(flush=True)
input()
"""
_LOOKS = """
import os, sys
from waiting import waits_in
if os.geteuid() == 0:
    os.setgroups([])
    os.setresuid(47001, 47001, 47001)
try:
    print(waits_in("read", int(sys.argv[1])))
except PermissionError:
    print("closed")
"""


def test_of_a_process_that_may_not_be_looked_at_it_is_not_said_that_it_waits_for_nothing() -> None:
    assert not waits_in("read", -1)
    python = [sys.executable, "-c"]
    options: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, "text": True}
    with subprocess.Popen(
        [*python, _CLOSED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    ) as closed:
        assert closed.stdout is not None
        closed.stdout.readline()
        seen = subprocess.check_output([*python, _LOOKS, str(closed.pid)], **options)
        closed.communicate("\n")
    assert seen == "closed\n"
