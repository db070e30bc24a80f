"""`%sentinel_violations`: this session's violations as a table, or as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.frontend_comms import fitting
from sentinel_kernel.policy.unseen import is_seen

if TYPE_CHECKING:
    from sentinel_kernel.kernel.session_violations import SessionViolations
    from sentinel_kernel.kernel.wire import Json

VERSION = 1
_COLUMNS = (
    ("no.", "序号"),
    ("times", "次数"),
    ("cause", "原因"),
    ("line", "行"),
    ("cell", "单元格"),
    ("what", "内容"),
    ("hint", "提示"),
)
_MESSAGE_CHARACTERS = 400
_SUBJECT_CHARACTERS = 100
_CAUSES = {
    "call": ("system call", "系统调用"),
    "memory": ("memory", "内存"),
    "pids": ("processes", "进程数"),
    "disk": ("changed files", "文件改动"),
    "tmp": ("/tmp", "/tmp"),
    "shm": ("/dev/shm", "/dev/shm"),
    "file_size": ("size of a file", "单个文件大小"),
    "open_files": ("open files", "打开文件数"),
    "watches": ("watched files", "监视的文件数"),
    "output": ("output", "输出量"),
    "wall_seconds": ("time", "运行时间"),
    "cpu_seconds": ("CPU time", "CPU 时间"),
    "path_hidden": ("path not shown", "路径不可见"),
    "path_read_only": ("path read-only", "路径只读"),
    "path_denied": ("path covered", "路径被遮蔽"),
    "folder_rename": ("folder not renamed", "文件夹未重命名"),
    "path_busy": ("place in use", "位置正在使用"),
    "name_lookup": ("name lookup", "域名解析"),
    "network_unreachable": ("no network", "网络不可达"),
    "host_refused": ("host not allowed", "主机未获允许"),
    "package_absent": ("package absent", "缺少软件包"),
    "program_absent": ("program absent", "缺少程序"),
    "child_killed": ("child killed", "子进程被终止"),
    "worker_killed": ("sandbox ended", "沙箱进程被终止"),
    "worker_crashed": ("crash", "崩溃"),
    "call_absent": ("call absent", "系统调用不存在"),
}
"""A cause (policy/cause.py) in English and Chinese."""


def cause_name(record: Json, *, chinese: bool) -> str:
    """Return a record's cause in words."""
    cause = str(record.get("cause") or "call")
    return _CAUSES.get(cause, (cause, cause))[1 if chinese else 0]


def _subject(record: Json) -> str:
    """Return what was reached for, which is the sandbox's own word: the page escapes it."""
    subject = record.get("subject")
    return f": {str(subject.get('text'))[:_SUBJECT_CHARACTERS]}" if isinstance(subject, dict) else ""


def violations_page(told: SessionViolations, number: int, *, chinese: bool) -> Json:
    """Return the bundle of a table of the ``number`` last violations, the newest first."""
    title = "Sentinel：拒绝与限制记录" if chinese else "Sentinel: violations"
    records = told.newest(number)[::-1]
    if not records:
        nothing = "本次会话中没有任何操作被拒绝。" if chinese else "Nothing was refused in this session."
        return rendering.page_bundle(title, [], [nothing])
    language = "zh" if chinese else "en"
    rows = [
        [
            str(place),
            str(record.get("count") or 1),
            cause_name(record, chinese=chinese) + _subject(record),
            str(record.get("line") or record.get("started_line") or "-"),
            f"[{record['execution_count']}]" if record.get("execution_count") else "-",
            rendering.printable(rendering.said(record, "message", language), _MESSAGE_CHARACTERS),
            rendering.printable(rendering.said(record, "hint", language), _MESSAGE_CHARACTERS),
        ]
        for place, record in enumerate(records, 1)
    ]
    older = len(told) - len(records)
    notes = [
        "每行是一种：被拒绝的系统调用（重复的次数计入“次数”），或限制与故障。%sentinel_explain 序号 详细说明其中一条；"
        "--json 以数据形式给出。"
        if chinese
        else "A row is one kind: a refused call with its repeats (times), a limit or a failure. "
        "%sentinel_explain NO. tells one at length; --json gives them as data."
    ]
    if older:
        notes.append(f"另有 {older} 条更早的记录。" if chinese else f"Older ones: {older} (--last N).")
    header = [zh if chinese else english for english, zh in _COLUMNS]
    return rendering.columns_bundle(title, header, rows, notes)


def violations_data(told: SessionViolations, number: int) -> Json:
    """Return the bundle of the ``number`` last violations as data, the oldest first (violation.schema.json)."""
    records = fitting(told.newest(number))
    document = {"version": VERSION, "known": len(told), "violations": records}
    return {
        "application/json": document,
        "text/plain": seen(json.dumps(document, ensure_ascii=False, indent=1)),
    }


def seen(text: str) -> str:
    """Return JSON with what can't be seen, as a change of direction, in JSON's own escapes; it says the same."""
    return "".join(one if one == "\n" or is_seen(one) else json.dumps(one)[1:-1] for one in text)
