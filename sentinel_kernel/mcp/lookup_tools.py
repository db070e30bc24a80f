"""The tools that look things up: what was refused of late, and what kernels use of what they may."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.audit import reading
from sentinel_kernel.audit.place import read_audit_settings
from sentinel_kernel.audit.schema import open_for_reading
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp.cell_outputs import OF_VIOLATION
from sentinel_kernel.mcp.plain_text import clean_json
from sentinel_kernel.mcp.running_tools import Answer

if TYPE_CHECKING:
    from sentinel_kernel.mcp.asking import Job
    from sentinel_kernel.mcp.kernel_pool import KernelPool
    from sentinel_kernel.mcp.kernel_session import KernelSession
    from sentinel_kernel.mcp.recent import Recent

Json = dict[str, Any]

DEFAULT_LIMIT, MOST = 20, 100
_COLUMNS = (
    "id", "ts", "last_ts", "count", "syscall_name", "action", "result", "errno", "profile", "rule", "resource",
    "arguments", "process", "line", "semantic_msg", "hint", "remedy", "cause", "function",
)  # fmt: skip
_UNTRUSTED = [
    "audit[].arguments",
    "audit[].function",
    "audit[].process",
    *(f"violations[].violation.{name}" for name in OF_VIOLATION),
]


class LookupTools:
    """Looks up what this server has seen, what the audit has, and what the kernels say."""

    def __init__(self, pool: KernelPool, recent: Recent, environment: dict[str, str]) -> None:
        self._pool = pool
        self._recent = recent
        self._environment = environment

    async def recent_violations(self, _job: Job, arguments: Json) -> Answer:
        """Return the newest violations: of this server's kernels, or of all the person's out of the audit."""
        limit = int(arguments.get("limit", DEFAULT_LIMIT))
        kernel = arguments.get("kernel")
        content: Json = {
            "violations": self._recent.newest(limit, kernel),
            "audit": [],
            "hint": "",
            "untrusted_fields": _UNTRUSTED,
        }
        if arguments.get("everywhere", False):
            try:
                content["audit"] = await asyncio.to_thread(self._refusals, limit)
            except (SentinelError, sqlite3.Error) as error:
                content["hint"] = f"The audit can't be read: {error}"
        return Answer(content)

    def _refusals(self, limit: int) -> list[Json]:
        """Return the newest refusals of all kernels of the person's, out of the audit."""
        connection = open_for_reading(_audit_path(self._environment))
        try:
            rows: list[Json] = []
            for execution in reading.executions(connection, refused=True, limit=limit):
                where = {name: execution.get(name) for name in ("kernel", "workspace", "actor")}
                for row in reading.refusals(connection, exec_id=int(execution["id"]), limit=limit):
                    rows.append({**where, **{name: row.get(name) for name in _COLUMNS}})  # noqa: PERF401
                if len(rows) >= limit:
                    break
        finally:
            connection.close()
        found: list[Json] = clean_json(rows[:limit])
        return found

    async def resource_usage(self, _job: Job, arguments: Json) -> Answer:
        """Return what each kernel, or one of them, uses of what it may."""
        name = arguments.get("kernel")
        kernels = [self._pool.find(name)] if name is not None else self._pool.kernels
        return Answer(
            {
                "most_kernels": self._pool.options.maximum,
                "kernels": [await self._used(kernel) for kernel in kernels],
            }
        )

    async def _used(self, kernel: KernelSession) -> Json:
        now = time.monotonic()
        used: Json = {
            "kernel": kernel.name,
            "profile": kernel.profile,
            "state": "busy" if kernel.busy else "idle",
            "cells": kernel.cells,
            "running_seconds": round(now - kernel.started, 1),
            "idle_seconds": 0.0 if kernel.busy else round(now - kernel.last_used, 1),
            "ended_after_idle_seconds": self._pool.options.idle_seconds,
            "limits": [],
            "kept_by": "",
            "newest_sample": None,
            "totals": None,
        }
        if not kernel.busy:
            told = await kernel.limits()
            used["profile"] = kernel.profile
            used["limits"], used["kept_by"] = told.get("limits") or [], str(told.get("kept_by") or "")
        try:
            used.update(await asyncio.to_thread(self._recorded, kernel.run_name))
        except (SentinelError, sqlite3.Error, OSError):
            used["totals"] = None  # without an audit there is no record
        return used

    def _recorded(self, kernel: str) -> Json:
        """Return what the audit has of a kernel: a sample, and what its cells came to."""
        connection = open_for_reading(_audit_path(self._environment))
        try:
            row = connection.execute(
                "SELECT id FROM runs WHERE kernel = ? ORDER BY started_ts DESC LIMIT 1", (kernel,)
            ).fetchone()
            if row is None:
                return {}
            samples = reading.samples(connection, run_id=row[0], most=1)
            totals = reading.totals(connection, row[0])
        finally:
            connection.close()
        sample = None
        if samples:
            when, memory, percent = samples[-1]
            sample = {"time_ms": when, "memory_bytes": memory, "cpu_percent": percent}
        return {"newest_sample": sample, "totals": totals}


def _audit_path(environment: dict[str, str]) -> str:
    settings = read_audit_settings(environment)
    if not settings.path or not os.path.exists(settings.path):
        raise SentinelError(settings.problem or "there is none (SENTINEL_AUDIT).", settings.remedy)
    return settings.path
