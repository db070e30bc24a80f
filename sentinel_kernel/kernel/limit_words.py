"""What is told of processes that a cell left behind, which is no limit that was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.words import Words

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json


def left_running(limit: Json) -> Words:
    """Return the words for processes that a cell left behind."""
    detail = str(limit.get("detail") or "?")[:100]
    return Words(
        f"A cell left a process behind that goes on in the background: {detail}.",
        f"有单元格留下了仍在后台运行的进程：{detail}。",
        "It is still in the sandbox, held to the same limits, and ends with it: %sentinel_reset or a restart ends it "
        "now.",
        "它仍在沙箱内，受同样的限制，并随沙箱结束：可用 %sentinel_reset 或重启立即结束它。",
    )
