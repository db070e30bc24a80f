"""What the host says of a lesser rung of the isolation ladder: in the first cell, and in the status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.words import Words

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

_TEXT_CHARACTERS = 1000


def _told(ready: Json, name: str) -> str:
    words = ready.get("rung_words")
    value = words.get(name) if isinstance(words, dict) else ""
    return value[:_TEXT_CHARACTERS] if isinstance(value, str) else ""


def first_notice(ready: Json) -> Words:
    """Return the notice of the first cell."""
    output = _told(ready, "output")
    writes_en = (
        f"Cells can write to {output} (its name is in the variable SENTINEL_OUTPUT) and to TMPDIR, which goes with the "
        "kernel"
        if output
        else "Cells can write to TMPDIR alone, which goes with the kernel"
    )
    writes_zh = (
        f"单元格只能写入 {output}（变量 SENTINEL_OUTPUT 中有其路径）和随内核消失的 TMPDIR"
        if output
        else "单元格只能写入随内核消失的 TMPDIR"
    )
    return Words(
        "This kernel is on the landlock rung of isolation, not on the full one. Its files are fenced and it has no "
        "network, but it shares the machine's processes and file tree: names, sizes and times of files can be seen, "
        f"and what is written is on the disk at once. {writes_en}; the notebook's folder is read-only, so that "
        f"%sentinel_commit and %sentinel_undo have nothing to do. Why: {_told(ready, 'cause_en')}",
        "此内核处于 landlock 隔离级别，而不是完整（full）级别。文件受到限制，也没有网络，但它与本机共用进程和文件树："
        f"可以看到文件的名称、大小和时间，写入的内容会立即落到磁盘上。{writes_zh}；笔记本所在文件夹为只读，"
        f"因此 %sentinel_commit 和 %sentinel_undo 不起作用。原因：{_told(ready, 'cause_zh')}",
        f"For the full rung: {_told(ready, 'remedy_en')} Then restart the kernel. `sentinel-kernel doctor` tries it.",
        f"如需完整级别：{_told(ready, 'remedy_zh')} 然后重启内核。`sentinel-kernel doctor` 可逐项检查。",
    )


def status_rows(ready: Json, language: str) -> list[tuple[str, str]]:
    """Return the rows of the status page that say what the rung is and why."""
    chinese = language == "zh"
    names = ("cause_zh", "remedy_zh") if chinese else ("cause_en", "remedy_en")
    rows = [
        ("原因（隔离级别）" if chinese else "why not the full rung", _told(ready, names[0])),
        ("修复方法" if chinese else "repair", _told(ready, names[1])),
        ("可写的文件夹" if chinese else "cells write to", _told(ready, "output") or "TMPDIR"),
    ]
    version = (ready.get("rung_words") or {}).get("abi")
    return [*rows, ("Landlock", f"version {version}")] if isinstance(version, int) else rows
