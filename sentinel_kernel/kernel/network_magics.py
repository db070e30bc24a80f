"""Hosts that the person allows for the session, and the page of what was tried."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.questions import HOW, YES
from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.policy.asking import CROWD, INTERRUPTED, NOBODY, TIMEOUT
from sentinel_kernel.policy.leeway import DEFAULT_CEILING
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.network_arguments import NetworkWanted
    from sentinel_kernel.kernel.wire import Json

    Current = Callable[[Callable[..., None]], Callable[..., None]]

_SHOWN = 50
_WHY_REFUSED = {
    "not-listed": ("not an allowed host", "不在允许的主机之列"),
    "port": ("not an allowed port", "不在允许的端口之列"),
    "no-network": ("the profile has no network", "配置没有网络"),
    "private": ("a private network's address", "私有网络地址"),
    "shared": ("a shared network's address", "共享网络地址"),
    "own": ("this machine's own address", "本机地址"),
    "link-local": ("a local network's address", "本地网络地址"),
    "reserved": ("a reserved address", "保留地址"),
    "loopback": ("loopback outside the sandbox", "沙箱外的回环地址"),
    "metadata": ("where a cloud gives out credentials", "云平台发放凭据之处"),
    "multicast": ("an address of many hosts", "多播地址"),
    "unreadable": ("not an address", "不是有效地址"),
    "rule": ("no rule passes the request on", "没有规则转发此请求"),
    "full": ("too many connections are open", "打开的连接过多"),
    "unwatched": ("too much is watched for events", "监视的事件过多"),
}
"""Why a host was refused, as policy/network.py and proxy/ name it -> in words."""


_NO_ANSWER = {
    TIMEOUT: ("there was no answer in time", "未在时限内得到回答"),
    INTERRUPTED: ("the question was interrupted", "询问被中断"),
    NOBODY: ("nobody could be asked", "无人可以询问"),
    CROWD: ("too many questions are open", "未回答的问题过多"),
}
"""Why there was no answer (policy/asking.py), in English and Chinese."""


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
        if why := self.unreachable(cell, wanted):
            refuse(why)
            return
        self._allow(cell, wanted, current, done, refuse)

    def unreachable(self, cell: Cell, wanted: NetworkWanted) -> str:
        """Return why what is wanted can't be had in ``cell``: it is never allowed, or nobody is asked ("": one can)."""
        if not wanted.rule:
            return ""
        if why := self._never(wanted.rule):
            return why
        return "" if self._host.questions.reaches(cell) else self._nobody(wanted.rule)

    def _allow(
        self,
        cell: Cell,
        wanted: NetworkWanted,
        current: Current,
        done: Callable[[Json], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Ask the person, and have the hosts allowed."""
        rule, host = wanted.rule, self._host

        def listed(told: Json) -> None:
            if not told.get("allow"):
                refuse(self._no_sockets(rule))
            elif not told.get("serves"):
                self._afresh(cell, wanted, told, current, sent, refuse)
            elif rule in (told.get("hosts") or ()):
                done(self._allowed(rule))
            else:
                host.questions.ask(cell, self._question(rule), YES, current(answered))

        def answered(answer: str) -> None:
            if answer == "yes":
                sent()
            else:
                refuse(self._declined(rule, answer, YES))

        def sent() -> None:
            self._request({"do": "allow", "rule": rule}, current, allowed, refuse)

        def allowed(told: Json) -> None:
            if rule not in (told.get("hosts") or ()):
                refuse(self._say("there is no sandbox now.", "当前没有沙箱。"))
                return
            lifecycle = host.lifecycle
            lifecycle.granted_hosts = tuple(dict.fromkeys((*lifecycle.granted_hosts, rule)))
            host.preflight.granted(rule)
            done(self._allowed(rule))

        self._request({"do": "list"}, current, listed, refuse)

    def _afresh(
        self,
        cell: Cell,
        wanted: NetworkWanted,
        told: Json,
        current: Current,
        done: Callable[[], None],
        refuse: Callable[[str], None],
    ) -> None:
        """Ask for the host, and in the same question for the fresh sandbox that it takes; then take that."""
        if told.get("possible") is not True:
            refuse(self._impossible())
            return
        host = self._host
        # Where no cell has run, or it was typed what becomes of the variables, the host alone is asked about.
        how = wanted.how or ("fresh" if host.execution.last_cell is None else "")

        def answered(answer: str) -> None:
            chosen = how if how and answer == "yes" else answer
            if chosen not in ("carry", "fresh"):
                refuse(self._declined(wanted.rule, answer, YES if how else HOW))
                return
            from sentinel_kernel.kernel.magics import Switch  # noqa: PLC0415 - few ask for it
            from sentinel_kernel.kernel.profile_switch import Turn  # noqa: PLC0415 - as above

            switch = Switch(host.lifecycle.profile, "profile", how=chosen, hosts=(wanted.rule,))
            turn = Turn(cell, switch, done, refuse, current)
            host.profile_switch.afresh(turn, self._why_fresh(), asks=not wanted.how)

        question = self._question_fresh(wanted.rule, how)
        host.questions.ask(cell, question, YES if how else HOW, current(answered))

    def _never(self, rule: str) -> str:
        """Return why nobody at this notebook may allow the hosts of ``rule``; empty where the person may."""
        if self._host.settings.lab is None:
            return ""
        from sentinel_kernel.kernel.ceiling import Ceiling  # noqa: PLC0415 - under a lab's rules alone
        from sentinel_kernel.policy.network import parse_rule  # noqa: PLC0415 - as above
        from sentinel_kernel.policy.network_document import is_given  # noqa: PLC0415 - as above

        most, name = Ceiling(self._host.settings).widest(), self._host.magics.ceiling_name
        if most is not None and is_given(parse_rule(rule), most.network):
            return ""
        return self._say(
            f"this lab's ceiling ('{name}') does not list {rule}. HINT → Ask who looks after the lab to list it.",
            f"本实验室的上限（“{name}”）未列出 {rule}。HINT → 请联系实验室管理员将其列出。",
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
            f"asks: this cell wants to reach {rule} from this sandbox, until the kernel ends. What cells can read "
            f"could be sent there{self._opens(rule)}. Allow it? [y/n] ",
            f"询问：此单元格请求在内核结束前从此沙箱访问 {rule}。"
            f"单元格能读取的内容都可能被发送到那里{self._opens(rule)}。是否允许？[y] 是，[n] 否：",
        )

    def _opens(self, rule: str) -> str:
        """Return a warning of what the rule opens beyond one host; empty where there is no more."""
        from sentinel_kernel.policy.network_opening import opens  # noqa: PLC0415 - for who is asked alone

        try:
            english, chinese = opens(rule)
        except ValueError:  # the supervisor refuses it
            return ""
        return self._say(f". WARNING: {english}", f"。警告：{chinese}") if english else ""

    def _nobody(self, rule: str) -> str:
        return self._say(
            f"allowing {rule} is the person's to decide, and nobody can be asked here. HINT → Run the line in a "
            "notebook, or list the host in a profile of your own (network.hosts).",
            f"是否允许 {rule} 须由您决定，而这里无法询问任何人。HINT → 请在笔记本中运行此行，"
            "或在自己的配置中列出该主机（network.hosts）。",
        )

    def _question_fresh(self, rule: str, how: str) -> str:
        held = self._host.files.held[0]
        afresh = SwitchWords(self._host.settings.language).afresh(held)
        told = self._say(
            f"asks: this cell wants to reach {rule} from this sandbox, until the kernel ends. What cells can read "
            f"could be sent there{self._opens(rule)}. This sandbox was made without a way out, so that it takes a "
            f"fresh one.{afresh} What was installed or put into /tmp is gone.",
            f"询问：此单元格请求在内核结束前从此沙箱访问 {rule}。"
            f"单元格能读取的内容都可能被发送到那里{self._opens(rule)}。"
            f"此沙箱创建时没有对外出口，因此需要全新的沙箱。{afresh}已安装的软件包和 /tmp 中的内容会丢失。",
        )
        if how == "carry":
            return told + self._say(
                " Variables that can be pickled come along. Allow it? [y/n] ",
                "可序列化的变量会一并带入。是否允许？[y] 是，[n] 否：",
            )
        if how == "fresh":
            return told + self._say(
                " Variables do not come along. Allow it? [y/n] ", "变量不会带上。是否允许？[y] 是，[n] 否："
            )
        return told + self._say(
            " [c] allow it and carry the variables over that can be pickled, [f] allow it and start fresh without "
            "them, [n] no, stay as it is: ",
            "[c] 允许，并带上可序列化的变量，[f] 允许，不带变量，[n] 不允许，保持现状：",
        )

    def _why_fresh(self) -> str:
        return self._say("it was made without a way out", "原沙箱创建时没有对外出口")

    def _declined(self, rule: str, answer: str, answers: Mapping[str, str]) -> str:
        why = _NO_ANSWER.get(answer, ("the answer was no", "回答为否"))
        english, chinese = ("c or f", " c 或 f") if answers is HOW else ("y", " y")
        return self._say(
            f"{rule} was not allowed: {why[0]}. Nothing was sent, and the rest of the cell did not run. "
            f"HINT → Run the cell again and answer {english} if cells may reach it, or take the line out.",
            f"未允许 {rule}：{why[1]}。未发送任何内容，单元格的其余部分没有运行。"
            f"HINT → 若允许访问，请重新运行单元格并回答{chinese}；否则请删除这一行。",
        )

    def _no_sockets(self, rule: str) -> str:
        name = self._host.lifecycle.profile
        return self._say(
            f"the profile '{name}' has no network at all, so that allowing {rule} alone would change nothing. HINT → "
            f"Start the cell with `%sentinel_profile {DEFAULT_CEILING}`, and `%sentinel_allow {rule}` below it.",
            f"配置“{name}”完全没有网络，仅允许 {rule} 不会有任何作用。HINT → 请在单元格首行写 "
            f"`%sentinel_profile {DEFAULT_CEILING}`，下一行写 `%sentinel_allow {rule}`。",
        )

    def _impossible(self) -> str:
        return self._say(
            "no host can be allowed on this machine: Landlock with rules about the network is missing, and without it "
            "the sandbox can't be kept from all others. HINT → Use Linux 6.7 or newer with Landlock (boot parameter "
            "lsm=landlock,...).",
            "此机器上无法允许任何主机：缺少带网络规则的 Landlock，因而无法阻止沙箱访问其他主机。"
            "HINT → 请使用启用了 Landlock 的 Linux 6.7 或更新版本（启动参数 lsm=landlock,...）。",
        )

    def _no_way_out(self, told: Json) -> str:
        if told.get("allow") and told.get("possible") is False:
            return self._impossible()
        if self._host.settings.lab is not None:
            return self._say(
                "This sandbox has no way out. Ask who looks after the lab which hosts can be had.",
                "此沙箱没有对外出口。可访问哪些主机，请咨询实验室管理员。",
            )
        first = "" if told.get("allow") else f"%sentinel_profile {DEFAULT_CEILING}"
        return self._say(
            "This sandbox has no way out: no host outside can be reached. `%sentinel_allow HOST:PORT` (e.g. "
            "github.com:443) at the top of a cell asks you about one, and what becomes of the variables."
            + (f" Under this profile it takes `{first}` in the line above." if first else ""),
            "此沙箱没有对外出口：无法访问任何外部主机。在单元格首行写 `%sentinel_allow HOST:PORT`"
            "（例如 github.com:443），系统会询问您是否允许，以及如何处理变量。"
            + (f"在此配置下，上一行还需写 `{first}`。" if first else ""),
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
                "requests": told.get("requests") or [],
                "granted": told.get("granted") or [],
                "connections": rows,
            }
            return {"application/json": data, "text/plain": rendering.printable(str(data), 4000)}
        title = self._say("Sentinel: network", "Sentinel：网络")
        hosts = ", ".join(map(str, told.get("hosts") or ())) or self._say("none", "无")
        requests = "; ".join(map(str, told.get("requests") or ()))
        directly = (" directly", "直接") if requests else ("", "")
        notes = [
            self._say(
                f"Hosts that can be reached{directly[0]}: {hosts}.", f"可{directly[1]}访问的主机：{hosts}。"
            )
        ]
        if requests:
            notes.append(
                self._say(
                    f"Requests that the sandbox's proxy passes on: {requests}.",
                    f"沙箱代理转发的请求：{requests}。",
                )
            )
        if granted := ", ".join(map(str, told.get("granted") or ())):
            notes.append(
                self._say(
                    f"Of these, allowed for this session: {granted}.", f"其中本次会话允许的：{granted}。"
                )
            )
        if not told.get("serves") or not told.get("allow"):
            notes = [self._no_way_out(told)]
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
            "refused": self._refused(str(one.get("rule") or "")),
            "failed": self._failed(int(one.get("error") or 0), str(one.get("address") or "")),
        }
        result = words.get(verdict, verdict) + (f" ×{count}" if count > 1 else "")
        if verdict == "refused" or not address:
            return (where, str(one.get("port") or ""), result, "", "", "")
        sent, received = int(one.get("bytes_out") or 0), int(one.get("bytes_in") or 0)
        return (where, str(one.get("port")), result, f"{sent:,}", f"{received:,}", f"{seconds:.1f}")

    def _refused(self, rule: str) -> str:
        english, chinese = _WHY_REFUSED.get(rule, (rule, rule))
        return self._say(f"refused ({english})", f"已拒绝（{chinese}）")

    def _failed(self, error: int, address: str) -> str:
        if not address and not error:
            return self._say("name could not be looked up outside", "外部无法解析该名称")
        name = errno.errorcode.get(error, "")
        if not name:
            return self._say("failed", "失败")
        return self._say(f"allowed, and failed: {name}", f"已允许，但失败：{name}")
