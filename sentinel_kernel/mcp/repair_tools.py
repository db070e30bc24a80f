"""The tools for whoever repairs code: what an error means, the changed code, and what will be refused."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.kernel.leeway_in_force import leeway_in_force
from sentinel_kernel.mcp.kernel_pool import DEFAULT_KERNEL
from sentinel_kernel.mcp.notebook_document import CodeCell, read_cells
from sentinel_kernel.mcp.plain_text import clean_json
from sentinel_kernel.mcp.running_tools import Answer
from sentinel_kernel.policy.cell_source import parses
from sentinel_kernel.policy.dangerous import DangerousNotebook
from sentinel_kernel.policy.repair_advice import (
    UnknownError,
    as_json,
    repair_of,
    suggest_repair,
    translate_error,
)
from sentinel_kernel.policy.violation import Violation
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from sentinel_kernel.mcp.asking import Job
    from sentinel_kernel.mcp.code_check import CodeCheck
    from sentinel_kernel.mcp.kernel_pool import KernelPool
    from sentinel_kernel.mcp.profile_tools import ProfileTools
    from sentinel_kernel.mcp.recent import Recent
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.repair_advice import Repair

Json = dict[str, Any]
_SWITCH = "%sentinel_profile"
_NO_CELL = (
    "original_code does not parse as a cell, so none is returned: give the whole cell. For a whole one:",
    "original_code 无法作为单元格解析，因此未返回代码：请给出完整的单元格。对于完整的单元格：",
)


class RepairTools:
    """Answers from the policy: nothing is run, and nothing is proposed that would not change the outcome."""

    def __init__(
        self, pool: KernelPool, profiles: ProfileTools, check: CodeCheck, recent: Recent, language: str
    ) -> None:
        self._pool = pool
        self._profiles = profiles
        self._check = check
        self._recent = recent
        self._language = language
        self._machine = os.uname().machine

    async def translate_error(self, job: Job, arguments: Json) -> Answer:
        """Tell what an error of the sandbox means, and what helps."""
        if arguments.keys() & {"details", "path"} and not arguments.keys() & {"signal", "errno", "syscall"}:
            raise SentinelError(
                "Give a signal, an errno or a system call.",
                "Words alone are not interpreted: anything can print them.",
            )
        profile = self._profile(arguments)
        errno = arguments.get("errno")
        try:
            told = translate_error(
                _within_reach(job, await self._leeway(profile)),
                profile=profile,
                machine=self._machine,
                signal=arguments.get("signal"),
                errno=errno,
                syscall=arguments.get("syscall"),
                path=arguments.get("path"),
            )
        except UnknownError as error:
            raise SentinelError(str(error)) from None
        return Answer({**_plain(as_json(told)), "profile": profile, "confidence": "likely"})

    async def suggest_repair(self, job: Job, arguments: Json) -> Answer:
        """Return the code changed so that it runs, or the line to put on top of it; checked, or none."""
        code = str(arguments["original_code"])
        if not arguments.keys() & {"violation_id", "syscall"}:
            raise SentinelError(
                "Give violation_id or syscall: one of them is needed.",
                "run_cell and recent_violations tell the id of each violation.",
            )
        violation = self._violation(arguments.get("violation_id"))
        profile = str(violation.profile) if violation is not None else self._profile(arguments)
        leeway = _within_reach(job, await self._leeway(profile, arguments.get("kernel", DEFAULT_KERNEL)))

        def repaired() -> Json:
            repair = (
                repair_of(violation, code, leeway)
                if violation is not None
                else suggest_repair(
                    str(arguments["syscall"]),
                    code,
                    leeway,
                    profile=profile,
                    machine=self._machine,
                    path=arguments.get("path"),
                )
            )
            return self._told(repair, code, profile)

        try:
            # Long code takes a second or more: the server answers other calls meanwhile.
            return Answer(await asyncio.to_thread(repaired))
        except UnknownError as error:
            raise SentinelError(str(error)) from None

    def _told(self, repair: Repair, code: str, profile: str) -> Json:
        """Return a repair with the whole cell to run next, and what preflight says of that."""
        changed = repair.code if repair.code is not None else code
        helps = repair.code is not None or repair.magic is not None
        repaired = (
            f"{repair.magic}\n{changed}" if repair.magic is not None and repair.code is None else changed
        )
        hint = repair.why.zh if self._language == "zh" else repair.why.en
        if helps and not parses(repaired):
            helps, hint = False, f"{_NO_CELL[self._language == 'zh']} {hint}"
        findings: list[Json] = []
        if helps:
            words = (repair.magic or "").split() if repair.code is None else []
            under = words[1] if words[:1] == [_SWITCH] and len(words) > 1 else profile
            findings = [finding.as_json() for finding in self._check.found(repaired, under)]
        return {
            **_plain(as_json(repair)),
            "repaired_code": repaired if helps else None,
            "profile": profile,
            "preflight": findings,
            "hint": hint,
        }

    def _violation(self, identifier: object) -> Violation | None:
        """Return a violation that this server has seen, by its id."""
        if identifier is None:
            return None
        record = self._recent.find(str(identifier))
        if record is None:
            raise SentinelError(
                f"No violation with the id {str(identifier)[:60]!r} was seen here.",
                "recent_violations lists those that were; without violation_id, syscall alone is gone by.",
            )
        try:
            return Violation.from_json(record)
        except ProtocolError as error:
            raise SentinelError(f"The violation can't be used: {error}") from None

    def _profile(self, arguments: Json) -> str:
        """Return the profile that is meant: the one that is named, else that of the kernel in use."""
        if wanted := self._check.known_profile(arguments.get("profile")):
            return wanted
        kernel = next((one for one in self._pool.kernels if one.name == DEFAULT_KERNEL), None)
        return kernel.profile if kernel is not None else self._pool.options.profile

    async def _leeway(self, profile: str, name: str = DEFAULT_KERNEL) -> Leeway:
        """Return how far cells may go; with limits and sandbox of the kernel in use, where it is under the profile."""
        kernel = next((one for one in self._pool.kernels if one.name == name), None)
        ready: Json = {}
        if kernel is not None and kernel.profile == profile and not kernel.busy:
            told = await kernel.limits()
            sandbox = told.get("sandbox")
            rows = [row for row in told.get("limits") or [] if isinstance(row, dict)]
            ready = dict(sandbox) if isinstance(sandbox, dict) else {}
            ready |= {
                key: {str(row.get("field")): row.get(column) for row in rows}
                for key, column in (("sizes", "value"), ("ceiling", "ceiling"))
            }
        return leeway_in_force(self._profiles.settings(), ready)

    async def scan(self, job: Job, arguments: Json) -> Answer:
        """Tell what of code would be refused, or is dangerous, without running it."""
        code = arguments.get("code")
        if code is None:
            cells = read_cells(self._pool.options.workspace, arguments.get("path"), arguments.get("document"))
        elif arguments.keys() & {"path", "document"}:
            raise SentinelError("Give one of 'code', 'path' and 'document'.")
        else:
            cells = [CodeCell(str(code))]
        profile, dangerous = self._profile(arguments), arguments.get("dangerous", "advise")
        return Answer(await asyncio.to_thread(self._scanned, job, cells, profile, dangerous))

    def _scanned(self, job: Job, cells: list[CodeCell], profile: str, dangerous: str) -> Json:
        refused = self._check.refusals((cell.code for cell in job.while_wanted(cells)), profile)
        read = DangerousNotebook()
        told: list[Json] = []
        # A client that has given the call up gets no result: of its code there is less then.
        for cell, findings in zip(job.while_wanted(cells), refused, strict=False):
            both = findings + self._check.dangers(cell.code, dangerous, read)
            told.append(
                {
                    "number": cell.number,
                    "notebook_cell": cell.notebook_cell,
                    "findings": sorted(both, key=lambda one: (one["line"], one["column"])),
                }
            )
        count = sum(len(one["findings"]) for one in told)
        return {
            "profile": profile,
            "cells": [one for one in told if one["findings"]],
            "cells_total": len(cells),
            "findings_total": count,
            "untrusted_fields": ["cells[].findings[].source", "cells[].findings[].subject"],
        }


def _within_reach(job: Job, leeway: Leeway) -> Leeway:
    """Return how far cells may go for this client: what takes an answer helps nobody where it can't ask a person."""
    return leeway if job.can_ask else replace(leeway, asks=False)


def _plain(document: Json) -> Json:
    cleaned: Json = clean_json(document)
    return cleaned
