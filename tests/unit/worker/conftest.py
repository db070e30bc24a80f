"""Init and workers, run for real in a pid namespace, without the sandbox around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from warm_init import WarmInit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from warm_init import WorkerClient


@pytest.fixture
def init() -> Iterator[WarmInit]:
    """Return a warm init of the test's own."""
    process = WarmInit()
    try:
        process.event("warm")
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def shared_init() -> Iterator[WarmInit]:
    """Return the module's init."""
    process = WarmInit(JPY_SESSION_NAME="/home/ada/notes.ipynb")
    try:
        process.event("warm")
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def worker(shared_init: WarmInit) -> WorkerClient:
    """Return a worker that the module's tests share: each leaves it as it found it."""
    return shared_init.start_worker()
