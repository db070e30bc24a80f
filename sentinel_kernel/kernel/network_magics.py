"""Hosts that the person allows for the session, and the page of what was tried."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.network_arguments import NetworkWanted
    from sentinel_kernel.kernel.wire import Json

    Current = Callable[[Callable[..., None]], Callable[..., None]]

_YES = {"y": "yes", "yes": "yes", "是": "yes"}
_SHOWN = 50


class NetworkMagics:
    """Asks the person, and has the supervisor do it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._chinese = host.settings.language == "zh"

    def run(
        self,
        cell: Cell,
        wanted: NetworkWanted,
        current: Current,
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Do what a line in ``cell`` asks for; ``done`` gets the page of it, ``refuse`` why it was not done."""
        if not wanted.rule:
            self._request({"do": "list"}, current, lambda told: done(self._page(told, wanted)), refuse)
            return
        if (why := self._never(wanted.rule)) or not self._host.questions.reaches(cell):
            refuse(why or self._nobody(wanted.rule))
            return

        def listed(told: Json) -> None:
            if not told.get("serves") or not told.get("allow"):
                refuse(self._no_way_out())
            elif wanted.rule in (told.get("hosts") or ()):
                done(self._allowed(wanted.rule))
            else:
                self._host.questions.ask(cell, self._question(wanted.rule), _YES, current(answered))

        def answered(answer: str) -> None:
            if answer != "yes":
                refuse(
                    self._say(
                        f"{wanted.rule} was not allowed. Nothing has changed.",
                        f"未允许 {wanted.rule}。一切保持不变。",
                    )
                )
                return
            fields = {"do": "allow", "rule": wanted.rule}
            self._request(fields, current, allowed, refuse)

        def allowed(_: Json) -> None:
            self._host.preflight.granted(wanted.rule)
            done(self._allowed(wanted.rule))

        self._request({"do": "list"}, current, listed, refuse)

    def _never(self, rule: str) -> str:
        """Return why nobody at this notebook may allow the hosts of ``rule``; empty where the person may."""
        host = self._host
        if host.settings.lab is None:
            return ""
        from sentinel_kernel.errors import SentinelError  # noqa: PLC0415 - under a lab's rules alone
        from sentinel_kernel.policy.network import parse_rule  # noqa: PLC0415 - as above
        from sentinel_kernel.policy.network_document import is_given  # noqa: PLC0415 - as above
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - as above

        name = host.magics.ceiling_name
        try:
            ceiling = load_profile(name, host.settings.profile_directories)
            if is_given(parse_rule(rule), ceiling.network):
                return ""
        except (SentinelError, OSError):
            pass  # a ceiling that can't be read allows nothing
        return self._say(
            f"this lab's ceiling ('{name}') does not list {rule}. HINT → Ask who looks after the lab to list it.",
            f"本实验室的上限（'{name}'）未列出 {rule}。HINT → 请联系实验室管理员将其列出。",
        )

    def _request(
        self, fields: Json, current: Current, done: Callable[[Json], None], refuse: Callable[[str], None]
    ) -> None:
        lifecycle = self._host.lifecycle
        if lifecycle.state is not State.READY or lifecycle.link is None or lifecycle.link.gone:
            refuse(self._say("there is no sandbox now.", "当前没有沙箱。"))
            return
        lifecycle.link.request(protocol.OP_NETWORK, fields, current(done), CELL_SECONDS)

    # --- words

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english

    def _question(self, rule: str) -> str:
        return self._say(
            f"Sentinel: a cell asks to reach {rule} from this sandbox, until the kernel ends. What cells can read "
            "could be sent there. Allow it? [y/n] ",
            f"Sentinel：有单元格请求在内核结束前从此沙箱访问 {rule}。"
            "单元格能读取的内容都可能被发送到那里。是否允许？[y/n] ",
        )

    def _nobody(self, rule: str) -> str:
        return self._say(
            f"allowing {rule} is the person's to decide, and nobody can be asked here. HINT → Run the line in a "
            "notebook, or list the host in a profile of your own (network.hosts).",
            f"是否允许 {rule} 须由您决定，而这里无法询问任何人。HINT → 请在笔记本中运行此行，"
            "或在自己的配置中列出该主机（network.hosts）。",
        )

    def _no_way_out(self) -> str:
        return self._say(
            "this sandbox was made without a way out, and that can't be changed while it runs. HINT → "
            "%sentinel_profile web --carry takes a fresh one that has one; variables that can be pickled come along.",
            "此沙箱创建时没有对外出口，运行期间无法更改。HINT → %sentinel_profile web --carry "
            "会换用有出口的新沙箱；可序列化的变量会一并带入。",
        )

    def _allowed(self, rule: str) -> Json:
        return rendering.table_bundle(
            self._say("Sentinel: host allowed", "Sentinel：已允许主机"),
            [(self._say("until the kernel ends", "直至内核结束"), rule)],
            [self._say("%sentinel_net lists what was tried.", "%sentinel_net 列出尝试过的连接。")],
        )

    def _page(self, told: Json, wanted: NetworkWanted) -> Json:
        rows = [one for one in told.get("connections") or () if isinstance(one, dict)]
        if wanted.as_data:
            data = {
                "hosts": told.get("hosts") or [],
                "granted": told.get("granted") or [],
                "connections": rows,
            }
            return {"application/json": data, "text/plain": rendering.printable(str(data), 4000)}
        title = self._say("Sentinel: network", "Sentinel：网络")
        hosts = ", ".join(map(str, told.get("hosts") or ())) or self._say("none", "无")
        notes = [self._say(f"Hosts that can be reached: {hosts}.", f"可访问的主机：{hosts}。")]
        if granted := ", ".join(map(str, told.get("granted") or ())):
            notes.append(
                self._say(
                    f"Of these, allowed for this session: {granted}.", f"其中本次会话允许的：{granted}。"
                )
            )
        if not told.get("serves"):
            notes = [self._no_way_out()]
        header = (
            ("主机", "端口", "结果", "发送", "接收", "时长")
            if self._chinese
            else ("host", "port", "result", "sent", "received", "seconds")
        )
        table = [self._row(one) for one in rows[-_SHOWN:]]
        if not table:
            notes.insert(0, self._say("Nothing was tried yet.", "尚无任何尝试。"))
        return rendering.columns_bundle(title, header, table, notes)

    def _row(self, one: Json) -> tuple[str, ...]:
        host, address = str(one.get("host") or ""), str(one.get("address") or "")
        where = f"{host} ({address})" if host and address else host or address
        started, ended = int(one.get("started_ms") or 0), one.get("ended_ms")
        seconds = ((int(ended) if ended is not None else int(time.time() * 1000)) - started) / 1000
        verdict, count = str(one.get("verdict")), int(one.get("count") or 1)
        words = {
            "allowed": self._say(
                "connected" if ended is None else "done", "已连接" if ended is None else "已结束"
            ),
            "refused": self._say(f"refused ({one.get('rule')})", f"已拒绝（{one.get('rule')}）"),
            "failed": errno.errorcode.get(int(one.get("error") or 0), self._say("failed", "失败")),
        }
        result = words.get(verdict, verdict) + (f" ×{count}" if count > 1 else "")
        if verdict == "refused":
            return (where, str(one.get("port") or ""), result, "", "", "")
        sent, received = int(one.get("bytes_out") or 0), int(one.get("bytes_in") or 0)
        return (where, str(one.get("port")), result, f"{sent:,}", f"{received:,}", f"{seconds:.1f}")
