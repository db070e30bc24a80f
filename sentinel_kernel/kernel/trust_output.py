"""`%sentinel_trust_output`: what the person lets outputs do in the browser, until the kernel ends.

There is little that a yes can give: hosts to load from, and scripts in frames where the profile has none. What runs in
the page itself would have the person's login, and is not to be had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.questions import YES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.trust_arguments import TrustWanted
    from sentinel_kernel.kernel.wire import Json


class TrustOutput:
    """Asks the person, and changes the output filter."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._chinese = host.settings.language == "zh"

    def run(
        self,
        cell: Cell,
        wanted: TrustWanted,
        current: Callable[[Callable[..., None]], Callable[..., None]],
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Do what a line in ``cell`` asks for; ``done`` gets the page of it, ``refuse`` why it was not done."""
        filters = self._host.output_filter
        if wanted.off:
            filters.hosts, filters.scripts = (), False
        if wanted.off or not (wanted.hosts or wanted.scripts):
            done(self._page())
            return
        if why := self._never(wanted):
            refuse(why)
            return
        rules = filters.rules()
        hosts = tuple(host for host in wanted.hosts if host not in rules.hosts)
        if not hosts and not (wanted.scripts and rules.html != "frame"):
            done(self._page())
            return
        if not self._host.questions.reaches(cell):
            refuse(
                self._say(
                    "what outputs may do is the person's to decide, and nobody can be asked here. "
                    "HINT → Run the line in a notebook, or list it in a profile of your own (outputs).",
                    "输出的权限须由您决定，而这里无法询问任何人。"
                    "HINT → 请在笔记本中运行此行，或在自己的配置中列出（outputs）。",
                )
            )
            return

        def answered(answer: str) -> None:
            if answer != "yes":
                refuse(
                    self._say(
                        "it was not allowed: the answer was no, or there was none. Nothing has changed.",
                        "未获允许：回答为否，或没有回答。一切保持不变。",
                    )
                )
                return
            filters.hosts = tuple(dict.fromkeys((*filters.hosts, *hosts)))
            filters.scripts |= wanted.scripts
            done(self._page())

        self._host.questions.ask(cell, self._question(hosts), YES, current(answered))

    def _question(self, hosts: tuple[str, ...]) -> str:
        if hosts:
            names = ", ".join(hosts)
            return self._say(
                f"asks: outputs of this notebook want to load from {names}, until the kernel ends. What cells can read "
                "could be sent there by your browser. Allow it? [y/n] ",
                f"询问：此笔记本的输出请求在内核结束前从 {names} 加载内容。"
                "单元格能读取的内容都可能由您的浏览器发送到那里。是否允许？[y] 是，[n] 否：",
            )
        return self._say(
            "asks: outputs of this notebook want to run scripts, in frames without your login and without any host "
            "that is not listed, until the kernel ends. Allow it? [y/n] ",
            "询问：此笔记本的输出请求在内核结束前运行脚本；脚本位于独立框架中，没有您的登录身份，"
            "也不能访问未列出的主机。是否允许？[y] 是，[n] 否：",
        )

    def _never(self, wanted: TrustWanted) -> str:
        """Return why nobody at this notebook may allow it; empty where the person may."""
        if self._host.settings.lab is None:
            return ""
        from sentinel_kernel.kernel.ceiling import Ceiling  # noqa: PLC0415 - under a lab's rules alone
        from sentinel_kernel.policy.outputs_document import holds  # noqa: PLC0415 - as above

        most, name = Ceiling(self._host.settings).widest(), self._host.magics.ceiling_name
        if most is not None:
            outputs = most.outputs
            given = all(any(holds(one, host) for one in outputs.hosts) for host in wanted.hosts)
            if given and (not wanted.scripts or outputs.html == "frame"):
                return ""
        return self._say(
            f"this lab's ceiling ('{name}') does not give it. HINT → Ask who looks after the lab to list it (outputs).",
            f"本实验室的上限（“{name}”）不允许。HINT → 请联系实验室管理员将其列出（outputs）。",
        )

    def _page(self) -> Json:
        filters = self._host.output_filter
        rules = filters.rules()
        none = self._say("none", "无")
        html = {
            "plain": self._say("shown as text alone", "仅显示文本"),
            "sanitize": self._say("shown without scripts", "显示，但去除脚本"),
            "frame": self._say(
                "shown; scripts in frames without your login", "显示；脚本位于没有登录身份的框架中"
            ),
        }
        own = (*filters.hosts, *(["scripts"] if filters.scripts else []))
        rows = [
            ("HTML", html[rules.html]),
            (self._say("hosts that outputs load from", "输出可加载的主机"), ", ".join(rules.hosts) or none),
            (self._say("allowed by you for this session", "您为本次会话允许的"), ", ".join(own) or none),
            (
                self._say("never", "永不允许"),
                self._say(
                    "scripts in the page itself, with your login; commands, forms, code of widgets",
                    "在页面本身以您的登录身份运行脚本；命令、表单、控件自带的代码",
                ),
            ),
        ]
        return rendering.table_bundle(self._say("Sentinel: outputs", "Sentinel：输出"), rows)

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english
