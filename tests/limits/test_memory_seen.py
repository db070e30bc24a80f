"""What programs inside see of the machine: the profile's memory and processors, and no way to give themselves more."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_LOOK = """
import json, os, resource
import psutil
def tried(action):
    try:
        action()
    except (OSError, ValueError) as error:
        return type(error).__name__
    return "ok"
soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
print(json.dumps({
    "psutil": psutil.virtual_memory().total,
    "available": psutil.virtual_memory().available,
    "pages": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    "processors": os.cpu_count(),
    "affinity": len(os.sched_getaffinity(0)),
    "threads": os.environ.get("OMP_NUM_THREADS"),
    "widened": tried(lambda: os.sched_setaffinity(0, range(os.cpu_count() + 1024))),
    "after": len(os.sched_getaffinity(0)),
    "raised": tried(lambda: resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))),
    "data": resource.getrlimit(resource.RLIMIT_DATA)[0],
}))
"""


def test_programs_see_the_profiles_memory_and_processors(tmp_path: Path) -> None:
    machine = len(os.sched_getaffinity(0))
    with notebook(tmp_path) as book:
        strict = json.loads(book.run(_LOOK).text)
        wider = json.loads(book.run(f"%sentinel_profile datascience\n{_LOOK}").text)
    assert strict["psutil"] == strict["pages"] == 1 << 30
    assert 0 < strict["available"] <= 1 << 30
    assert (strict["processors"], strict["affinity"], strict["after"]) == (1, 1, 1)
    assert strict["threads"] == "1"
    assert strict["data"] <= 1 << 30
    assert wider["psutil"] >> 20 == wider["pages"] >> 20 > 1024
    assert wider["processors"] == wider["affinity"] == wider["after"] == machine
    assert wider["threads"] == str(machine)
