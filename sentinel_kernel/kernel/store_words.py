"""The words about the artifact store: that held files could not be saved, and that saved ones will be dropped."""

from __future__ import annotations

from sentinel_kernel.kernel.words import Words
from sentinel_kernel.policy.sizes_in_words import counted, size_text

_REASONS = {
    "no_space": ("the disk has room for {room} more", "磁盘仅剩 {room} 可用空间"),
    "not_writable": ("its folder may not be written to", "其文件夹不可写入"),
    "too_many": ("more than 100,000 files are held", "待提交文件超过 100,000 个"),
    "unreadable": ("its folder can't be reached", "无法访问其文件夹"),
}


def at_risk(code: str, room: int) -> Words:
    """Return the warning that what is held would be lost with the sandbox; ``code`` is that of CellEnd's ``risk``."""
    english, chinese = _REASONS.get(code, ("it failed", "操作失败"))
    told = size_text(room)
    return Words(
        "Files that cells changed would be lost if the sandbox ended now: they can't be copied to the artifact store, "
        f"as {english.format(room=told)}.",
        f"如果沙箱现在结束，单元格更改的文件将会丢失：无法复制到保存区，因为{chinese.format(room=told)}。",
        "%sentinel_commit writes them to this machine, %sentinel_export makes a link to download one. Or free "
        "some space, or set SENTINEL_ARTIFACTS to another folder and restart the kernel.",
        "用 %sentinel_commit 将它们写入此机器，或用 %sentinel_export 生成下载链接；也可释放磁盘空间，"
        "或将 SENTINEL_ARTIFACTS 设为其他文件夹后重启内核。",
    )


def leaving(count: int, days: int) -> Words:
    """Return the word that saved files of earlier sandboxes will be dropped in so many days."""
    files = (
        "The saved files of one earlier sandbox"
        if count == 1
        else f"The saved files of {count} earlier sandboxes"
    )
    return Words(
        f"{files} will be deleted in {counted(days, 'day')}: they are older, or more, than the artifact store keeps.",
        f"{count} 个以前的沙箱所保存的文件将在 {days} 天后删除：它们超出了保存区的保留期限或容量。",
        "In a terminal, `sentinel-kernel artifacts list` names them and `sentinel-kernel artifacts restore NAME` "
        "copies them back. SENTINEL_ARTIFACTS_DAYS and SENTINEL_ARTIFACTS_BYTES say how much is kept.",
        "在终端中运行 `sentinel-kernel artifacts list` 查看，运行 `sentinel-kernel artifacts restore NAME` 取回。"
        "SENTINEL_ARTIFACTS_DAYS 和 SENTINEL_ARTIFACTS_BYTES 决定保留多少。",
    )
