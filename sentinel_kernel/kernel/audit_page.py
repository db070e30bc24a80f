"""The audit as the notebook shows it: `%sentinel_audit`, and a word where it can't be written."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.log import log
from sentinel_kernel.kernel.words import Words
from sentinel_kernel.policy.sizes_in_words import counted, size_text

if TYPE_CHECKING:
    import sqlite3

    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json

_ROWS = 12
_LINE_CHARACTERS = 70
_WIDTH, _HEIGHT = 560, 90
_POINTS = 160
_BARS = "▁▂▃▄▅▆▇█"
_STATUS_ZH = {"completed": "已完成", "error": "出错", "killed": "被终止", "running": "运行中"}


class AuditPage:
    """Keeps what the supervisor says of the audit, and makes the page."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.state: Json = {}
        """The last that was heard: state (on, off, failing), path, reason, remedy, lost, late, alerts_failed."""
        self._said: set[str] = set()

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._host.settings.language == "zh" else english

    def changed(self, state: Json) -> None:
        """Take a new state; a trouble is shown once, in the newest cell or the next."""
        self.state = state
        trouble = _trouble(state)
        if trouble is None:
            self._said.clear()
            return
        told, about = trouble
        if about in self._said:
            return
        self._said.add(about)
        log(told.message("en"))
        host = self._host
        running = next(reversed(host.execution.running.values()), None)
        if running is not None and running.began and not running.silent:
            host.displays.notice(told, "notice", running.request.header)
        else:
            host.displays.waiting.append(told)

    def row(self) -> tuple[str, str]:
        """Return the row of the status page."""
        state = self.state
        label = self._say("audit", "审计")
        trouble = _trouble(state)
        if trouble is not None:
            return label, trouble[0].message(self._host.settings.language)
        if state.get("state") == "off":
            return label, self._say("off", "已关闭")
        shown = str(state.get("path") or self._say("on", "已开启"))
        if late := state.get("late"):
            shown += self._say(
                f" (rows of {late} kills or refused questions got to the disk late)",
                f"（{late} 次终止或被拒的询问的记录较晚落盘）",
            )
        return label, shown

    def page(self, state: Json) -> Json:
        """Return the page of this kernel's own rows; ``state`` is what the supervisor answered."""
        self.state = state or self.state
        title = self._say("Sentinel: audit", "Sentinel：审计")
        name, value = self.row()
        path, run = str(self.state.get("path") or ""), str(self.state.get("run") or "")
        if not path:
            return rendering.table_bundle(title, [(name, value)])
        try:
            rows, chart = self._read(path, run)
        except SentinelError as error:
            rows, chart = [(self._say("problem", "问题"), str(error))], ""
        note = self._say(
            "Outside: `sentinel-kernel audit list`, `show ID`, `export`, `verify`.",
            "在终端中：`sentinel-kernel audit list`、`show ID`、`export`、`verify`。",
        )
        bundle = rendering.table_bundle(title, [(name, value), *rows], [note])
        if chart:
            bundle["text/html"] = bundle["text/html"].removesuffix("</div>") + chart + "</div>"
        return bundle

    def _read(self, path: str, run: str) -> tuple[list[tuple[str, str]], str]:
        """Return the page's rows and the chart. Raises SentinelError, whatever somebody wrote into the database."""
        import sqlite3  # noqa: PLC0415 - a few MB, for this page alone

        from sentinel_kernel.audit.schema import open_for_reading  # noqa: PLC0415 - as above

        try:
            with contextlib.closing(open_for_reading(path)) as connection:
                rows, points = self._rows(connection, run)
            return rows, self._chart(points) if points else ""
        except (sqlite3.Error, TypeError, ValueError, ArithmeticError, AttributeError, OSError) as error:
            why = self._say(f"The audit can't be read: {error}.", f"无法读取审计：{error}。")
            raise SentinelError(why) from error

    def _rows(
        self, connection: sqlite3.Connection, run: str
    ) -> tuple[list[tuple[str, str]], list[tuple[int, int, float]]]:
        from sentinel_kernel.audit import reading  # noqa: PLC0415 - as above

        totals = reading.totals(connection, run)
        points = reading.samples(connection, run_id=run)
        told = self._say(
            f"{counted(totals['executions'], 'execution')}, {totals['failed']} failed, {totals['killed']} killed; "
            f"{counted(totals['refusals'], 'call')} refused (different ones: {totals['kinds']})",
            f"{totals['executions']} 次执行，{totals['failed']} 次出错，{totals['killed']} 次被终止；"
            f"{totals['kinds']} 类系统调用共被拒绝 {totals['refusals']} 次",
        )
        rows = [(self._say("this kernel", "此内核"), told)]
        for label, values, shown in (
            (self._say("memory", "内存"), [point[1] for point in points], size_text),
            (self._say("CPU", "处理器"), [point[2] for point in points], lambda value: f"{value:.0f} %"),
        ):
            if values:
                rows.append(
                    (label, f"{sparkline(values)}  {self._say('at most', '最高')} {shown(max(values))}")
                )
        executions = reading.executions(connection, run_id=run, limit=_ROWS)
        rows += [(f"#{execution['id']}", self._execution(execution)) for execution in executions]
        refused = self._say("refused", "被拒绝")
        rows += [
            (refused, self._refusal(row)) for row in reading.refusals(connection, run_id=run, limit=_ROWS)
        ]
        return rows, points

    def _execution(self, execution: dict[str, Any]) -> str:
        code = str(execution["command"] or "").strip().split("\n")[0]
        started = time.strftime("%H:%M:%S", time.localtime(execution["start_ts"] / 1000))
        parts = [
            started,
            str(execution["profile"]),
            self._status(str(execution["status"] or "running")),
        ]
        if execution["end_ts"] is not None:
            parts.append(f"{(execution['end_ts'] - execution['start_ts']) / 1000:.2f} s")
        if execution["result"] not in (None, "ok"):
            parts.append(str(execution["result"]))
        if execution["mem_peak_bytes"]:
            parts.append(size_text(execution["mem_peak_bytes"]))
        if execution["refusals"]:
            parts.append(self._say(f"{execution['refusals']} refused", f"拒绝 {execution['refusals']} 次"))
        return f"{', '.join(parts)}: {rendering.printable(code, _LINE_CHARACTERS)}"

    def _status(self, name: str) -> str:
        return self._say(name, _STATUS_ZH.get(name, name))

    def _refusal(self, refusal: dict[str, Any]) -> str:
        said = refusal["semantic_msg_zh" if self._host.settings.language == "zh" else "semantic_msg"]
        line = self._say(f", line {refusal['line']}", f"，第 {refusal['line']} 行") if refusal["line"] else ""
        return f"#{refusal['exec_id']}{line} ×{refusal['count']}: {said or refusal['syscall_name'] or refusal['cause']}"

    def _chart(self, points: list[tuple[int, int, float]]) -> str:
        """Return memory and processor use over time as a picture that needs no script."""
        first, last = points[0][0], points[-1][0]
        span = max(1, last - first)
        lines = []
        for index, colour, dashes in (
            (1, "--jp-brand-color1,#1565c0", ""),
            (2, "--jp-warn-color1,#b26a00", ' stroke-dasharray="6 3"'),
        ):
            top = max(1.0, *(float(point[index]) for point in points))
            marks = " ".join(
                f"{(point[0] - first) / span * _WIDTH:.1f},{_HEIGHT - float(point[index]) / top * (_HEIGHT - 4):.1f}"
                for point in _thinned(points)
            )
            lines.append(
                f'<polyline fill="none" stroke="var({colour})" stroke-width="1.5"{dashes} points="{marks}"></polyline>'
            )
        memory = size_text(max(point[1] for point in points))
        percent = max(point[2] for point in points)
        caption = self._say(
            f"memory (full line, at most {memory}) and CPU (dashed, at most {percent:.0f} %) over {span / 1000:.0f} s",
            f"{span / 1000:.0f} 秒内的内存（实线，最高 {memory}）与处理器（虚线，最高 {percent:.0f} %）",
        )
        return (
            f'<svg role="img" aria-label="{rendering.escape(caption)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'width="100%" height="{_HEIGHT}" preserveAspectRatio="none">{"".join(lines)}</svg>'
            f'<div style="font-size:0.92em">{rendering.escape(caption)}</div>'
        )


def _trouble(state: Json) -> tuple[Words, str] | None:
    """Return what to tell a person of the audit's state, and what tells one trouble from another."""
    reason, remedy = str(state.get("reason") or ""), str(state.get("remedy") or "")
    if state.get("state") == "failing":
        from sentinel_kernel.audit.chinese import chinese  # noqa: PLC0415 - only where there is a trouble

        return Words(
            f"The audit trail can't be written: {reason} Cells go on; what they do is not recorded meanwhile.",
            f"审计记录无法写入：{chinese(reason)} 单元格会继续运行，但此间的操作不会被记录。",
            remedy or "Set SENTINEL_AUDIT to a file that can be written, or to off.",
            chinese(remedy) or "请将 SENTINEL_AUDIT 设为可写的文件，或设为 off。",
        ), f"failing {reason}"
    lost = int(state.get("lost") or 0) + int(state.get("dropped") or 0)
    if lost:
        return Words(
            f"The audit trail has a gap: {counted(lost, 'row')} could not be written.",
            f"审计记录有缺失：{lost} 行未能写入。",
            "Look at the disk that holds it; sentinel-kernel audit list says which rows are there.",
            "请检查其所在磁盘；sentinel-kernel audit list 可列出现有记录。",
        ), "gaps"
    if state.get("alerts_failed"):
        why = str(state.get("alerts_reason") or "")
        return Words(
            f"{state['alerts_failed']} alerts of the audit could not be delivered: {why}",
            f"审计的 {state['alerts_failed']} 条警报未能送达：{why}",
            "Check SENTINEL_AUDIT_ALERT; the rows themselves are in the database.",
            "请检查 SENTINEL_AUDIT_ALERT；记录本身已在数据库中。",
        ), "alerts"
    return None


def _thinned(points: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    """Return at most so many points as the picture has room for; of those left out the highest stays."""
    if len(points) <= _POINTS:
        return points
    size = len(points) / _POINTS
    groups = [points[int(start * size) : int((start + 1) * size)] for start in range(_POINTS)]
    return [max(group, key=lambda point: point[1]) for group in groups if group]


def sparkline(values: list[float] | list[int], width: int = 40) -> str:
    """Return the values' course as one line of text."""
    count = min(width, len(values))
    step = len(values) / count
    shown = [max(values[int(start * step) : int((start + 1) * step)]) for start in range(count)]
    top = max(1, *shown)
    return "".join(_BARS[min(len(_BARS) - 1, int(value / top * (len(_BARS) - 1)))] for value in shown)
