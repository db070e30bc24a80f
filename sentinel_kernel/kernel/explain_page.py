"""`%sentinel_explain`: one violation at length: what, where, which rule and why, and what to do instead."""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.ceiling import ASK, FREE
from sentinel_kernel.kernel.status_page import LIMITS
from sentinel_kernel.kernel.violations_page import cause_name
from sentinel_kernel.policy.alternatives import ASKS, NO, alternatives
from sentinel_kernel.policy.cause import CALL, CAUSES
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.remedy_words import on_its_page
from sentinel_kernel.policy.resource import NETWORK
from sentinel_kernel.policy.sizes_in_words import amount, size_text
from sentinel_kernel.policy.violation import Violation

if TYPE_CHECKING:
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.rendering import Part
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.alternatives import Alternative
    from sentinel_kernel.policy.profile import Profile

_NEIGHBOURS = 2
_MOST_CODE_LINES = 60
_MOST_NAMED = 6
_WORD = (1 << 64) - 1

_ORIGINS = {
    "profile": ("a rule of the profile", "配置中的规则"),
    "default": ("the profile's default: no rule of it names the call", "配置的默认动作：没有规则提到该调用"),
    "floor": ("fixed for every profile", "对所有配置固定不变"),
    "foreign": ("fixed for every profile: a call of another machine", "对所有配置固定不变：其他架构的调用"),
    "worker": ("the worker needs it, whatever the profile says", "运行单元格所必需，与配置无关"),
    "unknown": ("a call that this version does not know", "此版本不认识的调用"),
}


_SUBJECTS = {"path": "路径", "host": "主机", "address": "地址", "package": "软件包", "program": "程序"}
"""Kind of what was reached for, in Chinese."""


class ExplainPage:
    """Makes the page. ``audit`` is what the supervisor says of the audit: the database's path, and this run."""

    def __init__(self, host: Host, audit: Json) -> None:
        self._host = host
        self._audit = audit
        self._chinese = host.settings.language == "zh"

    def page(self, number: int) -> Json:
        """Return the page of the ``number``-th last violation."""
        told = self._host.outbox.told
        title = self._say("Sentinel: a refusal at length", "Sentinel：拒绝的详细说明")
        if number > len(told):
            nothing = self._say(
                f"There is none of number {number}: this session has {len(told)} so far.",
                f"没有第 {number} 条：本次会话目前共有 {len(told)} 条。",
            )
            note = self._say("%sentinel_violations lists them.", "%sentinel_violations 会列出所有记录。")
            return rendering.page_bundle(title, [], [nothing, note])
        record = told.newest(number)[0]
        violation = None
        with contextlib.suppress(ProtocolError):
            violation = Violation.from_json(record)
        parts = [rendering.rows_part(self._rows(record, violation, number))]
        parts += self._source(record)
        parts += self._remedies(record)
        if violation is not None:
            parts += self._profiles(violation)
        notes = [
            self._say(
                "%sentinel_violations lists all of this session; in a terminal, `sentinel-kernel explain PROFILE "
                "CALL` tells what a profile does with a call.",
                "%sentinel_violations 列出本次会话的全部记录；在终端中，`sentinel-kernel explain PROFILE CALL` "
                "会说明某个配置如何处理某个调用。",
            )
        ]
        return rendering.page_bundle(title, parts, notes)

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english

    # --- what, where, which rule

    def _rows(self, record: Json, violation: Violation | None, number: int) -> list[tuple[str, str]]:
        language = "zh" if self._chinese else "en"
        call = record.get("cause", CALL) == CALL
        rows = [
            (self._say("what", "内容"), rendering.said(record, "message", language)),
            (self._say("cause", "原因"), self._cause(record)),
            (self._say("call", "调用"), rendering.call_text(record) if call else ""),
            (self._say("limit", "限制"), self._limit(record)),
            (self._say("reached for", "对象"), self._subject(record)),
            (self._say("seen as", "表现为"), self._seen(record)),
            (self._say("since then", "此后"), self._since(record) if number == 1 else ""),
            (self._say("times", "次数"), self._times(record)),
            (self._say("where", "位置"), self._where(record)),
            (self._say("process", "进程"), self._process(record)),
            (self._say("rule", "规则"), f"{record.get('profile')}: {record.get('rule')}"),
            (self._say("why the rule", "规则的由来"), self._why(violation)),
            (self._say("what to do", "建议"), on_its_page(rendering.said(record, "hint", language))),
            (self._say("audit", "审计"), self._audit_row(record)),
        ]
        return [(name, value) for name, value in rows if value]

    def _since(self, record: Json) -> str:
        """Say that the cells after that of the newest refusal had none: it tells nothing of their failures."""
        of, last = record.get("execution_count"), self._host.execution.last_count
        if not isinstance(of, int) or of >= last:
            return ""
        return self._say(
            f"nothing was refused in the last cell ([{last}]): the newest refusal is that of cell [{of}]",
            f"最后一个单元格（[{last}]）中没有操作被拒绝：最近一次拒绝发生在单元格 [{of}]",
        )

    def _subject(self, record: Json) -> str:
        subject = record.get("subject")
        if self._chinese and isinstance(subject, dict) and (kind := _SUBJECTS.get(str(subject.get("kind")))):
            return f"{kind}：{subject.get('text')}"
        return _joined(subject, "kind", "text")

    def _cause(self, record: Json) -> str:
        name = cause_name(record, chinese=self._chinese)
        if record.get("confidence") == "likely":
            name += self._say(" (likely, not certain)", "（很可能，但不确定）")
        return name

    def _seen(self, record: Json) -> str:
        error = record.get("error")
        shown = [str(error.get("ename"))] if isinstance(error, dict) else []
        name = record.get("errno_name") or (error.get("errno_name") if isinstance(error, dict) else None)
        return " ".join([*shown, *([f"({name})" if shown else str(name)] if name else [])])

    def _times(self, record: Json) -> str:
        first, last = _clock(record.get("first_time_ms")), _clock(record.get("last_time_ms"))
        when = (
            first if first == last else self._say(f"from {first} to {last}", f"从 {first} 到 {last}")
        )  # fmt: skip
        return f"{record.get('count') or 1} ({when})"

    def _where(self, record: Json) -> str:
        parts = []
        if count := record.get("execution_count"):
            parts.append(self._say(f"cell [{count}]", f"单元格 [{count}]"))
        if line := record.get("line"):
            parts.append(self._say(f"line {line}", f"第 {line} 行"))
        function = record.get("function")
        if function and function != "<module>":
            parts.append(self._say(f"in {function}()", f"函数 {function}()"))
        if (library := record.get("library")) and isinstance(library, dict):
            place = f"{library.get('file')}:{library.get('line')} {library.get('function')}()"
            parts.append(self._say(f"through {place}", f"经由 {place}"))
        if thread := record.get("thread"):
            parts.append(self._say(f"thread {thread}", f"线程 {thread}"))
        if started := record.get("started_line"):
            parts.append(
                self._say(f"in a process that line {started} started", f"位于第 {started} 行启动的进程中")
            )
        return self._say(", ", "，").join(parts) or self._say("not known", "未知")

    def _limit(self, record: Json) -> str:
        limit = record.get("limit")
        if not isinstance(limit, dict):
            return ""
        unit, kept = str(limit.get("unit")), limit.get("backend")
        used, allowed = (
            "?" if limit.get(key) is None else amount(limit[key], unit, chinese=self._chinese)
            for key in ("used", "allowed")
        )
        told = self._say(
            f"{limit.get('name')}: {used} of {allowed}", f"{limit.get('name')}：{used} / {allowed}"
        )
        return f"{told} ({kept})" if kept else told

    def _process(self, record: Json) -> str:
        process = record.get("process")
        if not isinstance(process, dict) or process.get("is_worker", True):
            return ""
        return f"{process.get('command')} (pid {process.get('pid')})"

    def _why(self, violation: Violation | None) -> str:
        if violation is None:
            return ""
        if violation.cause != CALL:
            return "" if self._chinese else CAUSES[violation.cause].meaning
        told = _ORIGINS.get(violation.origin)
        origin = self._say(*told) if told else ""
        profile = self._load(violation.profile)
        if profile is None or violation.number is None:
            return origin
        policy = compiled(profile, os.uname().machine)
        values = [argument.value & _WORD for argument in violation.arguments][:6]
        arch = policy.architecture.audit_arch if violation.architecture == policy.architecture.machine else 0
        rule = policy.decide(arch, violation.number, (*values, *(0,) * (6 - len(values)))).rule
        reason = rule.reason if violation.origin != "default" else ""
        place = f" ({rule.place})" if rule.place else ""
        return ": ".join(filter(None, (origin, reason))) + place

    def _audit_row(self, record: Json) -> str:
        path, run = str(self._audit.get("path") or ""), str(self._audit.get("run") or "")
        if not path:
            return self._say("off", "已关闭") if self._audit.get("state") == "off" else ""
        import sqlite3  # noqa: PLC0415 - a few MB, for this page alone

        from sentinel_kernel.audit.reading import row_of  # noqa: PLC0415 - as above
        from sentinel_kernel.audit.schema import open_for_reading  # noqa: PLC0415 - as above

        try:
            with contextlib.closing(open_for_reading(path)) as connection:
                row, execution = row_of(
                    connection,
                    run_id=run,
                    violation_id=str(record.get("id")),
                    msg_id=str(record.get("cell")),
                )
        except (sqlite3.Error, SentinelError, OSError, TypeError, ValueError) as error:
            return self._say(f"it can't be read: {error}", f"无法读取：{error}")
        shown = [] if row is None else [self._say(f"row {row}", f"记录 {row}")]
        if execution is not None:
            shown.append(
                self._say(
                    f"execution {execution} (`sentinel-kernel audit show {execution}`)",
                    f"执行 {execution}（`sentinel-kernel audit show {execution}`）",
                )
            )
        return self._say(", ", "，").join(shown)

    # --- the line, the remedies, the profiles

    def _source(self, record: Json) -> list[Part]:
        line, source = record.get("line") or record.get("started_line"), record.get("source")
        code = self._host.outbox.told.code(record)
        heading = rendering.heading_part(self._say("The line", "所在的行"))
        if code is None or not isinstance(line, int) or not 1 <= line <= len(lines := code.split("\n")):
            return [heading, rendering.code_part([str(source)])] if source else []
        first, last = max(1, line - _NEIGHBOURS), min(len(lines), line + _NEIGHBOURS)
        width = len(str(last))
        shown = [
            f"{'→' if number == line else ' '} {number:>{width}}  {lines[number - 1]}"
            for number in range(first, last + 1)
        ]
        return [heading, rendering.code_part(shown)]

    def _remedies(self, record: Json) -> list[Part]:
        remedies = [remedy for remedy in record.get("remedies") or () if isinstance(remedy, dict)]
        if not remedies:
            return []
        kinds = {
            "magic": self._say("on top of the cell", "单元格首行"),
            "code": self._say("change of the code", "修改代码"),
            "command": self._say("in a terminal of the host", "在宿主终端中"),
        }
        rows, codes = [], list["Part"]()
        for place, remedy in enumerate(remedies, 1):
            why = rendering.said(remedy, "why", "zh" if self._chinese else "en")
            text = rendering.remedy_text(remedy, why, chinese=self._chinese)
            text += self._say(f" ({why})", f"（{why}）") if why and text != why else ""
            rows.append((f"{place}. {kinds.get(str(remedy.get('kind')), '')}", text))
            code = remedy.get("code")
            if isinstance(code, str) and code:
                changed = self._say(f"The changed cell ({place})", f"修改后的单元格（{place}）")
                codes += [
                    rendering.heading_part(changed),
                    rendering.code_part(_changed(self._host.outbox.told.code(record), code)),
                ]
        tried = self._say("What makes it work, least first", "可行的办法（影响最小的在前）")
        return [rendering.heading_part(tried), rendering.rows_part(rows), *codes]

    def _profiles(self, violation: Violation) -> list[Part]:
        current = self._load(violation.profile)
        if current is None:
            return []
        names = list_profiles(self._host.settings.profile_directories)
        profiles = [profile for name in names if (profile := self._load(name)) is not None]
        found = [
            other
            for other in alternatives(violation, current, profiles, os.uname().machine)
            if other.allows != NO
        ]
        headings = {
            "call": self._say("Profiles that allow it", "允许此操作的配置"),
            "limit": self._say(
                "Profiles with a wider limit, or a share of the machine", "限制更宽（或按机器比例）的配置"
            ),
            "path": self._say("Profiles that give it", "给予该路径的配置"),
        }
        kind = CAUSES[violation.cause].kind
        if kind not in headings:
            return []  # no profile brings a package, a name server or a life
        heading = rendering.heading_part(headings[kind])
        if not found:
            return [heading, rendering.rows_part([("-", self._say("none", "无"))])]
        header = [
            self._say("profile", "配置"),
            self._say("a cell gets it", "单元格切换"),
            self._say("what it gives beyond", "额外给予"),
        ]
        rows = [
            [
                other.profile.name + self._allowed(other, violation),
                self._granted(other.profile),
                self._beyond(other),
            ]
            for other in found
        ]
        return [heading, rendering.columns_part(header, rows)]

    def _granted(self, profile: Profile) -> str:
        granted = self._host.magics.granted(profile)
        if granted == FREE:
            return self._say("freely", "可自由切换")
        return self._say("if you agree", "需要您同意") if granted == ASK else self._say("not here", "不可")

    def _allowed(self, other: Alternative, violation: Violation) -> str:
        if other.allows == ASKS:
            return self._say(" (asks you)", "（会询问您）")
        if violation.resource == NETWORK:
            return self._say(" (its loopback alone)", "（仅回环接口）")
        return ""

    def _beyond(self, other: Alternative) -> str:
        limits = [
            f"{zh if self._chinese else english} {self._amount(other.profile, field)}"
            for field, english, zh in LIMITS
            if field in other.limits
        ]
        parts = []
        if other.calls:
            parts.append(self._say(f"calls: {_named(other.calls)}", f"调用：{_named(other.calls)}"))
        if limits:
            parts.append(self._say(f"wider limits: {', '.join(limits)}", f"更宽的限制：{'，'.join(limits)}"))
        if other.folders:
            parts.append(self._say(f"folders: {_named(other.folders)}", f"文件夹：{_named(other.folders)}"))
        return self._say("; ", "；").join(parts) or "-"

    def _amount(self, profile: Profile, field: str) -> str:
        value = getattr(profile.resources, field)
        if value is None:
            return self._say("all", "全部") if field == "cpu_count" else self._say("no limit", "无限制")
        if isinstance(value, str):
            return self._say(f"{value} of what is free", f"空闲内存的 {value}")
        return size_text(value) if field.endswith("_bytes") else str(value)

    def _load(self, name: str) -> Profile | None:
        try:
            return load_profile(name, self._host.settings.profile_directories)
        except (SentinelError, OSError):
            return None  # it is gone, or can't be read: then there is nothing to compare with


def _changed(before: str | None, after: str) -> list[str]:
    """Return the changed cell, or of a long one what changed."""
    lines = after.split("\n")
    if len(lines) <= _MOST_CODE_LINES or before is None:
        return lines[:_MOST_CODE_LINES]
    return list(difflib.unified_diff(before.split("\n"), lines, lineterm="", n=1))[2 : 2 + _MOST_CODE_LINES]


def _joined(value: object, *keys: str) -> str:
    return ": ".join(str(value.get(key)) for key in keys) if isinstance(value, dict) else ""


def _named(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" +{more}" if more > 0 else "")


def _clock(milliseconds: object) -> str:
    if not isinstance(milliseconds, int):
        return "?"
    return time.strftime("%H:%M:%S", time.localtime(milliseconds / 1000))
