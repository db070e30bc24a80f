"""What preflight has to say of one cell: when it is shown, and how it becomes one message with the violation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.words import Words
from sentinel_kernel.policy.preflight_finding import CERTAIN, DANGEROUS_RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.preflight_finding import Finding

__all__ = ["CERTAIN", "MOST_SHOWN", "Advice", "refusal"]

MOST_SHOWN = 5


class Advice:
    """Findings of a cell that runs all the same.

    What would end the sandbox, or comes when the lines before it have had effects, is shown before the cell runs. All
    else waits: the refusal itself will say it. Where no refusal came and nothing failed (a shell line prints its own
    error, and the cell goes on) it is shown at the cell's end.
    """

    def __init__(
        self, host: Host, cell: Cell, findings: Sequence[Finding], helped: Callable[[Finding], Finding]
    ) -> None:
        """``helped`` adds to a finding what helps; it is asked for those that are shown."""
        self._host = host
        self._helped = helped
        self._cell = cell
        self._waiting = [finding for finding in findings if not _first(finding)]
        self._to_show = [finding for finding in findings if _first(finding)][:MOST_SHOWN]
        self._shown: list[tuple[Finding, str]] = []
        """With what helps, which takes its time to find out, and the display."""

    def show(self) -> None:
        """Show what can't wait; the cell's execute_input has just gone out."""
        for finding in map(self._helped, self._to_show):
            self._shown.append((finding, self._notice(finding)))
        self._to_show = []

    def _notice(self, finding: Finding, display_id: str = "") -> str:
        host = self._host
        display_id = display_id or host.displays.new_id()
        bundle = rendering.notice_bundle(
            _words(finding), host.settings.language, "notice", {"preflight": finding.as_json()}
        )
        host.outbox.display(bundle, self._cell.request.header, display_id)
        return display_id

    def take(self, violation: Json) -> str:
        """Return the display that ``violation`` takes the place of, once; "" where it needs one of its own."""
        # The refusal may be told before the worker's execute_input has come: then it is all that is said.
        self._to_show = [
            finding
            for finding in self._to_show
            if finding.rules == DANGEROUS_RULES or not self._is_about(violation, finding)
        ]
        for index, (finding, display_id) in enumerate(self._shown):
            if finding.rules != DANGEROUS_RULES and self._is_about(violation, finding):
                del self._shown[index]
                return display_id
        return ""

    def show_again(self) -> None:
        """Show what was shown: the cell's outputs were cleared."""
        for finding, display_id in self._shown:
            self._notice(finding, display_id)

    def ends(self) -> None:
        """Show what nothing else has said; the cell is not idle yet."""
        told = [shown.violation for shown in self._cell.violations.values()]
        left = [
            finding
            for finding in self._waiting
            if not finding.raises and not any(self._is_about(violation, finding) for violation in told)
        ]
        self._waiting = []
        if not self._cell.failed and not self._cell.ename:
            for finding in left[:MOST_SHOWN]:
                self._notice(self._helped(finding))

    def _is_about(self, violation: Json, finding: Finding) -> bool:
        """Tell whether a violation says what the finding says."""
        places = {violation.get("line"), violation.get("started_line")} - {None}
        if places and violation.get("cell") in (None, self._cell.request.msg_id):
            return finding.line in places
        # Its line is not known, or is that of an earlier cell's function, which this one's line has called.
        if finding.syscall:
            return violation.get("syscall") == finding.syscall
        return violation.get("cause") == finding.cause


def refusal(findings: Sequence[Finding], language: str) -> Json:
    """Return the error of a cell that is not run: line, cause and hint of each finding."""
    end = "单元格未运行。" if language == "zh" else "The cell was not run."
    told, traceback = [], [f"PreflightRefusal: {end}"]
    for finding in findings[:MOST_SHOWN]:
        words = _words(finding)
        message, hint = words.message(language), f"HINT → {words.hint(language)}"
        told += [message, hint]
        traceback += [f"----> {finding.line} {finding.source}", f"[SEMANTIC] {message}", hint]
    return {"ename": "PreflightRefusal", "evalue": " ".join([*told, end]), "traceback": traceback}


def _first(finding: Finding) -> bool:
    return finding.kills or finding.after_effects or finding.rules == DANGEROUS_RULES


def _words(finding: Finding) -> Words:
    return Words(
        f"Line {finding.line}: {finding.message.en}",
        f"第 {finding.line} 行：{finding.message.zh}",
        finding.hint.en,
        finding.hint.zh,
    )
