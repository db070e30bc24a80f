"""Sentences of the supervisor and of files' checks in Chinese: both are told in English, whoever asks."""

from __future__ import annotations

import re

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
    for english, translated in _SENTENCES:
        found = re.fullmatch(english, sentence, re.DOTALL)
        if found is not None:
            return found.expand(translated)
    return sentence
