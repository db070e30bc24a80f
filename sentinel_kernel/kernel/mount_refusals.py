"""Why a folder is not shown, or not written, and what helps, by the code of the refusal, in English and Chinese."""

from __future__ import annotations

FAILED = (
    (
        "it did not work ({detail}). Nothing has changed. HINT → Try again; `sentinel-kernel "
        "doctor` tells what is missing."
    ),
    "操作失败（{detail}）。一切保持不变。HINT → 请重试；`sentinel-kernel doctor` 会说明缺少什么。",
)
WHY = {
    "absent": (
        (
            "there is no such folder on the host. HINT → Check how it is written; a relative path "
            "starts at the notebook's folder."
        ),
        "主机上没有这个文件夹。HINT → 请检查拼写；相对路径从笔记本所在文件夹开始。",
    ),
    "busy": (
        "another folder is being shown right now. HINT → Run the cell again in a moment.",
        "正在显示另一个文件夹。HINT → 请稍后重新运行该单元格。",
    ),
    "changed": (
        (
            "it is another folder than the one that you were asked about. Nothing has changed. HINT "
            "→ Run the cell again."
        ),
        "它已不是询问时的那个文件夹。一切保持不变。HINT → 请重新运行该单元格。",
    ),
    "host_runs": (
        (
            "programs on the host would run or obey what a cell writes there ({detail}). HINT → Show "
            "it read-only: %sentinel_mount {path} ro"
        ),
        (
            "主机上的程序会运行或采用单元格写入其中的内容（{detail}）。HINT → 请以只读方式显示："
            "%sentinel_mount {path} ro"
        ),
    ),
    "loop": (
        "its links lead round in a circle.",
        "其链接形成循环。",
    ),
    "mounts_below": (
        (
            "other file systems are mounted inside it ({detail}), above which an ordinary user can't "
            "put a layer. HINT → Name a folder below or beside that place."
        ),
        (
            "其中挂载了其他文件系统（{detail}），普通用户无法在其上叠加一层。HINT → 请指定该位置之下"
            "或旁边的文件夹。"
        ),
    ),
    "no_access": (
        "you may not read it yourself. HINT → Ask its owner.",
        "您本人无权读取它。HINT → 请联系其所有者。",
    ),
    "no_layer": (
        (
            "its file system does not take the layer that keeps the host's sockets and pipes out "
            "({detail}). HINT → Show it read-only (ro), or copy it to a local disk first."
        ),
        (
            "其文件系统不支持隔离主机套接字和管道的叠加层（{detail}）。HINT → 请以只读（ro）方式显示"
            "，或先复制到本地磁盘。"
        ),
    ),
    "no_owner_map": (
        "its file system can't map owners ({detail}). HINT → Start JupyterLab as an ordinary user.",
        "其文件系统无法映射所有者（{detail}）。HINT → 请以普通用户身份启动 JupyterLab。",
    ),
    "no_sandbox": (
        "no sandbox runs at the moment. HINT → Run the cell again.",
        "目前没有运行中的沙箱。HINT → 请重新运行该单元格。",
    ),
    "replaced": (
        (
            "cells were given another folder at this place, which the host has exchanged for this one since, and they "
            "still have that one. HINT → `%sentinel_reset` shows this one, in a fresh sandbox; variables are lost."
        ),
        (
            "单元格在此位置使用的仍是原来的文件夹，而主机上该处已换成另一个。HINT → 输入 `%sentinel_reset` 会以全新的"
            "沙箱显示现在的文件夹；变量会丢失。"
        ),
    ),
    "rung": (
        (
            "on the landlock rung nothing can be mounted. HINT → Copy the files into the notebook's folder, or name "
            "the folder in a profile's filesystem.mounts. %sentinel_status tells how to get the full rung."
        ),
        (
            "landlock 隔离级别无法挂载文件夹。HINT → 请把文件复制到笔记本所在文件夹，或在配置的 filesystem.mounts "
            "中列出该文件夹。%sentinel_status 会说明如何获得完整级别。"
        ),
    ),
    "no_work_folder": (
        (
            "a folder that is written needs a folder beside it on the same file system, and {detail} "
            "can't be written. HINT → Name a folder inside it, or show it read-only (ro)."
        ),
        (
            "可写文件夹需要在同一文件系统上有一个相邻文件夹，而 {detail} 不可写。HINT → 请指定其中的"
            "子文件夹，或以只读（ro）方式显示。"
        ),
    ),
    "no_write": (
        "you may not write there yourself. HINT → Show it read-only: %sentinel_mount {path} ro",
        "您本人无权写入。HINT → 请以只读方式显示：%sentinel_mount {path} ro",
    ),
    "not_folder": (
        "it is a file. HINT → Name the folder that it lies in.",
        "它是文件。HINT → 请指定其所在的文件夹。",
    ),
    "secret": (
        (
            "it is hidden from every cell ({detail}): keys, passwords, settings or what Sentinel saves lie there. "
            "HINT → Copy what the cell needs into the notebook's folder."
        ),
        (
            "它对所有单元格隐藏（{detail}）：其中有密钥、密码、设置或 Sentinel 保存的文件。HINT → "
            "请把单元格所需内容复制到笔记本所在文件夹。"
        ),
    ),
    "secret_inside": (
        (
            "{detail} is hidden from every cell, and is not there yet: in a folder that is written directly nothing "
            "would cover it. HINT → Make it first, or show the folder read-only: %sentinel_mount {path} ro"
        ),
        (
            "{detail} 对所有单元格隐藏，而它尚不存在：在直接写入的文件夹中无法将其遮盖。HINT → 请先创建它，"
            "或以只读方式显示该文件夹：%sentinel_mount {path} ro"
        ),
    ),
    "special": (
        "{detail} is no folder of data. HINT → Name a folder with your data.",
        "{detail} 不是数据文件夹。HINT → 请指定存放数据的文件夹。",
    ),
    "taken": (
        "its place {detail} is taken. HINT → %sentinel_mount lists what is shown.",
        "位置 {detail} 已被占用。HINT → %sentinel_mount 列出已显示的文件夹。",
    ),
    "too_many": (
        (
            "{detail} folders are shown already. HINT → Take one away: %sentinel_mount lists them with the names that "
            "stand behind %sentinel_mount --remove"
        ),
        "已显示 {detail} 个文件夹。HINT → 请先移除一个：%sentinel_mount 会列出名称，写在 %sentinel_mount --remove 后",
    ),
    "too_slow": (
        "its disk does not answer. Nothing has changed. HINT → Try again when the disk answers.",
        "其磁盘没有响应。一切保持不变。HINT → 请在磁盘恢复响应后重试。",
    ),
    "unknown_name": (
        "no folder of that name is shown. HINT → %sentinel_mount lists the names.",
        "没有显示该名称的文件夹。HINT → %sentinel_mount 会列出名称。",
    ),
}
BEFORE_HINT = (" HINT →", "HINT →")
_HOLDS_DATA_ALONE = (
    (
        "HINT → Cells can read it all the same. Have the profile name a folder inside it that holds data alone, or "
        "write to the notebook's folder."
    ),
    "HINT → 单元格仍可读取它。请在配置中改为列出其中只存放数据的文件夹，或写入笔记本所在文件夹。",
)
OF_PROFILE = {
    "host_runs": _HOLDS_DATA_ALONE,
    "no_layer": (
        (
            "HINT → Cells can read it all the same. To have it written, copy it to a local disk and name that in the "
            "profile."
        ),
        "HINT → 单元格仍可读取它。如需写入，请将其复制到本地磁盘，并在配置中列出该处。",
    ),
    "no_work_folder": _HOLDS_DATA_ALONE,
    "no_write": (
        "HINT → Cells can read it all the same. To have it written, ask its owner for the right to.",
        "HINT → 单元格仍可读取它。如需写入，请向其所有者申请权限。",
    ),
    "secret_inside": (
        (
            "HINT → Cells can read it all the same. To have it written, make that first, outside the sandbox, and type "
            "%sentinel_mount {path} rw"
        ),
        "HINT → 单元格仍可读取它。如需写入，请先在沙箱外创建它，然后输入 %sentinel_mount {path} rw",
    ),
}
"""What helps where the profile wants a folder written: it is shown read-only already."""
ANEW = (
    "HINT → `%sentinel_reset` shows what is there now, in a fresh sandbox; variables are lost.",
    "HINT → 输入 `%sentinel_reset` 会以全新的沙箱显示该处现在的内容；变量会丢失。",
)
"""What helps where cells were given the folder before: until their sandbox ends they write to what they have."""
NOT_ANEW = frozenset({"busy", "changed", "failed", "rung", "too_slow"})
"""What a fresh sandbox would not help against: most of it is over by itself, or by another try."""
CODES = frozenset({*WHY, "failed"})
