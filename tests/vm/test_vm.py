"""The limits' back ends on control groups of version 2, in a virtual machine: delegated, and made by systemd.

`make test` runs a part of the checks, `make test-vm` all of them and the limit suite under both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lacking import lacking

sys.path.insert(0, str(Path(__file__).parent))

from commands import CannotBuild
from machine import run

if TYPE_CHECKING:
    from machine import Run

pytestmark = pytest.mark.timeout(3600)  # emulated processors, on a machine that does other things too

_SECONDS, _WHOLE_SECONDS = 1500.0, 3000.0
# Emulated processors take minutes: what the values of the groups imply is shown by `make test-vm` alone.
_DELEGATED = ("values", "inside", "weight", "worker_killed", "own_limit")
_SYSTEMD = ("status", "values", "from_user_service")


def _boot(program: str, *words: str, seconds: float = _SECONDS) -> Run:
    """Boot, or skip where the machine can't be built (under SENTINEL_MUST_RUN=1 that is a failure)."""
    try:
        return run(program, "quiet", *words, seconds=seconds, tell=lambda line: print(line, flush=True))
    except CannotBuild as error:
        lacking(str(error))


def _passed(result: Run) -> set[str]:
    checks = {told["check"]: told for told in result.documents if "check" in told}
    failed = [f"{name}: {told['seen']}" for name, told in checks.items() if not told["ok"]]
    assert not failed, "\n".join(failed)
    return set(checks)


def test_delegated_groups_keep_the_limits() -> None:
    result = _boot("backend_suite", f"vm.checks={','.join(_DELEGATED)}")
    assert _passed(result) == {*_DELEGATED, "nothing_left"}, result.console[-2000:]


def test_a_scope_of_the_users_systemd_keeps_the_limits() -> None:
    result = _boot("backend_suite", f"vm.checks={','.join(_SYSTEMD)}", "vm.systemd")
    assert _passed(result) == {*_SYSTEMD, "nothing_left"}, result.console[-2000:]


@pytest.mark.vm
@pytest.mark.parametrize("words", [("vm.lesser",), ("vm.systemd",)], ids=["delegated", "systemd"])
def test_every_check_of_the_back_ends(words: tuple[str, ...]) -> None:
    result = _boot("backend_suite", "vm.checks=all", *words, seconds=_WHOLE_SECONDS)
    assert len(_passed(result)) >= 15, result.console[-2000:]


@pytest.mark.vm
@pytest.mark.parametrize("words", [(), ("vm.systemd",)], ids=["delegated", "systemd"])
def test_the_limit_suite(words: tuple[str, ...]) -> None:
    result = _boot("limit_suite", *words, seconds=_WHOLE_SECONDS)
    cases = {told["case"]: told for told in result.documents if "case" in told}
    failed = [told for told in cases.values() if not told["ok"]]
    assert not failed, "\n".join(map(str, failed))
    assert len(cases) > 20, result.console[-2000:]
