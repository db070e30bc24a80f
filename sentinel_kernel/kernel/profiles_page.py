"""`%sentinel_profile` alone: a table of the profiles, what each allows, and how a cell gets it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.ceiling import ASK, FREE
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.in_words import reaches_itself
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.ceiling import Ceiling
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.profile import Profile

_COLUMNS = (
    ("profile", "配置"),
    ("a cell gets it", "单元格切换"),
    ("memory", "内存"),
    ("CPUs", "处理器"),
    ("processes", "进程"),
    ("sockets", "套接字"),
    ("folders shown", "可见文件夹"),
    ("new files", "新文件"),
    ("asks about", "询问"),
    ("for", "用途"),
)
_IN_CHINESE = {
    "Code you have not read: computing, files and subprocesses work; no network, no other rights, 1 GiB and one CPU": (
        "用于未读过的代码：可以计算、读写文件和启动子进程；没有网络和其他权限，1 GiB 内存，一个处理器"
    ),
    (
        "Your own analyses: half of the free memory, all CPUs, and a network inside the sandbox alone (loopback)"
    ): "用于您自己的分析：一半的空闲内存，所有处理器，网络仅限沙箱内部（回环接口）",
    "As datascience, and the hosts that it lists can be reached: Python's package index": (
        "与 datascience 相同，并可访问其列出的主机：Python 软件包索引"
    ),
    "SentinelBox datascience: more memory and processors; local sockets, no connections": (
        "SentinelBox 的 datascience：更多内存和处理器；仅本地套接字，没有连接"
    ),
    "SentinelBox strict: no network, no calls that change the system": (
        "SentinelBox 的 strict：没有网络，没有改变系统的调用"
    ),
    "SentinelBox web: outgoing sockets, no listening ones": "SentinelBox 的 web：可向外连接，不可监听",
}
"""What the shipped profiles say of themselves; others' words stay as they are written."""

_MOST_NAMED = 4


def profiles_page(directories: Sequence[str], ceiling: Ceiling, in_use: str, *, chinese: bool) -> Json:
    """Return the bundle of the table."""
    rows, broken = [], []
    for name in list_profiles(directories):
        try:
            profile = load_profile(name, directories)
            rows.append(_row(profile, ceiling, in_use, chinese=chinese))
        except (SentinelError, OSError) as error:
            broken.append(f"{name}: {error}")
    note = (
        "%sentinel_profile NAME 会切换到该配置；变量会保留。若需要全新的沙箱，会先询问如何处理变量。"
        if chinese
        else "%sentinel_profile NAME goes on under that profile; variables stay. Where it takes a fresh sandbox, you "
        "are asked first what becomes of them."
    )
    title = "Sentinel：配置" if chinese else "Sentinel: profiles"
    header = [zh if chinese else english for english, zh in _COLUMNS]
    return rendering.columns_bundle(title, header, rows, [*broken, note])


def _row(profile: Profile, ceiling: Ceiling, in_use: str, *, chinese: bool) -> list[str]:
    policy = compiled(profile, os.uname().machine)
    resources = profile.resources
    none = "无限制" if chinese else "no limit"
    asks = sorted(
        {
            rule.syscall
            for rules in policy.rules.values()
            for rule in rules
            if rule.action.kind is ActionKind.ASK
        }
    )
    reach = reaches_itself(policy)
    # A file of somebody's own words: it is escaped where it is shown.
    return [
        profile.name + (("（当前）" if chinese else " (in use)") if profile.name == in_use else ""),
        _how(ceiling.grants(profile), chinese=chinese),
        _share(resources.memory_bytes, chinese=chinese) or none,
        str(resources.cpu_count or ("全部" if chinese else "all")),
        str(resources.pids or none),
        ("仅沙箱内部" if chinese else "within the sandbox") if reach else ("无" if chinese else "none"),
        _named([mount.path for mount in profile.filesystem.mounts]) or "-",
        _files(profile, chinese=chinese),
        _named(asks) or "-",
        _IN_CHINESE.get(profile.description, profile.description) if chinese else profile.description,
    ]


def _files(profile: Profile, *, chinese: bool) -> str:
    """Return what becomes of new files that a cell writes beside the notebook (filesystem.commit)."""
    if not profile.filesystem.allow_write_overlay:
        return "不可写" if chinese else "refused"
    if profile.filesystem.commit == "new":
        return "自动保存" if chinese else "saved"
    return "保留" if chinese else "held"


def _share(size: object, *, chinese: bool) -> str:
    if isinstance(size, str):
        return f"空闲内存的 {size}" if chinese else f"{size} of what is free"
    return "" if size is None else size_text(size)


def _how(granted: str, *, chinese: bool) -> str:
    if granted == FREE:
        return "可自由切换" if chinese else "freely"
    if granted == ASK:
        return "需要您同意" if chinese else "if you agree"
    return "不可" if chinese else "not here"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" +{more}" if more > 0 else "")
