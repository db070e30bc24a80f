"""Run, violation, repair, run again: a script goes round by itself as an assistant does, with the official client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from repair_programs import PROGRAMS, SHORT, TAKE_BACK, Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assistant import Assistant

pytestmark = pytest.mark.requires("user_namespaces")

_ROUNDS = 3


def attempt(helper: Assistant, program: Program) -> tuple[bool, str]:
    """Run a program until it has done its work, by what the tools say alone; return whether it has, and the way."""
    code, steps = program.code, []
    told = helper.cell(code, timeout_seconds=120)
    if program.done in told["stdout"].splitlines():
        return False, "ran at once: nothing was to repair"
    for _ in range(_ROUNDS):
        if not told["violations"]:
            return False, f"no violation: {told['hint'] or told['error']}"
        violation = told["violations"][-1]
        repair = helper.data("suggest_repair", original_code=code, violation_id=violation["id"])
        steps.append(f"{violation['cause']}: {repair['magic'] or (repair['code'] and 'changed code')}")
        if repair["repaired_code"] is None:
            break
        compile_checked(repair)
        code = repair["repaired_code"]
        told = helper.cell(code, timeout_seconds=120)
        if program.done in told["stdout"].splitlines():
            return True, " → ".join(steps)
    return False, " → ".join(steps)


def compile_checked(repair: dict[str, Any]) -> None:
    """Fail unless changed code is Python (or has magics alone beside it), and says what preflight found."""
    if repair["code"] is not None and "await " not in repair["code"]:
        compile(repair["code"], "<repaired>", "exec")
    assert isinstance(repair["preflight"], list)


def go_round(helper: Assistant, programs: Sequence[Program], capsys: pytest.CaptureFixture[str]) -> int:
    """Repair programs and print how many run in the end; return how many do not."""
    lines, failed = [], 0
    for program in programs:
        ready = helper.cell(f"%sentinel_profile strict --carry\n{TAKE_BACK}\n{program.setup}")
        assert ready["status"] == "ok", ready["error"]
        well, how = attempt(helper, program)
        failed += not well
        lines.append(f"    {'repaired' if well else 'NOT REPAIRED'}  {program.name}  ({how})")
    with capsys.disabled():
        print(
            f"\nMCP repair loop: {len(programs) - failed} of {len(programs)} programs run in the end, nobody asked"
        )
        print("\n".join(lines))
    return failed


def test_programs_are_repaired_by_what_the_tools_say(
    helper: Assistant, capsys: pytest.CaptureFixture[str]
) -> None:
    assert go_round(helper, SHORT, capsys) == 0
    assert helper.person.asked == []


@pytest.mark.soak
def test_every_program_is_repaired(helper: Assistant, capsys: pytest.CaptureFixture[str]) -> None:
    failed = go_round(helper, PROGRAMS, capsys)
    assert len(PROGRAMS) - failed >= 20
    assert failed <= len(PROGRAMS) // 20
    assert helper.person.asked == []
