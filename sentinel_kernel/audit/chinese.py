"""The audit's reasons and remedies in Chinese: they come from other processes as English sentences."""

from __future__ import annotations

from sentinel_kernel.policy.sentences import translated

_SENTENCES = (
    (
        r"SENTINEL_AUDIT must be an absolute path or off, not (.*)\.",
        r"SENTINEL_AUDIT 必须是绝对路径或 off，而不是 \1。",
    ),
    (
        r"(\w+) must be an absolute path, not (.*): the audit's database is below it\.",
        r"\1 必须是绝对路径，而不是 \2：审计数据库位于其下。",
    ),
    (
        r"(\w+) can't be understood: (.*) is no number of days \(such as 90\)\. No row is deleted for its age\.",
        r"无法理解 \1：\2 不是天数（例如 90）。在此期间不会因时间而删除任何记录。",
    ),
    (
        r"(\w+) can't be understood: (.*) is no size \(such as 256M\)\. The audit may take any room\.",
        r"无法理解 \1：\2 不是大小（例如 256M）。在此期间审计占用的空间不受限制。",
    ),
    (
        r"SENTINEL_AUDIT_ALERT must be syslog or an https:// or http:// address, not (.*)\. Nobody is alerted\.",
        r"SENTINEL_AUDIT_ALERT 必须是 syslog 或 https://、http:// 地址，而不是 \1。在此期间不会发出任何告警。",
    ),
    (
        r"The audit's database would lie in (.*), where the notebook's folder is too: cells could read it\.",
        r"审计数据库会位于 \1，而笔记本的文件夹也在其中：单元格将能读取它。",
    ),
    (r"The audit's writer process ended\.", r"审计的写入进程已结束。"),
    (r"No process can be made: (.*)\.", r"无法创建进程：\1。"),
    (r"The head of the audit's chain is damaged\.", r"审计链的链首已损坏。"),
    (r"Set (XDG_STATE_HOME|HOME) to an absolute path\.", r"请将 \1 设为绝对路径。"),
    (
        r"Set SENTINEL_AUDIT to a file in a folder of its own \(an absolute path\), or to off\.",
        r"请将 SENTINEL_AUDIT 设为单独文件夹中的文件（绝对路径），或设为 off。",
    ),
    (
        r"This lab records every kernel: open the notebook in another folder, or ask who looks after the lab\.",
        r"本实验室会记录每个内核：请在其他文件夹中打开笔记本，或询问实验室的管理员。",
    ),
    (r"Restart the kernel\.", r"请重启内核。"),
    (r"End some processes\.", r"请结束一些进程。"),
    (r"Free some space on the disk that holds (.*)\.", r"请在 \1 所在的磁盘上腾出空间。"),
    (
        r"Make (.*) a folder that you may write to, or set SENTINEL_AUDIT\.",
        r"请使 \1 成为您可写入的文件夹，或设置 SENTINEL_AUDIT。",
    ),
    (
        r"Move (?:the database|(.*)) away; the next row makes a new one\.",
        r"请移走审计数据库 \1；下一条记录会新建一个。",
    ),
    (r"Set SENTINEL_AUDIT to another file, or to off\.", r"请将 SENTINEL_AUDIT 设为另一个文件，或设为 off。"),
)


def chinese(sentence: str) -> str:
    """Return the sentence in Chinese; one that is not ours (SQLite's, Linux's) as it is."""
    return translated(sentence, _SENTENCES)
