"""What the placeholders of a violation's words stand for: names, amounts and places, never the sandbox's own words."""

from __future__ import annotations

from sentinel_kernel.policy.cause import CAUSES, STAGES
from sentinel_kernel.policy.sizes_in_words import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sentinel_kernel.policy.violation import Limit, Violation

_ROOMS = ("disk", "tmp", "shm")

_SUBJECTS = {
    "path": ("This path", "此路径"),
    "host": ("This host", "此主机"),
    "address": ("This address", "此地址"),
    "package": ("This package", "此软件包"),
    "program": ("This program", "此程序"),
}
"""What {subject} says: its text is untrusted, and stands in a field of its own."""

_KIND_OF_SUBJECT = {
    "path_hidden": "path",
    "path_read_only": "path",
    "path_denied": "path",
    "folder_rename": "path",
    "path_busy": "path",
    "name_lookup": "host",
    "network_unreachable": "address",
    "host_refused": "host",
    "package_absent": "package",
    "program_absent": "program",
}
_PATH_WORDS = ("this path", "此路径")
_ADDRESS_WORDS = ("this address", "此地址")

MAGIC = {
    "memory": "memory",
    "cpu_seconds": "cpu_seconds",
    "wall_seconds": "wall",
    "pids": "pids",
    "disk": "disk",
    "tmp": "tmp",
    "shm": "shm",
    "file_size": "file_size",
    "open_files": "open_files",
    "output": "output",
}
"""Limit -> the name that `%sentinel_limit` takes."""

PLACEHOLDERS = frozenset((
    "name", "profile", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "address", "family", "path", "flags", "errno",
    "resource", "allowed", "used", "in_use", "whose", "limit", "place", "ended", "grace", "detail", "signal",
    "with_signal", "status", "subject", "folder",
    "inside",
))  # fmt: skip
"""What a text may have places for."""


def cause_keys(violation: Violation) -> tuple[str, ...]:
    """Return the keys of a violation's words, the most special first: ``memory:soft-machine``, ``memory:soft`` ..."""
    cause = CAUSES[violation.cause]
    return (*(f"{cause.name}:{variant}" for variant in _variants(violation)), cause.name)


def is_variant(cause: str, variant: str) -> bool:
    """Tell whether ``variant`` may follow ``cause`` in a key."""
    known = CAUSES[cause]
    return variant in known.variants or (known.kind == "limit" and variant in STAGES)


def _variants(violation: Violation) -> tuple[str, ...]:
    values, limit = violation.values, violation.limit
    if limit is None:
        special = [values.get("ended_by", ""), values.get("signal", ""), values.get("does", "")]
    else:
        of_child = violation.cause == "child_killed"
        usual = limit.name if of_child else "death" if violation.resource == "worker" else limit.stage
        special = [f"{usual}-machine"] if values.get("machine") else []
        if values.get("wanted") == "thread" and not values.get("machine") and usual != "death":
            special.append("threads")
        if values.get("full_of") == "names":
            special.append("names")
        elif limit.name in _ROOMS and not limit.allowed:
            special.append("unknown")
        special.append(usual)
    return tuple(variant for variant in special if is_variant(violation.cause, variant))


def word_values(violation: Violation, *, chinese: bool) -> dict[str, str]:
    """Return what each placeholder stands for; those of another kind of violation are empty."""
    values = dict.fromkeys(PLACEHOLDERS, "")
    values |= violation.values
    values.update(
        name=violation.syscall or values["name"],
        profile=violation.profile,
        resource=violation.resource,
        errno=violation.errno_name or "",
        path=_PATH_WORDS[chinese],
        folder=violation.values.get("folder") or ("文件夹" if chinese else "FOLDER"),
        address=violation.values.get("address") or _ADDRESS_WORDS[chinese],
        subject=_subject(violation, chinese=chinese),
    )
    if signal := values["signal"]:
        values["with_signal"] = f"（{signal}）" if chinese else f" ({signal})"
    arguments = violation.arguments
    for index in range(6):
        values[f"arg{index}"] = str(arguments[index].value) if index < len(arguments) else "0"
    if violation.limit is not None:
        values |= _limit_values(violation.limit, violation, chinese=chinese)
    return values


def _subject(violation: Violation, *, chinese: bool) -> str:
    subject = violation.subject
    kind = _KIND_OF_SUBJECT.get(violation.cause, "path") if subject is None else subject.kind
    return _SUBJECTS[kind][chinese]


def _limit_values(limit: Limit, violation: Violation, *, chinese: bool) -> Mapping[str, str]:
    used = amount(limit.used, limit.unit, chinese=chinese) if limit.used else ""
    if limit.own:
        whose = "由 %sentinel_limit 设定" if chinese else "set with %sentinel_limit"
    else:
        whose = f"配置 {violation.profile}" if chinese else f"profile {violation.profile}"
    in_use = f"，已用 {used}" if chinese else f", {used} in use"
    return {
        "allowed": amount(limit.allowed, limit.unit, chinese=chinese),
        "used": used or ("未知" if chinese else "not known"),
        "in_use": in_use if used else "",
        "whose": whose,
        "limit": MAGIC.get(limit.name, limit.name),
        "place": violation.values.get("place") or ("该文件夹" if chinese else "the folder"),
        "ended": _ended(violation.values, chinese=chinese),
        "grace": amount(_seconds(violation.values.get("grace_seconds", "")), "seconds", chinese=chinese),
    }


def _ended(values: Mapping[str, str], *, chinese: bool) -> str:
    count, left = values.get("ended", ""), values.get("left", "")
    text = ""
    if count.isdecimal() and count != "0":
        ended = (
            "one that this cell had started was"
            if count == "1"
            else f"{count} that this cell had started were"
        )
        text = f" The {ended} ended, so that others can start."
        if chinese:
            text = f"已结束此单元格启动的 {count} 个进程，以便其他进程可以启动。"
    if left.isdecimal():
        rest = (
            "One is left that is older than this cell or its own thread: end it"
            if left == "1"
            else f"{left} are left that are older than this cell or its own threads: end those"
        )
        text = f" {rest}, or run %sentinel_reset."
        if chinese:
            text = f"仍有 {left} 个早于此单元格或属于其自身的线程：请结束它们，或运行 %sentinel_reset。"
    return text


def _seconds(text: str) -> float | None:
    return int(text) if text.isdecimal() else float(text) if text.replace(".", "", 1).isdecimal() else None
