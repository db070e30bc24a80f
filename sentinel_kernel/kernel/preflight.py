"""Looks at each cell before it runs, and says what of it will be refused; refuses it itself where that is asked for.

The rules are imported when a cell first has a word in it that they are about (policy/preflight_tokens.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.log import log
from sentinel_kernel.policy.preflight_tokens import (
    DANGEROUS_PARTS,
    DANGEROUS_WORDS,
    PARTS,
    WORDS,
    may_matter,
)

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.preflight_magic import PreflightChange
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.dangerous import DangerousNotebook
    from sentinel_kernel.policy.preflight import Notebook
    from sentinel_kernel.policy.preflight_finding import Finding

OFF, REFUSE = "off", "refuse"

WARM_SECONDS = 1.0
"""How long after a first cell the rules are imported, if nothing runs then: it takes some 60 ms."""

_MOST_CHARACTERS = 64 * 1024
"""A longer cell is not looked at: reading it would keep the person waiting."""

_MOST_PENDING = 128 * 1024
"""How much text of earlier cells is kept for the day when one of them matters."""


class Preflight:
    """Examines the cells of one kernel, each in the light of those before it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.mode = host.settings.preflight
        self.dangerous = host.settings.dangerous
        self._warming = False
        self._worker: object = None
        self._profile = ""
        self._pending: list[str] = []
        """Cells that had nothing in them; they may have bound names."""
        self._notebook: Notebook | None = None
        self._dangerous_notebook: DangerousNotebook | None = None
        self._granted: tuple[str, ...] = ()

    def granted(self, rule: str) -> None:
        """Take note of hosts that the person has allowed for the session."""
        self._granted = (*self._granted, rule)
        self._profile = ""  # what is known of the sandbox is gathered anew

    @property
    def refuses(self) -> bool:
        """Whether a cell has to wait until it was looked at."""
        return REFUSE in (self.mode, self.dangerous)

    def examine(self, cell: Cell) -> Json:
        """Look at a cell that is about to run: return the error that refuses it, or nothing."""
        too_long = len(cell.code) > _MOST_CHARACTERS
        if (self.mode == OFF and self.dangerous == OFF) or (too_long and not self.refuses):
            return {}
        if not self._warming:
            self._warming = True
            self._host.loop.call_later(WARM_SECONDS, self._warm)
        if self._host.lifecycle.inner is not self._worker:
            self._worker = self._host.lifecycle.inner
            self._pending.clear()
            self._notebook = self._dangerous_notebook = None
        try:
            if not self._may_matter(cell.code):
                if not too_long:
                    self._keep(cell.code)
                return {}
            return self._examined(cell)
        except Exception as error:  # noqa: BLE001 - no cell's text may end the host, whatever the rules make of it
            log(f"A cell could not be looked at before it ran: {error!r}")
            return _unchecked(self._host.settings.language) if self.refuses else {}

    def _warm(self) -> None:
        """Have the rules at hand, in a moment when nothing runs: the first cell that needs them would wait for them."""
        if self._host.execution.running or self._host.execution.waiting:
            self._host.loop.call_later(WARM_SECONDS, self._warm)
            return
        try:
            self._under_profile()
        except Exception as error:  # noqa: BLE001 - as above
            log(f"Cells can't be looked at before they run: {error!r}")

    def _may_matter(self, code: str) -> bool:
        if self.mode != OFF:
            known = self._notebook
            if may_matter(code, WORDS, PARTS) if known is None else known.may_matter(code):
                return True
        return self.dangerous != OFF and may_matter(code, DANGEROUS_WORDS, DANGEROUS_PARTS)

    def change(self, change: PreflightChange) -> Json:
        """Do as a magic says from this cell on; return the page that tells what is done."""
        from sentinel_kernel.kernel.preflight_magic import modes_page  # noqa: PLC0415 - only for the magic

        self.mode = change.mode or self.mode
        self.dangerous = change.dangerous or self.dangerous
        return modes_page(self.mode, self.dangerous, chinese=self._host.settings.language == "zh")

    def _keep(self, code: str) -> None:
        self._pending.append(code)
        while sum(map(len, self._pending)) > _MOST_PENDING:
            del self._pending[0]

    def _examined(self, cell: Cell) -> Json:
        from sentinel_kernel.kernel import advice  # noqa: PLC0415 - only for cells that have something in them

        if self.refuses and (fault := self._unread(cell.code)) is not None:
            return advice.refusal([fault], self._host.settings.language)
        findings = self._findings(cell)
        if fault := self._skipped(cell.code):
            findings = (fault, *findings)
        refused = [finding for finding in findings if self._refuses(finding)]
        if refused:
            for notebook in (self._notebook, self._dangerous_notebook):
                if notebook is not None:
                    notebook.take_back()
            told = [self._with_remedies(finding, cell) for finding in refused[: advice.MOST_SHOWN]]
            return advice.refusal(told, self._host.settings.language)
        told = [finding for finding in findings if finding.confidence == advice.CERTAIN]
        if told and not cell.silent:
            cell.advice = advice.Advice(
                self._host, cell, told, lambda finding: self._with_remedies(finding, cell)
            )
        return {}

    def _with_remedies(self, finding: Finding, cell: Cell) -> Finding:
        """Return the finding with what helps; as it is where the words or the profiles can't be read."""
        from sentinel_kernel.kernel.leeway_in_force import leeway_in_force  # noqa: PLC0415 - as above
        from sentinel_kernel.policy.preflight_expected import with_remedies  # noqa: PLC0415 - as above

        try:
            answers = cell.client_answers
            leeway = leeway_in_force(self._host.settings, self._host.lifecycle.ready, takes_input=answers)
            return with_remedies(finding, self._under_profile().policy, cell.code, leeway)
        except Exception as error:  # noqa: BLE001 - as above
            log(f"What helps could not be found out: {error!r}")
            return finding

    def _refuses(self, finding: Finding) -> bool:
        from sentinel_kernel.policy.preflight_finding import CERTAIN, DANGEROUS_RULES  # noqa: PLC0415 - as above

        if finding.cause == "unread":
            return self.refuses
        if finding.rules == DANGEROUS_RULES:
            return self.dangerous == REFUSE
        return self.mode == REFUSE and finding.confidence == CERTAIN

    def _unread(self, code: str) -> Finding | None:
        """Return what keeps a cell from being read at all."""
        from sentinel_kernel.policy.preflight_unread import unread  # noqa: PLC0415 - as above

        return unread(code, longest=_MOST_CHARACTERS)

    def _skipped(self, code: str) -> Finding | None:
        """Return what kept the rules, where they refuse cells, from following the one that was just read."""
        from sentinel_kernel.policy.preflight_unread import unread  # noqa: PLC0415 - as above

        modes = ((self.mode, self._notebook), (self.dangerous, self._dangerous_notebook))
        skipped = any(mode == REFUSE and book is not None and book.skipped for mode, book in modes)
        return unread(code, skipped=True) if skipped else None

    def _findings(self, cell: Cell) -> tuple[Finding, ...]:
        from sentinel_kernel.policy.dangerous import DangerousNotebook  # noqa: PLC0415 - as above

        notebook = self._under_profile()
        if self._dangerous_notebook is None and self.dangerous != OFF:
            self._dangerous_notebook = DangerousNotebook()
        for earlier in self._pending:
            notebook.read(earlier)
            if self._dangerous_notebook is not None:
                self._dangerous_notebook.read(earlier)
        self._pending.clear()
        found = notebook.read(cell.code) if self.mode != OFF else ()
        if self._dangerous_notebook is not None and self.dangerous != OFF:
            found = (*self._dangerous_notebook.read(cell.code), *found)
        return found

    def _under_profile(self) -> Notebook:
        """Return the notebook as it was read so far, under the profile in force."""
        from sentinel_kernel.kernel.preflight_facts import gather  # noqa: PLC0415 - as above
        from sentinel_kernel.policy.preflight import Notebook  # noqa: PLC0415 - as above
        from sentinel_kernel.record import replace  # noqa: PLC0415 - as above

        settings, profile = self._host.settings, self._host.lifecycle.profile
        if self._notebook is None or profile != self._profile:
            facts = gather(profile, settings.profile_directories, settings.workspace, settings.python)
            facts = replace(facts, granted=self._granted)
            if self._notebook is None:
                self._notebook = Notebook(facts)
            else:
                self._notebook.under(facts)
            self._profile = profile
        return self._notebook


def _unchecked(language: str) -> Json:
    """Return the error of a cell that could not be looked at, where those that will be refused are not run."""
    told, hint = (
        ("无法检查此单元格，因此未运行。", "HINT → 原因见内核日志；请拆分或简化此单元格。")
        if language == "zh"
        else (
            "This cell could not be checked, so it was not run.",
            "HINT → The kernel's log says why; split the cell, or write it more simply.",
        )
    )
    traceback = [f"PreflightRefusal: {told}", hint]
    return {"ename": "PreflightRefusal", "evalue": f"{told} {hint}", "traceback": traceback}
