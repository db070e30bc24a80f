"""What tests of the supervisor's parts share."""

from __future__ import annotations

import pytest

from sentinel_kernel.supervisor.network import taken


@pytest.fixture
def own_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let closes that may wait have SIGALRM: a test's own timeout uses it too, unless it is a thread's."""
    monkeypatch.setattr(taken, "_ready", False)
