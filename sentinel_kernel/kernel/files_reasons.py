"""Why a request about held files was not carried out, and what to do, in English and Chinese, by its code."""

from __future__ import annotations

_WHY = {
    "malformed": ("the request could not be read", "请求无法读取"),
    "no_sandbox": ("no sandbox is running", "没有正在运行的沙箱"),
    "rung": (
        (
            "on the landlock rung no files are held, so that there is nothing to list, commit, discard or undo: the "
            "notebook's folder is read-only, and what cells write lies in SENTINEL_OUTPUT and TMPDIR"
        ),
        (
            "landlock 隔离级别不会暂存文件，因此没有可列出、提交、丢弃或撤销的内容：笔记本所在文件夹为只读，"
            "单元格写入的文件位于 SENTINEL_OUTPUT 和 TMPDIR"
        ),
    ),
    "busy": ("files are being committed or saved just now", "正在提交或保存文件"),
    "no_such_path": ("no change of that name is held", "没有该名称的待提交更改"),
    "no_such_file": ("cells see no file of that name", "单元格看不到该名称的文件"),
    "nothing_to_undo": (
        "no cell has written anything that could be taken back",
        "没有单元格写入过可撤销的内容",
    ),
    "is_folder": ("it is a folder", "这是一个文件夹"),
    "unreadable": ("it could not be read", "无法读取"),
    "not_writable": ("the folder on this machine may not be written to", "此机器上的文件夹不可写入"),
    "folder_gone": (
        "the folder was deleted on this machine; one that has its name now is another",
        "此机器上的该文件夹已被删除；现在同名的文件夹是另一个",
    ),
    "no_space": ("the disk is full", "磁盘空间已满"),
    "not_committable": ("such a file is never copied out of the sandbox", "此类文件绝不会复制出沙箱"),
    "changed_meanwhile": ("it changed while it was looked at", "处理过程中文件发生了变化"),
    "not_kept": ("its former version was not kept", "未保留之前的版本"),
    "former_gone": ("its former version was not kept", "未保留之前的版本"),
    "only_copy": (
        "it stays: it may be the last copy of what can't be brought back",
        "已保留：它可能是无法恢复的内容的最后一份副本",
    ),
    "put_beside": (
        "it was put beside your own file, which is as it was; an undo leaves both",
        "它被放在您自己的文件旁边，您的文件未变；撤销会保留两者",
    ),
    "changed_since": (
        "you changed it on this machine since; it stays yours",
        "您之后在此机器上更改过它，因此保留您的版本",
    ),
    "too_many": (
        "too many files are held to bring them back after a dry run",
        "待提交文件过多，试运行后无法全部恢复",
    ),
    "unseen": (
        "part of what is held could not be looked at, so that it could not be brought back after a dry run",
        "部分待提交的内容无法查看，试运行后无法恢复",
    ),
    "writes_directly": (
        "cells may change a folder of this machine directly, and nobody could take that back",
        "单元格可以直接更改此机器上的文件夹，无法撤回",
    ),
    "connected": (
        "a connection to a host is open, and the dry run could send through it",
        "与主机的连接仍然打开，试运行可能通过它发送数据",
    ),
    "ended": (
        "the process that does it was ended; files are whole, old or new",
        "处理进程已结束；文件均完整",
    ),
    "not_empty": ("something else lies in the folder, which stays", "该文件夹中还有其他内容，因此保留"),
    "in_the_way": ("something else has its place by now", "该位置现在是其他内容"),
    "disk": ("the disk could not read or write it", "磁盘无法读取或写入"),
    "failed": ("the file system refused it, and it is as it was", "文件系统拒绝了该操作，内容保持不变"),
}
_HINTS = {
    "no_sandbox": ("Run a cell, or %sentinel_reset.", "请运行一个单元格，或使用 %sentinel_reset。"),
    "rung": (
        "%sentinel_status tells why it is this rung, and the repair.",
        "%sentinel_status 会说明为何处于此级别以及修复方法。",
    ),
    "busy": ("Run the line again in a moment.", "请稍后重新运行该行。"),
    "no_such_path": (
        "%sentinel_files lists what is held; put names with spaces in quotes.",
        "%sentinel_files 会列出待提交的文件；含空格的名称请加引号。",
    ),
    "no_such_file": (
        "Type its path as cells see it, from the notebook's folder; put a name with spaces in quotes.",
        "请输入单元格所见的路径（相对于笔记本所在文件夹）；含空格的名称请加引号。",
    ),
    "nothing_to_undo": ("%sentinel_files lists what is held.", "%sentinel_files 会列出待提交的文件。"),
    "is_folder": ("Name a file in it.", "请指定其中的一个文件。"),
    "not_writable": (
        "Open the notebook from a folder that you may write to, or get the file with %sentinel_export.",
        "请在可写入的文件夹中打开笔记本，或用 %sentinel_export 取得文件。",
    ),
    "folder_gone": (
        (
            "Make the folder if it is missing, and run %sentinel_reset: a new sandbox takes the one that is there, and "
            "says how to bring what is held to it. Variables are lost; %sentinel_export PATH gets one file at once."
        ),
        (
            "若文件夹不存在，请先创建，再运行 %sentinel_reset：新沙箱会使用现有的文件夹，并说明如何取回待提交的文件。"
            "变量会丢失；%sentinel_export 路径 可立即取得单个文件。"
        ),
    ),
    "no_space": ("Free some space on the disk and run the line again.", "请释放磁盘空间后重新运行该行。"),
    "not_committable": ("Have the cell write a plain file instead.", "请让单元格改为写入普通文件。"),
    "changed_meanwhile": ("Run the line again.", "请重新运行该行。"),
    "not_kept": (
        "Commit or discard what is held (%sentinel_files), and run the line again.",
        "请先提交或丢弃待提交的文件（%sentinel_files），再重新运行该行。",
    ),
    "former_gone": (
        "Undo keeps no folders, and files while there is room; a commit asks first, and says what it can't bring back.",
        "撤销不保留文件夹，文件也仅在有空间时保留；提交前的询问会说明哪些无法恢复。",
    ),
    "only_copy": (
        "Move it back in a cell, and %sentinel_commit that; or delete it where you have another.",
        "请在单元格中将其移回并用 %sentinel_commit 提交；若另有副本，可将其删除。",
    ),
    "put_beside": (
        "Keep the one that you want, and delete the other on this machine.",
        "请在此机器上保留需要的一个并删除另一个。",
    ),
    "too_many": (
        "%sentinel_commit or %sentinel_discard what is held first.",
        "请先用 %sentinel_commit 或 %sentinel_discard 处理待提交的文件。",
    ),
    "unseen": (
        "Make it readable in a cell (os.chmod), or move or delete it where it lies too deep or holds too much.",
        "请在单元格中使其可读（os.chmod）；若层级过深或内容过多，请移动或删除。",
    ),
    "writes_directly": (
        "Start the kernel under a profile without folders that cells may write to (rw); overlay holds changes.",
        "请使用没有可直接写入（rw）文件夹的配置；overlay 会保留更改。",
    ),
    "connected": (
        "Close it in a cell first (%sentinel_net names the hosts), or %sentinel_reset.",
        "请先在单元格中关闭它（%sentinel_net 会列出主机），或使用 %sentinel_reset。",
    ),
    "not_empty": (
        "%sentinel_files lists what is held in it; %sentinel_discard FOLDER drops the folder with all of that.",
        "%sentinel_files 会列出其中待提交的文件；%sentinel_discard 文件夹 会丢弃该文件夹及其中的内容。",
    ),
    "in_the_way": (
        "Move what is there to another name, and run the line again.",
        "请将该处的内容改名后重新运行该行。",
    ),
    "disk": (
        "Look after the disk; %sentinel_export PATH makes a link to download what can still be read.",
        "请检查磁盘；%sentinel_export 路径 可为仍可读取的文件生成下载链接。",
    ),
    "failed": (
        "Run the line again; if it is refused again, `sentinel-kernel doctor` in a terminal tries each mechanism.",
        "请重新运行该行；若再次被拒绝，请在终端中运行 `sentinel-kernel doctor` 逐项检查。",
    ),
    "ended": (
        "%sentinel_files tells what is still held; run the line again.",
        "请查看 %sentinel_files 后重新运行。",
    ),
}


def say(pair: tuple[str, str], *, chinese: bool) -> str:
    """Return one of two languages."""
    return pair[chinese]


def reason(code: object, *, chinese: bool) -> str:
    """Return why something failed; ``code`` is one of workspace/request.py."""
    return say(_WHY.get(str(code), _WHY["failed"]), chinese=chinese)


def hint_for(code: object, *, chinese: bool) -> str:
    """Return what to do about it, "" where there is nothing special."""
    return say(_HINTS.get(str(code), ("", "")), chinese=chinese)


def not_held(named: str, *, chinese: bool) -> str:
    """Return that nothing is held at the paths that are ``named``, and nothing is there."""
    return f"没有名为 {named} 的待提交更改" if chinese else f"no change named {named} is held"


def unkept(named: str, count: int, room: str, *, chinese: bool) -> str:
    """Return that no copy could be kept of ``count`` held files, which are ``named``; ``room``: for no more."""
    if chinese:
        why = f"副本仅剩 {room} 空间" if room else "文件无法读取，或没有空间"
        return f"无法为待提交的 {count} 个文件保留副本（试运行后要靠它恢复）：{named}；{why}"
    of = "a held file" if count == 1 else f"{count} held files"
    why = f"copies have room for {room} more" if room else "it could not be read, or there was no room"
    return f"no copy could be kept of {of} to bring back afterwards: {named}; {why}"


def settled(named: str, count: int, *, chinese: bool) -> str:
    """Return that the ``count`` paths that are ``named`` are on this machine as cells see them."""
    if chinese:
        return f"{named} 在此机器上与单元格所见相同（已保存，或未更改），没有待提交的内容"
    are, they = ("is", "it") if count == 1 else ("are", "them")
    return (
        f"{named} {are} on this machine as cells see {they} (saved already, or never changed), so that nothing of "
        f"{they} is held"
    )
