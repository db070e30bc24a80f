"""Sentences of the supervisor and of files' checks in Chinese: both are told in English, whoever asks."""

from __future__ import annotations

import re

from sentinel_kernel.policy.sentences import translated

_BEFORE_A_REASON = (
    (r"(SENTINEL_LIMITS_BACKEND=\S*) is not to be had: (.*)", "无法使用 {}："),
    (
        r"The lab's configuration (\S+) is not understood, so that no sandbox is started: (.*)",
        "无法理解实验室配置 {}，因此不启动任何沙箱：",
    ),
    (r"(\$\S*): (.*)", "{}："),
)
"""What ends with another sentence of these; the first group is kept."""

_AFTER_A_REASON = "; the share of processors could not be set: ", "；处理器份额无法设定："

_SENTENCES = (
    (r"(SENTINEL_LIMITS_BACKEND=\S*) names no back end\.", r"\1 不是已知的后端。"),
    (r"Use one of: (.*)\.", r"可用的有：\1。"),
    (
        (
            r"To have it: boot this machine \(a container's: its host\) with control groups of version 2, by the boot "
            r"parameter (\S+)\."
        ),
        r"要使用它：请用启动参数 \1 让这台计算机（若在容器中，则为其主机）以第 2 版控制组启动。",
    ),
    (r"Or leave (\w+) at auto\.", r"也可以让 \1 保持 auto。"),
    (
        (
            r"Start JupyterLab in a group that is delegated to its user \(cgroups\(7\), Delegation\), or leave (\w+) "
            r"at auto\."
        ),
        r"请在委托给该用户的控制组中启动 JupyterLab（cgroups(7)，Delegation），或让 \1 保持 auto。",
    ),
    (
        (
            r"Start JupyterLab in a session of systemd's \(loginctl enable-linger USER keeps one\), or leave (\w+) "
            r"at auto\."
        ),
        r"请在 systemd 的会话中启动 JupyterLab（loginctl enable-linger USER 可保持会话），或让 \1 保持 auto。",
    ),
    (
        r"The lab's configuration (\S+) can't be read \((.*)\), so that no sandbox is started\.",
        r"无法读取实验室配置 \1（\2），因此不启动任何沙箱。",
    ),
    (
        r"The lab's configuration (\S+) is no plain file, so that no sandbox is started\.",
        r"实验室配置 \1 不是普通文件，因此不启动任何沙箱。",
    ),
    (
        r"The lab's configuration (\S+) is longer than (\d+) bytes, so that no sandbox is started\.",
        r"实验室配置 \1 超过 \2 字节，因此不启动任何沙箱。",
    ),
    (
        r"The lab's configuration (\S+) belongs to user (\d+), not to root, so that no sandbox is started\.",
        r"实验室配置 \1 属于用户 \2 而不是 root，因此不启动任何沙箱。",
    ),
    (
        r"The lab's configuration (\S+) can be changed by others than root, so that no sandbox is started\.",
        r"root 以外的用户可以更改实验室配置 \1，因此不启动任何沙箱。",
    ),
    (
        r"The administrator repairs it: (.*) \(755 for a folder\)\.",
        r"请管理员修复：\1（文件夹用 755）。",
    ),
    (r"The administrator corrects it there\.", r"请管理员在该处更正。"),
    (r"The file is longer than (\d+) bytes\.", r"文件超过 \1 字节。"),
    (r"The key (.*) is there twice in one object\.", r"同一个对象中有两个键 \1。"),
    (r"The file is not UTF-8 \(byte (\d+)\)\.", r"文件不是 UTF-8（第 \1 字节）。"),
    (r"The file is not JSON: (.*), line (\d+), column (\d+)\.", r"文件不是 JSON（\1，第 \2 行，第 \3 列）。"),
    (r"The file is not usable JSON: (.*)\.", r"无法使用该 JSON 文件（\1）。"),
    (r"The file holds no JSON object\.", r"文件中没有 JSON 对象。"),
    (r"An object \{ \} belongs here\.", r"此处应为对象 { }。"),
    (r"The key (\S*) is missing\.", r"缺少键 \1。"),
    (r"(\S*) is a text of at most (\d+) characters\.", r"\1 应为不超过 \2 个字符的文本。"),
    (r"(\S*) is true or false\.", r"\1 应为 true 或 false。"),
    (r"(\S*) is a whole number from (\d+) to (\d+)\.", r"\1 应为 \2 到 \3 之间的整数。"),
    (r"(.*) is none of (.*)\.", r"\1 不在可用值之列：\2。"),
    (r"(\S*) is a list \[ \]\.", r"\1 应为列表 [ ]。"),
    (r"A text that is not empty belongs here\.", r"此处应为非空文本。"),
    (r"The key (.*) is unknown\.", r"未知的键 \1。"),
    (r"Did you mean (.*)\? Known here: (.*)\.", r"您是想写 \1 吗？此处可用的键：\2。"),
    (r"Known here: (.*)\.", r"此处可用的键：\1。"),
    (r"Keep one of them\.", r"请只保留一个。"),
    (r"Save it as UTF-8\.", r"请存为 UTF-8。"),
    (r"Correct it there\.", r"请在该处更正。"),
    (r"Simplify it\.", r"请简化该文件。"),
    (r"Split it with 'extends'\.", r"请用 'extends' 拆分。"),
    (r"Its outermost brackets must be \{ \}\.", r"最外层的括号必须是 { }。"),
    (
        (
            r"This machine counts (.*) with control groups of version 1, which are not used "
            r"\(systemd\.unified_cgroup_hierarchy=1 boots with version 2\)\."
        ),
        (
            r"这台计算机用第 1 版控制组统计 \1，而第 1 版不会被使用"
            r"（启动参数 systemd.unified_cgroup_hierarchy=1 会启用第 2 版）。"
        ),
    ),
    (
        r"No control groups of version 2 are mounted here \(only version 1 is mounted, which is not used\)\.",
        r"此处没有挂载第 2 版控制组（只挂载了不会被使用的第 1 版）。",
    ),
    (r"No control groups of version 2 are mounted here\.", r"此处没有挂载第 2 版控制组。"),
    (
        r"No systemd of this user runs \((.*) is not there\)\.",
        r"此用户没有运行中的 systemd（\1 不存在）。",
    ),
    (r"The user's message bus is not there \((.*)\)\.", r"用户的消息总线不存在（\1）。"),
    (
        r"The program busctl, which comes with systemd, is not installed\.",
        r"未安装 systemd 附带的程序 busctl。",
    ),
    (
        r"The user's systemd made no scope: busctl took too long\.",
        r"用户的 systemd 没有创建 scope：busctl 用时过长。",
    ),
    (
        r"The user's systemd made no scope: busctl (?:gave )?(.*)\.",
        r"用户的 systemd 没有创建 scope：busctl 返回了 \1。",
    ),
    (
        r"The user's systemd did not move the supervisor into its scope in time\.",
        r"用户的 systemd 没有及时把监控进程移入其 scope。",
    ),
    (r"(\S+) is not delegated to this user\.", r"\1 没有委托给此用户。"),
    (r"(\S+) lacks the controllers (.*)\.", r"\1 缺少控制器 \2。"),
    (r"(\S+) is systemd's to divide\.", r"\1 由 systemd 划分。"),
    (
        r"(\S+) is the root of all groups and gives its children no controllers\.",
        r"\1 是所有控制组的根，没有把控制器交给子组。",
    ),
    (
        r"(\S+) holds (\d+) processes: it is not this kernel's alone\.",
        r"\1 中有 \2 个进程：它不只属于此内核。",
    ),
    (
        r"([\w, ]+) in (/\S*); without (.*), which this part of the tree was not given",
        r"\2 中的 \1；没有 \3：这部分控制组树未获得它",
    ),
    (r"([\w, ]+) in (/\S*)", r"\2 中的 \1"),
    (r"(.*) is no system call of Linux\.", r"\1 不是 Linux 的系统调用。"),
    (r"(.*) is no resource\.", r"\1 不是已知的资源。"),
    (r"(.*) is no cause\.", r"\1 不是已知的原因。"),
    (r"(.*) is no variant of (\w+)\.", r"\1 不是 \2 的已知变体。"),
    (r"(.*) is no error\.", r"\1 不是已知的错误。"),
    (r"(.*) is no placeholder\.", r"\1 不是已知的占位符。"),
    (r"Known: none\.", r"没有可用的名称。"),
    (r"Known: (.*)\.", r"可用的名称：\1。"),
    (
        r"Write an errno \(EROFS\), a signal \(SIGKILL\) or MemoryError and such\.",
        r"请写 errno（EROFS）、信号（SIGKILL）或 MemoryError 之类的异常名。",
    ),
    (
        r"A hint is a text, or an object with 'en' and 'zh'\.",
        r"hint 必须是文本，或含有 'en' 和 'zh' 的对象。",
    ),
)


def in_chinese(sentence: str) -> str:
    """Return the sentence in Chinese; one that is not in the list (Linux's own, a path with it) as it is."""
    for english, chinese in _BEFORE_A_REASON:
        if (found := re.fullmatch(english, sentence, re.DOTALL)) is not None:
            return chinese.format(found[1]) + in_chinese(found[2])
    text, mark, reason = sentence.partition(_AFTER_A_REASON[0])
    return translated(text, _SENTENCES) + (_AFTER_A_REASON[1] + reason if mark else "")
