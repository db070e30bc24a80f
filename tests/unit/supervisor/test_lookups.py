"""Looking a path up on both sides: what can't be had is answered, and the supervisor goes on."""

from __future__ import annotations

import os
import resource
from typing import Any

from sentinel_kernel.supervisor.lookups import Lookups


def test_without_a_free_descriptor_nothing_is_told() -> None:
    lookups = Lookups()
    answers: list[Any] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = os.dup(0)
    os.close(first)
    # The first number is taken up, so that a pipe has room for one end, then for none.
    for free in (1, 0):
        resource.setrlimit(resource.RLIMIT_NOFILE, (first + free, hard))
        try:
            lookups.ask(os.getpid(), [{"path": "/"}], answers.append)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers == [[], []]
    assert not lookups.descriptors()
    assert os.dup(0) == first
    os.close(first)
