"""Kernels that the tests of the protocol share: each test is asked of plain ipykernel, the control, and of Sentinel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conversation import Conversation
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook


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
