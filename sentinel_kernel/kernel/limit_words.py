"""What is told of limits: what can't be held and why, what keeps processors, and what a cell left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.words import Words

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json


NOT_HELD = {
    "controller": (
        "not held here: it takes a control group with the io controller",
        "此处无法限制：需要带 io 控制器的控制组",
    ),
    "disk": (
        "not held here: the files lie on no disk whose speed can be limited",
        "此处无法限制：文件所在的磁盘不支持限速",
    ),
}
"""Why a limit of disk speed is not held, by its obstacle."""

UNHELD = {
    "controller": (
        (
            "{} can only be held by a control group with the io controller, and this sandbox has none "
            "(`sentinel-kernel doctor` tells how to get one)"
        ),
        "{} 只能由带 io 控制器的控制组限制，而此沙箱没有（`sentinel-kernel doctor` 会说明如何获得）",
    ),
    "disk": (
        (
            "{} can't be held: the files lie on no disk whose speed can be limited (a network's, or a file system of "
            "several disks); move the notebook to a disk of this machine"
        ),
        "{} 无法限制：文件所在的磁盘不支持限速（网络磁盘，或由多个磁盘组成的文件系统）；请把笔记本移到本机的磁盘",
    ),
}
"""Why such a limit can't be set."""

PROCESSOR = {
    "backend": ("the back end", "后端"),
    "affinity": ("affinity: the processors that it may run on", "亲和性：可运行的处理器"),
    "duty": (
        "affinity, and a duty cycle: what computes is paused for the rest of each tenth of a second",
        "亲和性与占空比：计算中的进程在每十分之一秒的剩余时间内暂停",
    ),
    "none": ("nothing: all processors may be used", "无：可使用所有处理器"),
}
"""What keeps the sandbox to its processors."""


def left_running(limit: Json) -> Words:
    """Return the words for processes that a cell left behind."""
    detail = str(limit.get("detail") or "?")[:100]
    return Words(
        f"A cell left a process behind that goes on in the background: {detail}.",
        f"有单元格留下了仍在后台运行的进程：{detail}。",
        "It is still in the sandbox, held to the same limits, and ends with it: %sentinel_reset or a restart ends it "
        "now.",
        "它仍在沙箱内，受同样的限制，并随沙箱结束：可用 %sentinel_reset 或重启立即结束它。",
    )
