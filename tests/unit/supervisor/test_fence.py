"""A way out takes a Linux kernel that can keep a sandbox from all other hosts; the probe's answer is injected."""

from __future__ import annotations

from typing import Any

import pytest

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux import landlock
from sentinel_kernel.record import Record
from sentinel_kernel.supervisor.network import fence


class _Plan(Record):
    """What is asked of a plan here."""

    fenced: bool = False
    sockets: tuple[Any, ...] = ()


def _answering(monkeypatch: pytest.MonkeyPatch, abi: int | None) -> None:
    def version() -> int:
        if abi is None:
            raise OSError(95, "Landlock is not enabled")
        return abi

    monkeypatch.setattr(landlock, "abi_version", version)


@pytest.mark.parametrize("abi", [None, 1, 3])
def test_without_rules_about_the_network_no_host_is_let_out(
    monkeypatch: pytest.MonkeyPatch, abi: int | None
) -> None:
    _answering(monkeypatch, abi)
    assert not fence.is_possible()
    with pytest.raises(UnsupportedHost) as caught:
        fence.with_way_out(_Plan(), "web", needed=True)  # type: ignore[arg-type] # as much of one as is used
    assert "'web'" in caught.value.message
    assert "Linux 6.7" in caught.value.remedy
    # Where it would only be for later, the sandbox is as it would be without.
    plan = _Plan()
    assert fence.with_way_out(plan, "datascience", needed=False) is plan  # type: ignore[arg-type, comparison-overlap]


def test_with_them_the_sandbox_is_fenced_and_has_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, 4)
    assert fence.is_possible()
    for needed in (True, False):
        plan = fence.with_way_out(_Plan(), "web", needed=needed)  # type: ignore[arg-type] # as above
        assert plan.fenced
        assert {kind for _, kind, address, port in plan.sockets if (address, port) == ("127.0.0.1", 53)} == {
            "udp",
            "tcp",
        }
