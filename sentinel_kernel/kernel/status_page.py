"""The rows of `%sentinel_status`: what is in force, and what was refused so far."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sentinel_kernel import __version__
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.rendering import printable
from sentinel_kernel.policy.own_limits import HELD_BY_GROUP_ALONE
from sentinel_kernel.policy.plan import HOMES_UNSEEN
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from sentinel_kernel.kernel.displays import Displays
    from sentinel_kernel.kernel.lifecycle import Lifecycle
    from sentinel_kernel.kernel.settings import Settings

LIMITS = (
    ("memory_bytes", "memory", "内存"),
    ("cpu_count", "CPUs", "处理器"),
    ("pids", "processes", "进程数"),
    ("disk_bytes", "changed files", "文件改动"),
    ("tmp_bytes", "/tmp", "/tmp"),
    ("shm_bytes", "/dev/shm", "/dev/shm"),
    ("open_files", "open files", "打开文件数"),
    ("file_size_bytes", "size of a file", "单个文件大小"),
    ("wall_seconds", "seconds per cell", "每单元格秒数"),
    ("cpu_seconds", "CPU seconds per cell", "每单元格 CPU 秒数"),
    ("output_bytes", "output per cell", "每单元格输出"),
    ("io_read_bytes", "disk reading per second", "每秒从磁盘读取"),
    ("io_write_bytes", "disk writing per second", "每秒写入磁盘"),
)
"""Field, and what it is called in English and Chinese."""

_BACKENDS = {
    "cgroup": ("a control group", "控制组"),
    "systemd": ("a control group that systemd made", "由 systemd 建立的控制组"),
    "fallback": (
        "rlimits, sizes of file systems and watching (no control group)",
        "rlimit、文件系统大小与监视（没有控制组）",
    ),
}
"""Name of what keeps the limits (supervisor/backend.py), in English and Chinese."""

_STATES = {
    "starting": ("a sandbox is being started", "沙箱正在启动"),
    "ready": ("running", "运行中"),
    "unavailable": ("no sandbox can be set up", "无法建立沙箱"),
    "stopping": ("ending", "正在结束"),
}


class StatusPage:
    """Gathers the rows from where they are known."""

    def __init__(self, settings: Settings, lifecycle: Lifecycle, displays: Displays) -> None:
        self._settings = settings
        self._lifecycle = lifecycle
        self._displays = displays

    def rows(self) -> list[tuple[str, str]]:
        """Return name and value of each row, in the person's language."""
        lifecycle = self._lifecycle
        chinese = self._settings.language == "zh"
        state = _STATES[lifecycle.state.value][1 if chinese else 0]
        rows = [
            ("状态" if chinese else "sandbox", state),
            ("配置" if chinese else "profile", lifecycle.profile),
            ("隔离级别" if chinese else "isolation", str(lifecycle.ready.get("rung", "-"))),
            *self._rung(),
            ("限制" if chinese else "limits", self._limits(chinese=chinese)),
            ("限制由谁执行" if chinese else "limits kept by", self._backend(chinese=chinese)),
            ("沙箱序号" if chinese else "sandbox number", str(lifecycle.generation)),
            ("已拒绝的系统调用" if chinese else "calls refused so far", str(self._displays.refusals)),
            *self._others(chinese=chinese),
            ("工作区" if chinese else "workspace", self._workspace(chinese=chinese)),
            *self._mounts(),
            ("版本" if chinese else "version", f"Sentinel Kernel {__version__}"),
        ]
        lab = self._settings.lab
        if lab is not None:
            kept = f"locked to {lab.profile}" if lab.locked else f"ceiling {lab.ceiling}"
            zh = f"锁定为 {lab.profile}" if lab.locked else f"上限 {lab.ceiling}"
            rows.append(("实验室配置" if chinese else "lab", f"{lab.path} ({zh if chinese else kept})"))
        if lifecycle.problem is not None:
            step, cause, remedy = lifecycle.problem.describe(self._settings.language)
            rows[1:1] = [
                ("失败的步骤" if chinese else "failed step", step),
                ("原因" if chinese else "cause", cause),
                ("修复方法" if chinese else "repair", remedy),
            ]
        notices = [notice for notice in lifecycle.ready.get("notices") or () if isinstance(notice, dict)]
        label, language = "注意" if chinese else "note", self._settings.language
        rows += [(label, str(notice.get(language) or notice.get("en"))) for notice in notices]
        return rows + [(label, words) for words in self._homes_unseen(chinese=chinese)]

    def _homes_unseen(self, *, chinese: bool) -> list[str]:
        """Return a sentence for each folder of data in which not all was looked at for homes."""
        found = []
        for notice in self._lifecycle.ready.get("notices") or ():
            if isinstance(notice, str) and notice.startswith(HOMES_UNSEEN):
                folder = printable(notice.removeprefix(HOMES_UNSEEN))
                found.append(
                    f"{folder} 过大，未能全部检查其中是否有用户主目录：未检查到的主目录里的隐藏文件（.ssh、.config 等）"
                    "可被单元格读取。HINT → 请在配置的 filesystem.mounts 中改为所需的子文件夹。"
                    if chinese
                    else f"{folder} is too large to be looked through for homes: hidden files (.ssh, .config ...) of "
                    "those beyond can be read by cells. HINT → In the profile's filesystem.mounts, name the folders "
                    "in it that you need."
                )
        return found

    def _others(self, *, chinese: bool) -> list[tuple[str, str]]:
        """Return the row of what was told beside refused calls, none where there is nothing: it is counted apart."""
        count = str(self._displays.others)
        return [] if count == "0" else [("限制与故障" if chinese else "limits and failures so far", count)]

    def _rung(self) -> list[tuple[str, str]]:
        """Return the rows of a lesser rung than the full one."""
        if not self._lifecycle.ready.get("rung_words"):
            return []
        from sentinel_kernel.kernel.rung_words import status_rows  # noqa: PLC0415 - not on the start path

        return status_rows(self._lifecycle.ready, self._settings.language)

    def _mounts(self) -> list[tuple[str, str]]:
        """Return a row for each folder that was shown while the sandbox ran."""
        mounts = self._lifecycle.ready.get("mounts")
        if not mounts:
            return []
        from sentinel_kernel.kernel.mount_words import MountWords  # noqa: PLC0415 - not on the start path

        return MountWords(self._settings.language).row(mounts)

    def _workspace(self, *, chinese: bool) -> str:
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

        commit = "none"
        with contextlib.suppress(SentinelError, OSError):
            profile = load_profile(self._lifecycle.profile, self._settings.profile_directories)
            commit = profile.filesystem.commit
        if commit == "new" and self._settings.commit != "none":
            note = (
                "新文件会保存，其他改动保留在沙箱中"
                if chinese
                else "new files are saved in it, other changes are held"
            )
        else:
            note = "改动保存在沙箱中" if chinese else "changes stay in the sandbox"
        told = f"（{note}；%sentinel_files）" if chinese else f" ({note}; %sentinel_files)"
        return f"{self._settings.workspace}{told}"

    def _backend(self, *, chinese: bool) -> str:
        name = str(self._lifecycle.ready.get("backend", "-"))
        detail = str(self._lifecycle.ready.get("backend_detail", ""))
        if chinese:
            from sentinel_kernel.kernel.chinese import in_chinese  # noqa: PLC0415 - not on the start path

            detail = in_chinese(detail)
        shown = _BACKENDS.get(name, (name, name))[1 if chinese else 0]
        return f"{shown}{'：' if chinese else ': '}{detail}" if detail else shown

    def _limits(self, *, chinese: bool) -> str:
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

        try:
            resources = load_profile(self._lifecycle.profile, self._settings.profile_directories).resources
        except (SentinelError, OSError) as error:
            return str(error)
        # Of a sandbox that is there: what the profile's shares of the machine came to.
        sizes = self._lifecycle.ready.get("sizes") or {}
        limits = []
        for field, english, zh in LIMITS:
            value = sizes.get(field, getattr(resources, field, None))
            if field == "cpu_count":
                # A share of a processor's time is given to a whole number of them, and is what is in force.
                value = (sizes.get("cpu_quota") if sizes else resources.cpu_quota) or value
                value = min(value, len(os.sched_getaffinity(0))) if isinstance(value, int | float) else value
            if value is not None:
                shown = size_text(value) if field.endswith("_bytes") else f"{value:.15g}"
                if field in HELD_BY_GROUP_ALONE and self._lifecycle.ready.get("holds_io") is False:
                    shown += "（此处无法限制）" if chinese else " (not held here)"
                limits.append(f"{zh if chinese else english} {shown}")
        return ("，" if chinese else ", ").join(limits)
