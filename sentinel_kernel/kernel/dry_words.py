"""The words about dry runs, in English and Chinese."""

from __future__ import annotations

_WORDS = {
    "title": ("Sentinel: dry run", "Sentinel：试运行"),
    "written": ("It would have written", "它将写入"),
    "reached": ("It would have connected to", "它将连接"),
    "nothing": (
        "It would have written nothing to this machine.",
        "它不会向此机器写入任何内容。",
    ),
    "no_host": ("It tried to reach no host that this kernel serves.", "它没有尝试连接此内核所服务的主机。"),
    "taken_back": (
        "All of that was taken back. HINT → Run the cell without its first line to do it.",
        "以上更改均已撤回。HINT → 删除首行后重新运行单元格即可真正执行。",
    ),
    "not_covered": (
        "What it wrote to the sandbox's own /tmp, /dev/shm and home folder was not taken back.",
        "写入沙箱自身 /tmp、/dev/shm 和主目录的内容不会撤回。",
    ),
}


def say(key: str, *, chinese: bool) -> str:
    """Return the words of ``key``."""
    return _WORDS[key][chinese]


def left(reason: str, *, chinese: bool) -> str:
    """Return that the files could not be looked at, and what becomes of them."""
    if chinese:
        return (
            f"更改的文件尚未撤回：{reason}。它们仍保留在沙箱中，此机器上的文件未改变。"
            "HINT → 运行任意单元格会先撤回它们；%sentinel_files 显示剩余内容。"
        )
    return (
        f"What it changed was not taken back yet: {reason}. It is held in the sandbox, and nothing on this machine "
        "has changed. HINT → The next cell takes it back first; %sentinel_files tells what is left."
    )


def failed(named: str, *, chinese: bool) -> str:
    """Return that some files could not be taken back."""
    if chinese:
        return (
            f"未能撤回：{named}。它们仍保留在沙箱中，此内核不再自动保存新文件。"
            "HINT → %sentinel_discard 丢弃它们；%sentinel_reset 恢复自动保存。"
        )
    return (
        f"Could not be taken back: {named}. It is held in the sandbox, where new files are no longer saved by "
        "themselves. HINT → %sentinel_discard drops it; %sentinel_reset has new files saved by themselves again."
    )


def argument(line_number: int, typed: str, *, chinese: bool) -> str:
    """Return that something stands behind the magic."""
    if chinese:
        return f"第 {line_number} 行：无法理解“{typed}”。请单独一行输入 %%sentinel_dry_run，代码写在其下方。"
    return (
        f"line {line_number}: {typed!r} is not understood. Type %%sentinel_dry_run, alone on its line, "
        "and the code below it."
    )


def beside(*, chinese: bool) -> str:
    """Return that a dry run can't begin beside another cell."""
    if chinese:
        return "另一个单元格正在运行，其文件无法与试运行区分。HINT → 请等待它结束，或中断它。"
    return (
        "Another cell runs, and its files could not be told from those of the dry run. "
        "HINT → Wait for its end, or interrupt it."
    )


def under_way(*, chinese: bool) -> str:
    """Return that no cell can begin beside a dry run."""
    if chinese:
        return "试运行正在进行，此单元格的文件会一并撤回。HINT → 请等待试运行结束，或中断它。"
    return (
        "A dry run is under way, and what this cell writes would be taken back with it. "
        "HINT → Wait for its end, or interrupt it."
    )
