"""`%sentinel_limit`: what is typed, read and checked, and the pages that answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.limit_words import NOT_HELD, PROCESSOR, UNHELD
from sentinel_kernel.policy.mime import LIMITS_TYPE
from sentinel_kernel.policy.own_limits import HELD_BY_GROUP_ALONE, LEAST
from sentinel_kernel.policy.sizes_in_words import amount
from sentinel_kernel.policy.spelling import closest
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.wire import Json

_OF_SANDBOX = ("fenced", "rung", "rung_words")
"""What of the ``ready`` event those need who look for remedies outside the host (kernel/leeway_in_force.py)."""

NAMES = {
    "memory": ("memory_bytes", "bytes", "memory", "内存"),
    "cpu": ("cpu_count", "count", "processors", "处理器"),
    "pids": ("pids", "count", "processes and threads", "进程和线程数"),
    "disk": ("disk_bytes", "bytes", "new and changed files", "新增和改动的文件"),
    "tmp": ("tmp_bytes", "bytes", "/tmp, and the home folder", "/tmp 和主目录"),
    "shm": ("shm_bytes", "bytes", "/dev/shm", "/dev/shm"),
    "open_files": ("open_files", "count", "open files of a process", "单个进程打开文件数"),
    "file_size": ("file_size_bytes", "bytes", "size of a file", "单个文件大小"),
    "output": ("output_bytes", "bytes", "output of a cell", "单元格输出"),
    "wall": ("wall_seconds", "seconds", "seconds of a cell", "单元格秒数"),
    "cpu_seconds": ("cpu_seconds", "seconds", "processor seconds of a cell", "单元格处理器秒数"),
    "io_read": ("io_read_bytes", "bytes", "reading from disk, in a second", "每秒从磁盘读取"),
    "io_write": ("io_write_bytes", "bytes", "writing to disk, in a second", "每秒写入磁盘"),
}
"""What is typed -> the size that it sets, its unit, and what it is called in English and Chinese."""

_ALIASES = {
    "mem": "memory",
    "ram": "memory",
    "cpus": "cpu",
    "cpu_count": "cpu",
    "processors": "cpu",
    "processes": "pids",
    "threads": "pids",
    "files": "open_files",
    "nofile": "open_files",
    "fsize": "file_size",
    "timeout": "wall",
    "time": "wall",
    "cpu_time": "cpu_seconds",
    **{field: name for name, (field, *_) in NAMES.items() if field != name},
}
_MEANT = {"nproc": "pids"}
"""What else such names mean elsewhere: ulimit's is pids, the command of that name counts processors."""

_HELP = ("--help", "-h", "help", "?")
_OFF = ("off", "none", "no", "unlimited")
_PROFILES = ("profile", "default")
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_HIGHEST = 1 << 50


class LimitChange(Record):
    """What a line asks for: limits to set, limits to take back; neither: the page of all."""

    limits: tuple[tuple[str, float | None], ...] = ()
    drop: tuple[str, ...] = ()


class LimitTyped(Exception):
    """A line that can't be understood; the text says why, in the person's language."""


def read_line(words: Sequence[str], *, chinese: bool) -> LimitChange:
    """Return what the words ask for. Raises LimitTyped for the first that is not understood."""
    limits: dict[str, float | None] = {}
    drop: dict[str, None] = {}
    if len(words) == 1 and words[0].lower() in _HELP:
        return LimitChange()  # the page of all says how each is set
    for word, behind in zip(words, (*words, "")[1:], strict=True):
        typed, equals, text = word.partition("=")
        name = _name(typed, chinese=chinese)
        field = NAMES[name][0]
        if not equals or not text:
            raise LimitTyped(
                f"写成 {name}=值，等号两边没有空格，例如 {name}={_example(name)}。"
                if chinese
                else f"write {name}=VALUE, without blanks around the equals sign: {name}={_example(name)}."
            )
        if _is_cut(NAMES[name][1], text, behind):
            raise LimitTyped(
                f"数值和单位之间没有空格：{name}={text}{behind}。"
                if chinese
                else f"write {name}={text}{behind}, without a blank before the unit."
            )
        limits.pop(field, None)
        drop.pop(field, None)
        if text.lower() in _PROFILES:
            drop[field] = None
        else:
            limits[field] = None if text.lower() in _OFF else _value(name, text, chinese=chinese)
    return LimitChange(tuple(limits.items()), tuple(drop))


def _is_cut(unit: str, text: str, behind: str) -> bool:
    """Tell whether a number's unit stands behind a blank: that of ``2 GB``."""
    units = {"bytes": _BYTES, "seconds": _SECONDS}.get(unit, {})
    suffix = behind.lower()
    known = {suffix, suffix.removesuffix("ib"), suffix.removesuffix("b")} & set(units)
    return bool(behind and known) and text[-1:].isdigit() and behind.isalpha()


def _name(typed: str, *, chinese: bool) -> str:
    lowered = typed.strip().lower().replace("-", "_")
    name = _ALIASES.get(lowered, lowered)
    if name in NAMES:
        return name
    shown, meant = (
        rendering.printable(typed, 40),
        _MEANT.get(lowered) or closest(lowered, (*NAMES, *_ALIASES)),
    )
    known = ", ".join(NAMES)
    if chinese:
        guess = f"您是想输入 {meant} 吗？" if meant else ""
        raise LimitTyped(f"没有名为“{shown}”的限制。{guess}可用的有 {known}。")
    guess = f"Did you mean {meant}? " if meant else ""
    raise LimitTyped(f"there is no limit {shown!r}. {guess}Known are {known}.")


def _value(name: str, text: str, *, chinese: bool) -> float:
    field, unit, *_ = NAMES[name]
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text[len(digits) :].lower()
    if unit == "bytes":
        suffix = suffix.removesuffix("ib") if suffix.endswith("ib") else suffix.removesuffix("b")
    factor = {"bytes": _BYTES, "seconds": _SECONDS}.get(unit, {"": 1}).get(suffix)
    try:
        number = float(digits) if digits.isascii() else None
    except ValueError:
        number = None
    whole = name != "cpu"
    if number is None or factor is None or not number * factor <= _HIGHEST or (whole and number * factor % 1):
        shown = rendering.printable(text, 40)
        raise LimitTyped(
            f"{name}={shown}：无法理解该值。请这样写：{name}={_example(name)}（off：取消限制；profile：恢复配置的值）。"
            if chinese
            else f"{name}={shown} is not understood. Write it like {name}={_example(name)} "
            "(off: no limit as far as the ceiling goes; profile: back to the profile's)."
        )
    value = number * factor
    least = LEAST[field]
    if value < least:
        shown = amount(least, unit, chinese=chinese)
        raise LimitTyped(
            f"{name}={text}：太少，空闲的内核也需要更多。最小值为 {shown}。"
            if chinese
            else f"{name}={text} is too little for a kernel to go on with. The least is {shown}."
        )
    return int(value) if whole else value


def _example(name: str) -> str:
    unit = NAMES[name][1]
    if name == "cpu":
        return "1.5"
    return {
        "bytes": "4G" if name == "memory" else "50M" if name.startswith("io_") else "500M",
        "seconds": "60",
    }.get(unit, "500")


def beyond_ceiling(too_much: Json, asked: Json, ceiling: str, *, chinese: bool) -> str:
    """Return why limits are refused that go beyond the ceiling, and what to do."""
    told = _beyond_in_words(too_much, asked, chinese=chinese)
    return (
        f"这超出了此内核的单元格可以设定的范围（{told}；上限：{ceiling}）。请设定不超过上限的值，"
        "或在终端用 sentinel-kernel install --profile NAME 安装以更宽松的配置启动的内核。"
        if chinese
        else f"this is more than a cell of this kernel may set ({told}; ceiling: {ceiling}). Set no more than that, "
        "or install a kernel that starts with a wider profile, in a terminal: sentinel-kernel install --profile NAME"
    )


def _beyond_in_words(too_much: Json, asked: Json, *, chinese: bool) -> str:
    parts = []
    for name, (field, unit, *_) in NAMES.items():
        if field in too_much:
            most = amount(too_much[field], unit, chinese=chinese)
            wish = amount(asked.get(field), unit, chinese=chinese)
            parts.append(
                f"{name}：请求 {wish}，最多 {most}"
                if chinese
                else f"{name}: {wish} asked for, {most} at most"
            )
    return "; ".join(parts)


def question(too_much: Json, asked: Json, ceiling: str, *, chinese: bool) -> str:
    """Return what the person is asked about limits beyond the ceiling."""
    told = _beyond_in_words(too_much, asked, chinese=chinese)
    return (
        f"询问：此单元格要设定超出内核上限（{ceiling}）的限制：{told}。"
        "这会占用与其他程序共享的机器。是否允许？[y] 是，[n] 否："
        if chinese
        else f"asks: this cell wants limits beyond this kernel's ceiling ({ceiling}): {told}. It would take that "
        "from the machine that everything else shares. Allow it? [y] yes, [n] no: "
    )


def declined(*, chinese: bool) -> str:
    """Return what a cell is told whose limits the person did not allow."""
    return (
        "您没有允许超出上限的限制；一切保持不变。请设定不超过上限的值：%sentinel_limit 会列出它们。"
        if chinese
        else "limits beyond the ceiling were not allowed, so nothing has changed. %sentinel_limit lists how far each "
        "can be set."
    )


def limits_page(told: Json, profile: str, *, chinese: bool, ready: Json | None = None) -> Json:
    """Return the bundle that lists the limits in force; ``told`` is the supervisor's answer, ``ready`` its last event.

    Its data holds what of the sandbox tells which remedies work, too.
    """
    by_field = {str(row.get("name")): row for row in told.get("rows") or () if isinstance(row, dict)}
    rows, data = [], []
    for name, (field, unit, english, zh) in NAMES.items():
        row = by_field.get(field, {})
        known = {key: row.get(key) for key in ("value", "used", "ceiling")}
        missing = str(told.get("io_obstacle") or "") if field in HELD_BY_GROUP_ALONE else ""
        own = bool(row.get("own"))
        data.append({"name": name, "field": field, "unit": unit, **known, "own": own, "held": not missing})
        parts = [NOT_HELD[missing][chinese]] if missing else _parts(name, row, told, chinese=chinese)
        label = zh if chinese else english
        rows.append((f"{name} ({label})" if name != label else name, ("；" if chinese else "; ").join(parts)))
    kept_by = str(told.get("backend") or "fallback")
    detail = str(told.get("detail") or "")
    if chinese:
        from sentinel_kernel.kernel.chinese import in_chinese  # noqa: PLC0415 - for those who read it

        detail = in_chinese(detail)
    rows.append(
        (
            "由谁执行" if chinese else "kept by",
            f"{kept_by}{'：' if chinese else ': '}{detail}" if detail else kept_by,
        )
    )
    if processor := told.get("processor"):
        held = told.get("throttled_seconds") or 0.0
        shown = f"（已限制 {held:.1f} 秒）" if chinese else f" ({held:.1f} s held back so far)"
        kept = PROCESSOR[str(processor)][chinese] + (shown if held else "")
        rows.append(("处理器限制方式" if chinese else "processors kept by", kept))
    note = (
        "在单元格开头用 %sentinel_limit 名称=值 设定，例如 %sentinel_limit memory=4G wall=60；"
        "off 取消自己的限制（不超过上限），profile 恢复配置的值。变量会保留。"
        if chinese
        else "%sentinel_limit NAME=VALUE at a cell's top sets one: %sentinel_limit memory=4G wall=60. "
        "off: no limit, as far as the ceiling goes; profile: back to the profile's. Variables stay."
    )
    if any(one["own"] for one in data):
        note += (
            "由您设定的限制在重置后仍有效，重启内核后恢复为配置的值。"
            if chinese
            else " What is set here outlives a reset; a restart of the kernel goes back to the profile's."
        )
    title = f"Sentinel：限制（配置 {profile}）" if chinese else f"Sentinel: limits (profile {profile})"
    bundle = rendering.table_bundle(title, rows, [note])
    sandbox = {name: (ready or {}).get(name) for name in _OF_SANDBOX}
    bundle[LIMITS_TYPE] = {
        "version": 1, "profile": profile, "kept_by": kept_by, "limits": data, "sandbox": sandbox
    }  # fmt: skip
    return bundle


def _parts(name: str, row: Json, told: Json, *, chinese: bool) -> list[str]:
    """Return what is said of one limit: its value, what is used, how far it may go, whose it is."""
    field, unit, *_ = NAMES[name]
    value, used, ceiling = row.get("value"), row.get("used"), row.get("ceiling")
    held = _in_force(field, value, told)
    parts = [amount(held, unit, chinese=chinese)]
    if held != value:
        parts[0] += f"（本机的全部；设定为 {value:g}）" if chinese else f" (all that are here; {value:g} set)"
    if name == "pids" and value is not None and told.get("tasks_on_top"):
        on_top = told["tasks_on_top"]
        parts[0] += f"（另加内核自身的 {on_top} 个）" if chinese else f" (and {on_top} for the kernel itself)"
    if used is not None:
        shown = amount(used, unit, chinese=chinese)
        parts.append(f"已用 {shown}" if chinese else f"{shown} in use")
    if field == "memory_bytes" and (now := told.get("machine_bytes")) is not None:
        shown = amount(now, unit, chinese=chinese)
        parts.append(f"本机现在最多可提供 {shown}" if chinese else f"the machine can give {shown} now")
    most = amount(ceiling, unit, chinese=chinese)
    if ceiling is None:
        parts.append("可任意设定" if chinese else "can be set freely")
    else:
        parts.append(f"可设至 {most}" if chinese else f"can be set up to {most}")
    if row.get("own"):
        parts.append("由您设定" if chinese else "set here")
    return parts


def unchanged(told: Json, *, chinese: bool) -> str:
    """Return what a cell is told whose limits could not be set, and why."""
    unheld = [name for name, (field, *_) in NAMES.items() if field in (told.get("unheld") or ())]
    none_runs = "没有正在运行的沙箱" if chinese else "no sandbox runs"
    reason = str(told.get("message") or none_runs)[:500]
    if unheld:
        reason = UNHELD[str(told.get("io_obstacle"))][chinese].format(", ".join(unheld))
    if told.get("beyond"):
        reason = "超出此内核的上限" if chinese else "they go beyond this kernel's ceiling"
    if (in_use := told.get("in_use")) is not None:
        shown = amount(in_use, "bytes", chinese=chinese)
        reason = (
            f"内存已使用 {shown}；请删除不再需要的内容（del、gc），或设定更大的值"
            if chinese
            else f"{shown} are in use; delete what is no longer needed (del, gc) or choose more than that"
        )
    if chinese:
        return f"限制未改动：{reason.rstrip('。')}。"
    return f"the limits were not changed: {reason.rstrip('.')}."


def changed_page(told: Json, profile: str, *, chinese: bool) -> Json:
    """Return the bundle that tells what a line has set; ``told`` is the supervisor's answer."""
    before, after = told.get("before") or {}, told.get("after") or {}
    full = [str(name) for name in told.get("full") or ()]
    own = told.get("own") or {}
    rows = [("变量" if chinese else "variables", "保留" if chinese else "kept, and everything that runs")]
    notes = []
    for name, (field, unit, english, zh) in NAMES.items():
        wished = _with_quota(after, field)
        old, new = (_in_force(field, _with_quota(sizes, field), told) for sizes in (before, after))
        if old != new:
            shown = f"{amount(old, unit, chinese=chinese)} → {amount(new, unit, chinese=chinese)}"
            rows.append((zh if chinese else english, shown))
        if field in full:
            notes.append(
                f"{name}：现有内容多于此值，因此大小不变。"
                if chinese
                else f"{name}: more than that is in use, so it keeps its size; remove files and set it again."
            )
        if new is not None and field in own and own[field] is None:
            shown = amount(new, unit, chinese=chinese)
            notes.append(
                f"{name}：您没有设限，{shown} 是此内核的上限。"
                if chinese
                else f"{name}: no limit of your own; {shown} is this kernel's ceiling."
            )
        if new != wished and wished != _with_quota(before, field):
            are, them = ("is", "it") if new == 1 else ("are", "all of them")
            notes.append(
                f"{name}：本机可用的处理器只有 {new} 个，全部可用：实际生效的是 {new}，而不是 {wished:g}。"
                if chinese
                else f"{name}: there {are} {new} here, so {them} may be used: {new} in force, not {wished:g}."
            )
        if field in (told.get("later") or ()):
            notes.append(
                f"{name}：正在运行的沙箱是按上限建立的，只有新的沙箱才能使用此值：%sentinel_reset（变量会丢失）。"
                if chinese
                else f"{name}: the running sandbox was made for the ceiling; the next one has it. %sentinel_reset "
                "takes one now (variables are lost)."
            )
    if len(rows) == 1:
        rows.append(("限制" if chinese else "limits", "与之前相同" if chinese else "as they were"))
    notes.append(
        "切换配置、重置沙箱或沙箱意外结束后仍然有效；重启内核后恢复为配置的值。"
        if chinese
        else "They stay in force through a change of profile, a reset and a death of the sandbox; a restart of the "
        "kernel goes back to the profile's."
    )
    title = f"Sentinel：限制（配置 {profile}）" if chinese else f"Sentinel: limits (profile {profile})"
    return rendering.table_bundle(title, rows, notes)


def _in_force(field: str, value: object, told: Json) -> Any:  # noqa: ANN401 - a number, or what was told in its place
    """Return what a limit comes to: no more processors than there are."""
    processors = told.get("processors")
    if field != "cpu_count" or not isinstance(value, int | float) or not isinstance(processors, int):
        return value
    return min(value, processors)


def _with_quota(sizes: Json, field: str) -> object:
    if field == "cpu_count" and sizes.get("cpu_quota") is not None:
        return sizes["cpu_quota"]
    return sizes.get(field)
