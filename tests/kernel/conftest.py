"""Kernels of the tests: a host alone, and those that are asked the same as plain ipykernel, the control."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conversation import Conversation
from hosted_kernel import FakeWorker, HostedKernel
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live_kernel import Notebook


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[HostedKernel]:
    """Return a host whose supervisor and worker the test plays."""
    kernel = HostedKernel(tmp_path)
    yield kernel
    kernel.close()


@pytest.fixture
def worker(kernel: HostedKernel) -> FakeWorker:
    """Return the worker of that host, with a client that listens."""
    worker = kernel.start_worker()
    kernel.subscribe()
    return worker


@pytest.fixture(scope="module", params=["python3", "sentinel"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return one kernel, then the other; the module's tests share each and leave it as they found it."""
    with notebook(tmp_path_factory.mktemp("kernel"), request.param, SENTINEL_PROFILE="datascience") as book:
        yield book


@pytest.fixture(scope="module")
def talk(both: Notebook) -> Conversation:
    """Return a client of the kernel that the module's tests share."""
    return Conversation(both.client)


@pytest.fixture
def ours(talk: Conversation, both: Notebook) -> Conversation:
    """Return a client of Sentinel, for what plain ipykernel does not do."""
    if both.manager.kernel_name != "sentinel":
        pytest.skip("not what plain ipykernel does")
    return talk
