"""Why a variable stays behind: the few reasons that there are, each by one word, and what is said of them.

A worker names one of these words, and perhaps a type; sentences of its own are never shown. They would stand among the
host's, in questions to the person and in what an assistant is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

TOO_LARGE = "too-large"
LATE = "late"
INTERRUPTED = "interrupted"
UNHEARD = "unheard"
"""The worker did not tell which variables there are."""

UNKNOWN = "unknown"

_TYPE = re.compile(r"(?=.{1,60}\Z)[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)

REASONS = {
    TOO_LARGE: ("it is too large", "太大"),
    LATE: ("it took too long", "用时过长"),
    INTERRUPTED: ("it was interrupted", "已被中断"),
    UNHEARD: ("the sandbox did not tell its variables", "沙箱没有给出其变量"),
    UNKNOWN: ("it could not be carried over", "无法带上"),
    "open-file": ("it is or holds an open file: open that again", "它是或包含已打开的文件：请重新打开"),
    "module": ("a module that can't be imported again", "无法再次导入的模块"),
    "of-a-cell": (
        "defined in a cell: run that cell again (the package cloudpickle would carry it)",
        "在单元格中定义：请重新运行该单元格（安装 cloudpickle 包后可一并带上）",
    ),
    "memory": ("there was not enough memory", "内存不足"),
    "not-pickled": ("it can't be pickled", "无法序列化"),
    "raised": ("it could not be saved or loaded", "无法保存或载入"),
}
_WITH_TYPE = {
    "not-pickled": ("it is or holds a {}, which can't be pickled", "它是或包含 {}，后者无法序列化"),
    "raised": ("it could not be saved or loaded: {}", "无法保存或载入：{}"),
}


class Left(Record):
    """A reason, and the type that the worker named with it: what can't be pickled, or an error."""

    reason: str
    type_name: str = ""

    def said(self, *, chinese: bool) -> str:
        """Return the reason in words."""
        words = _WITH_TYPE.get(self.reason) if self.type_name else None
        return (words or REASONS[self.reason])[chinese].format(self.type_name)


def left_behind(reply: Json) -> Left:
    """Return the reason that a worker's answer gives; what is none of these is unknown."""
    reason, type_name = reply.get("reason"), reply.get("type")
    if not isinstance(reason, str) or reason not in REASONS:
        return Left(UNKNOWN)
    if not isinstance(type_name, str) or not _TYPE.fullmatch(type_name):
        return Left(reason)
    return Left(reason, type_name)
