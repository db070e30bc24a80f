"""Looks at code before it runs: what is dangerous in it, and what a profile would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.preflight_facts import gather
from sentinel_kernel.kernel.settings import profile_directories
from sentinel_kernel.policy.preflight import Notebook
from sentinel_kernel.policy.preflight_unread import unread
from sentinel_kernel.policy.profile import load_profile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.dangerous import DangerousNotebook
    from sentinel_kernel.policy.preflight_finding import Finding

Json = dict[str, Any]

REFUSE, ADVISE, OFF = "refuse", "advise", "off"
_MOST_NAMED = 3


class CodeCheck:
    """Finds what is dangerous or would be refused; profiles are read anew each time, as a person may edit theirs."""

    def __init__(self, workspace: str, environment: dict[str, str], language: str) -> None:
        self._workspace = workspace
        self._environment = environment
        self._language = language

    def known_profile(self, name: object) -> str:
        """Return the name of a profile that there is; empty where none is named. Raises ProfileError."""
        return load_profile(str(name), self._directories()).name if name else ""

    def _directories(self) -> tuple[str, ...]:
        return profile_directories(self._environment)

    def dangers(self, code: str, dangerous: str, read: DangerousNotebook) -> list[Json]:
        """Return what is dangerous in a cell that follows those that ``read`` has seen."""
        if dangerous == OFF:
            return []
        found = read.read(code)
        if dangerous == REFUSE and (fault := unread(code, skipped=read.skipped)) is not None:
            found = (*found, fault)  # what was not checked is not run
        return [finding.as_json() for finding in found]

    def refusals(self, cells: Iterable[str], profile: str) -> list[list[Json]]:
        """Return for each cell what ``profile`` would refuse, run in this order, and whether it can't be read."""
        notebook = Notebook(gather(profile, self._directories(), self._workspace))
        return [
            [
                finding.as_json()
                for finding in (*notebook.read(code), unread(code, skipped=notebook.skipped))
                if finding is not None
            ]
            for code in cells
        ]

    def found(self, code: str, profile: str) -> tuple[Finding, ...]:
        """Return what ``profile`` would refuse in one cell."""
        return Notebook(gather(profile, self._directories(), self._workspace)).read(code)

    def refusal(self, findings: list[Json], dangerous: str) -> str:
        """Return why code with these findings is not run, and what to do; empty where it may run."""
        if dangerous != REFUSE or not findings:
            return ""
        named = [
            f"Line {finding['line']}: {finding['message'][self._language]} {finding['hint'][self._language]}"
            for finding in findings[:_MOST_NAMED]
        ]
        return (
            f"The code was not run, as it is dangerous. {' '.join(named)} Rewrite it and call again; with the person's "
            "consent, dangerous='advise' runs it as it is."
        )
