"""Sentences of the supervisor and of files' checks in Chinese: both are told in English, whoever asks."""

from __future__ import annotations

from sentinel_kernel.policy.sentences import translated

_SENTENCES = (
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
    (r"busctl, which comes with systemd, is not installed\.", r"未安装 systemd 附带的 busctl。"),
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
    (r"it is too large", r"太大"),
    (r"it is or holds an open file: open that again", r"它是或包含已打开的文件：请重新打开"),
    (r"it took too long", r"用时过长"),
    (r"it could not be (?:saved|loaded)", r"无法保存或载入"),
    (r"a module that can't be imported again", r"无法再次导入的模块"),
    (
        r"defined in a cell: run that cell again \(the package cloudpickle would carry it\)",
        r"在单元格中定义：请重新运行该单元格（安装 cloudpickle 包后可一并带上）",
    ),
    (r"the sandbox did not tell its variables", r"沙箱没有给出其变量"),
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
    return translated(sentence, _SENTENCES)
