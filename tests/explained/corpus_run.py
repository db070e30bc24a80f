"""Runs programs of the corpus, each as it is and again with the first remedy that the notebook names."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from corpus_kernel import Host, Kernel, Outcome, host, hosts_outside, kernel
from corpus_verdict import Verdict, judge, judge_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corpus import Program

ALL_LIMITS_OFF = "%sentinel_limit memory=off pids=off disk=off tmp=off shm=off open_files=off output=off"
REACHES = os.geteuid() == 0
"""Only root can have a network with hosts for the tests."""
HIGHER = ("datascience", "web")
"""The profiles that a cell may be put under where its own has no remedy, up to the ceiling and beyond."""


class Kernels:
    """The kernels that the programs share: one for each profile and kind, started when it is first needed."""

    def __init__(self, place: Host, stack: contextlib.ExitStack) -> None:
        self._place, self._stack = place, stack
        self._running: dict[tuple[str, str, str], Kernel] = {}
        self._prefix: tuple[str, ...] | None = None

    def of(self, program: Program) -> Kernel:
        """Return the kernel that runs ``program``."""
        key = _key(program)
        if key not in self._running:
            prefix = self._outside() if program.kernel == "outside" and REACHES else ()
            started = kernel(self._place, program.profile, program.kernel, prefix)
            self._running[key] = self._stack.enter_context(started)
        return self._running[key]

    def _outside(self) -> tuple[str, ...]:
        if self._prefix is None:
            self._prefix = self._stack.enter_context(hosts_outside(self._place))
        return self._prefix

    def give_up(self, program: Program) -> None:
        """Leave a kernel that does not answer to the end; the next program of its kind gets another."""
        self._running.pop(_key(program), None)


def _key(program: Program) -> tuple[str, str, str]:
    """Return what programs have in common that share a kernel: where a host was allowed once, it is for good."""
    alone = program.name if program.kernel == "outside" else ""
    return program.profile, program.kernel, alone


def prepare(running: Kernel, program: Program) -> None:
    """Set the program's limits and run the cells that stand before it."""
    if program.limits:
        done = running.run(f"%sentinel_limit {program.limits}")
        assert done.reply["status"] == "ok", f"{program.name}: {done.evalue}"
    if program.setup:
        done = running.run(program.setup)
        assert done.reply["status"] == "ok", f"{program.name}: {done.evalue}"


def run_tidied(running: Kernel, program: Program, code: str, *, agrees: bool = False) -> Outcome:
    """Run one form of the program in a sandbox that is prepared for it, and clear up behind it."""
    prepare(running, program)
    outcome = running.run(running.place.fill(code), agrees=agrees)
    running.tidy(reset=program.after == "reset" or outcome.ename == "SandboxDied")
    return outcome


def works(program: Program, outcome: Outcome) -> bool:
    """Tell whether the program has done its work."""
    return program.result in outcome.text


def try_remedy(running: Kernel, program: Program, remedy: dict[str, Any]) -> tuple[bool, str]:
    """Apply a remedy as somebody would who follows it to the letter; tell whether the program works, and how not."""
    kind, code = remedy["kind"], program.code
    if kind == "magic":
        code = f"{remedy['text']}\n{code}"
    elif kind == "code":
        code = remedy["code"]
    elif not remedy["text"].split("install")[0].rstrip().endswith("pip") and not remedy["text"].startswith(
        "cp "
    ):
        return False, f"no command that is run here: {remedy['text']}"
    else:
        done = subprocess.run(
            ["sh", "-c", running.place.fill(remedy["text"])],
            cwd=running.work,
            env=running.place.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return False, f"the command fails: {done.stderr[-200:]}"
        code = remedy.get("code") or code
    # Who follows an advice to allow a host says yes to what is asked then; nobody says anything by himself.
    asking = any(magic in remedy["text"] for magic in ("%sentinel_allow ", "%sentinel_mount "))
    asks = kind in ("magic", "code") and asking
    outcome = run_tidied(running, program, code, agrees=asks)
    worked = works(program, outcome) and (outcome.questions != [] or not asks)
    return worked, "" if worked else f"{outcome.ename}: {outcome.evalue[:150]} {outcome.text[-100:]!r}"


def works_elsewhere(running: Kernel, program: Program) -> str:
    """Return the profile up to the ceiling, all limits off, under which the program works as it is; or none."""
    for profile in HIGHER:
        chosen = running.run(f"%sentinel_profile {profile}")
        if chosen.reply["status"] != "ok":
            continue  # beyond the ceiling
        running.run(ALL_LIMITS_OFF)
        if program.setup:
            running.run(program.setup)
        outcome = running.run(running.place.fill(program.code))
        running.tidy(reset=outcome.ename == "SandboxDied")
        if works(program, outcome):
            return profile
    return ""


def run_program(running: Kernel, program: Program, *, repair: bool = True) -> Verdict:
    """Run one program, and again with its first remedy."""
    started = time.monotonic()
    outcome = run_tidied(running, program, program.code)
    verdict = judge_own(program, outcome) if program.owned else judge(program, outcome)
    if not program.owned and repair:
        _repair(running, program, outcome, verdict)
    verdict.seconds = time.monotonic() - started
    return verdict


def _repair(running: Kernel, program: Program, outcome: Outcome, verdict: Verdict) -> None:
    """Fill in what became of the first remedy."""
    if works(program, outcome):
        verdict.remedy = "not needed"
    elif verdict.remedies:
        first = verdict.remedies[0]
        verdict.remedy_text = f"{first['kind']}: {first['text']}"
        if "%sentinel_allow " in first["text"] and not REACHES:
            verdict.remedy, verdict.remedy_problem = "none", "there is no host outside to try it with"
            return
        worked, verdict.remedy_problem = try_remedy(running, program, first)
        verdict.remedy = "worked" if worked else "failed"
    elif place := works_elsewhere(running, program):
        verdict.remedy, verdict.remedy_problem = "missing", f"works under {place}"
    else:
        verdict.remedy = "none"
        verdict.remedy_problem = "" if program.none else "no profile helps, but a person would know a way"


def run_all(chosen: Sequence[Program], *, repair: bool = True) -> Iterator[Verdict]:
    """Run the programs in kernels that they share."""
    with host() as place, contextlib.ExitStack() as stack:
        kernels = Kernels(place, stack)
        for program in chosen:
            try:
                yield run_program(kernels.of(program), program, repair=repair)
            except (TimeoutError, AssertionError) as error:
                yield Verdict(program, got=f"not run to its end: {error}", false="not run to its end")
                kernels.give_up(program)
