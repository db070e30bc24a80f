"""What a person is told of a change of profile: the difference, or why it took a fresh sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.status_page import LIMITS
from sentinel_kernel.policy.sizes_in_words import counted, size_text

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

_MOST_CALLS = 6


def changed(profile: str, told: Json, held: int, *, chinese: bool) -> Json:
    """Return the bundle of a change in place; ``told`` is the supervisor's answer, ``held`` how many files are held."""
    before, after = told.get("before") or {}, told.get("after") or {}
    rows = [
        ("变量" if chinese else "variables", "保留" if chinese else "kept, and everything that runs"),
    ]
    for field, english, zh in LIMITS:
        old, new = before.get(field), after.get(field)
        if old != new:
            shown = f"{_shown(field, old, chinese=chinese)} → {_shown(field, new, chinese=chinese)}"
            rows.append((zh if chinese else english, shown))
    for words, calls in (
        ("现在允许" if chinese else "now allowed", told.get("opened")),
        ("现在拒绝" if chinese else "now refused", told.get("closed")),
    ):
        if calls:
            rows.append((words, _names(calls, chinese=chinese)))
    rows += _files(told.get("commit"), held, chinese=chinese)
    notes = []
    if told.get("full"):
        label = {field: zh if chinese else english for field, english, zh in LIMITS}
        names = ", ".join(label.get(str(field), str(field)) for field in told["full"])
        notes.append(
            f"{names}：现有内容多于新配置允许的大小，因此大小不变。"
            if chinese
            else f"{names}: holds more than the new profile allows, and keeps its size."
        )
    if told.get("own"):
        notes.append(
            "您用 %sentinel_limit 设定的限制仍然有效（不超过上限）。"
            if chinese
            else "What you have set with %sentinel_limit stays in force, as far as the ceiling goes."
        )
    title = f"Sentinel：配置 {profile}" if chinese else f"Sentinel: profile {profile}"
    return rendering.table_bundle(title, rows, notes)


def why_fresh(told: Json, *, chinese: bool) -> str:
    """Return why a change could not be made in place; empty where there is nothing to say."""
    obstacles = [str(item) for item in told.get("obstacles") or ()]
    parts = []
    if "filesystem" in obstacles:
        parts.append("它挂载的文件夹不同" if chinese else "it shows other folders")
    if "network" in obstacles:
        parts.append(
            "它列出了主机，而当前沙箱没有对外出口"
            if chinese
            else "it lists hosts, and this sandbox was made without a way out"
        )
    if "proxy" in obstacles:
        parts.append(
            "它的 HTTP 规则或软件包索引不同"
            if chinese
            else "its rules of HTTP or its index of packages are others"
        )
    if "memory" in obstacles:
        used, most = size_text(told.get("in_use")), size_text(told.get("memory_bytes"))
        parts.append(
            f"它允许 {most} 内存，而已使用 {used}；删除不再需要的内容（del、gc）后再切换，变量就会保留"
            if chinese
            else f"it allows {most} of memory, and {used} are in use; variables stay if you first delete what is no "
            "longer needed: del, gc"
        )
    calls = [item for item in obstacles if item not in ("filesystem", "network", "proxy", "memory")]
    if calls:
        names = _names(calls, chinese=chinese)
        parts.append(
            f"沙箱的过滤器已固定这些调用：{names}"
            if chinese
            else f"the filter of the running sandbox is fixed for the calls {names}"
        )
    return ("；" if chinese else "; ").join(parts)


def _files(commit: object, held: int, *, chinese: bool) -> list[tuple[str, str]]:
    """Return the rows of what becomes of files: of new ones, where that is another, and of the ``held`` ones."""
    if not isinstance(commit, list) or len(commit) != 2 or commit[0] == commit[1]:
        return []
    if commit[1] == "none":
        now = (
            "保留在沙箱中，等待 %sentinel_commit" if chinese else "held in the sandbox until %sentinel_commit"
        )
    else:
        now = (
            "数据文件在单元格结束时自动保存"
            if chinese
            else "data files are saved by themselves at a cell's end"
        )
    rows = [("新文件" if chinese else "new files", now)]
    if held and commit[0] == "none":
        many = counted(held, "file")
        stay = (
            f"{held} 个文件仍保留在沙箱中；%sentinel_commit 会写入文件夹"
            if chinese
            else f"{many} that {'is' if held == 1 else 'are'} held {'stays' if held == 1 else 'stay'} so until "
            "%sentinel_commit"
        )
        rows.append(("已保留的文件" if chinese else "held files", stay))
    return rows


def _shown(field: str, value: object, *, chinese: bool) -> str:
    if value is None:
        if field == "cpu_count":
            return "全部" if chinese else "all"
        return "无限制" if chinese else "no limit"
    return size_text(value) if field.endswith("_bytes") else str(value)


def _names(calls: list[str], *, chinese: bool) -> str:
    shown = ", ".join(map(str, calls[:_MOST_CALLS]))
    if len(calls) > _MOST_CALLS:
        shown += f" 等 {len(calls)} 个" if chinese else f" and {len(calls) - _MOST_CALLS} more"
    return shown
