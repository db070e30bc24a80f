"""What the gauge's selector and buttons do: another profile within the ceiling, an interrupt, and the worker's end.

They act on a client's signed message alone, and within what a cell's magics may do: a page can be made to click.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel import words
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.cells import Stage
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.profile_change import why_fresh
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.wire import Json

GRACE_SECONDS = 2.0
"""How long a cell may go on after its interrupt before the worker's end is offered."""


def _is_whole(name: str, directories: Sequence[str]) -> bool:
    """Tell whether a profile's file can be read, and says nothing wrong."""
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

    try:
        load_profile(name, directories)
    except (SentinelError, OSError):
        return False
    return True


class GaugeControls:
    """Carries out clicks; ``changed`` is called when there is something new to show."""

    def __init__(self, host: Host, changed: Callable[[], None]) -> None:
        self._host = host
        self._changed = changed
        self._stopped: Cell | None = None
        self._offered = False
        self.note = ""
        """What became of the last click."""
        self.switching = False
        """A change of profile is under way."""

    @property
    def running(self) -> Cell | None:
        """The cell that runs, if any: the one that began last."""
        for cell in reversed(self._host.execution.running.values()):
            if not cell.idle:
                return cell
        return None

    @property
    def kill_offered(self) -> bool:
        """Whether the cell that was stopped goes on all the same."""
        return self._offered and self._stopped is self.running is not None

    def choices(self) -> list[tuple[str, bool]]:
        """Return every profile that can be read, and whether a cell may switch to it.

        One that is broken can't be chosen; `%sentinel_profile` says what is wrong with it.
        """
        from sentinel_kernel.policy.profile import list_profiles  # noqa: PLC0415 - not on the start path

        allowed = set(self._host.magics.choices())
        current, directories = self._host.lifecycle.profile, self._host.settings.profile_directories
        names = [
            name for name in list_profiles(directories) if name in allowed or _is_whole(name, directories)
        ]
        return [(name, name in allowed or name == current) for name in dict.fromkeys([*names, current])]

    def choose(self, name: str) -> None:
        """Change to a profile in place; say what to do instead where that can't be."""
        host = self._host
        lifecycle = host.lifecycle
        if name == lifecycle.profile or self.switching:
            return
        if not dict(self.choices()).get(name, False):
            self._tell(
                f"{name} goes beyond what a cell of this kernel may ask for (ceiling: {host.magics.ceiling_name}), "
                f"so nothing was changed. Type %sentinel_profile {name} at the top of a cell to see what can be done.",
                f"{name} 超出此内核的单元格可以请求的范围（上限：{host.magics.ceiling_name}），未作改动。"
                f"请在单元格开头输入 %sentinel_profile {name} 查看可行的办法。",
            )
            return
        if lifecycle.state is not State.READY or lifecycle.link is None:
            self._tell(
                "No sandbox is running that could be changed; choose again when there is one.",
                "当前没有可更改的沙箱；请在沙箱就绪后再选择。",
            )
            return
        self.switching = True
        generation = lifecycle.generation
        lifecycle.link.request(
            protocol.OP_PROFILE,
            {"profile": name},
            lambda told: self._switched(name, told, generation),
            CELL_SECONDS,
        )

    def _switched(self, name: str, told: Json, generation: int) -> None:
        self.switching = False
        lifecycle = self._host.lifecycle
        if lifecycle.generation != generation:
            return  # of a sandbox that is gone: another one is in force
        if told.get("live") is True:
            lifecycle.profile = name
            lifecycle.ready = {**lifecycle.ready, "profile": name, "sizes": told.get("after") or {}}
            at = time.strftime("%H:%M:%S")
            self._tell(
                f"Profile {name} is in force since {at}; every variable was kept.",
                f"自 {at} 起使用配置 {name}；所有变量均已保留。",
            )
            return
        if told.get("message"):
            self._tell(str(told["message"])[:500], str(told["message"])[:500])
            return
        reason_en, reason_zh = why_fresh(told, chinese=False), why_fresh(told, chinese=True)
        self._tell(
            f"{name} takes a fresh sandbox{f' ({reason_en})' if reason_en else ''}, so nothing was changed. "
            f"Type %sentinel_profile {name} at the top of a cell to go on there.",
            f"{name} 需要全新的沙箱{f'（{reason_zh}）' if reason_zh else ''}，未作改动。"
            f"请在单元格开头输入 %sentinel_profile {name} 以切换。",
        )

    def stop(self) -> None:
        """Interrupt the running cell; where it goes on, offer the worker's end."""
        cell = self.running
        if cell is None:
            return
        self._stopped, self._offered = cell, False
        self._tell("The running cell was interrupted.", "已中断正在运行的单元格。")
        self._host.interrupt()

        def look_again() -> None:
            if self._stopped is cell and cell.stage is Stage.RUNNING and not cell.idle:
                self._offered = True
                self._tell(
                    "The cell goes on in spite of the interrupt. “End the worker” stops it for good; "
                    "the variables of this notebook are lost then.",
                    "单元格忽略了中断。“终止进程”会将其彻底停止，但此笔记本的变量会丢失。",
                )

        self._host.loop.call_later(GRACE_SECONDS, look_again)

    def kill(self) -> None:
        """End a worker whose cell ignored its interrupt, for a fresh sandbox under the same profile."""
        if self.kill_offered:
            self._stopped = None
            self._tell("The worker was ended; a fresh one takes over.", "进程已终止；新的进程会接替它。")
            self._host.end_worker(words.ENDED_BY_BUTTON)

    def cell_begins(self) -> None:
        """Forget what was said before it."""
        if self._stopped is None:
            self.note = ""

    def cell_ended(self) -> None:
        """Forget what was said of a cell that is over."""
        if self._stopped is not None and self.running is not self._stopped:
            self._stopped, self._offered, self.note = None, False, ""

    def _tell(self, english: str, chinese: str) -> None:
        self.note = chinese if self._host.settings.language == "zh" else english
        self._changed()
