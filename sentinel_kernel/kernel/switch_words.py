"""What the person is asked and told when a profile can't simply be changed, in English and Chinese."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.policy.sizes_in_words import counted, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.carrying import Cargo
    from sentinel_kernel.kernel.left_behind import Left
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.compare import Surplus

_SHOWN = 8


def _files(held: int) -> str:
    return "1 file that is held does" if held == 1 else f"{held} files that are held do"


class SwitchWords:
    """Words in one language."""

    def __init__(self, language: str) -> None:
        self._chinese = language == "zh"

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english

    def beyond(self, profile: str, ceiling: str, more: Surplus) -> str:
        """Return the question about a profile beyond the ceiling, which gives ``more``."""
        told = self._more(more)
        english, chinese = (f": {told}", f"：{told}") if told else ("", "")
        return self._say(
            f"asks: this cell wants the profile {profile!r}, which goes beyond {ceiling!r} (the ceiling){english}. "
            "Allow it? [y] yes, [n] no: ",
            f"询问：此单元格请求配置“{profile}”，它超出上限“{ceiling}”{chinese}。是否允许？[y] 是，[n] 否：",
        )

    def _more(self, more: Surplus) -> str:
        """Return what a profile gives more, the weightiest first."""
        parts = []
        if more.network:
            parts.append(self._say("sockets within the sandbox", "沙箱内部的套接字"))
        for names, words in (
            (more.hosts, ("the hosts", "主机")),
            (more.folders, ("the folders", "文件夹")),
            (more.unhidden, ("no longer hidden", "不再隐藏")),
            (more.outputs, ("in outputs", "输出中")),
            (more.calls, ("the calls", "系统调用")),
        ):
            if names:
                rest = f" +{len(names) - _SHOWN}" if len(names) > _SHOWN else ""
                parts.append(f"{self._say(*words)} {', '.join(names[:_SHOWN])}{rest}")
        if more.commits:
            parts.append(
                self._say(
                    "new files reach the notebook's folder by themselves", "新文件自动写入笔记本所在文件夹"
                )
            )
        if more.names and not more.hosts:
            parts.append(
                self._say(
                    "looking up names (without effect, as it lists no hosts)",
                    "域名查询（没有作用：未列出任何主机）",
                )
            )
        return self._say("; ", "；").join(parts)

    def nobody(self, profile: str, ceiling: str) -> str:
        """Return the refusal where nobody can be asked about it."""
        return self._say(
            f"the profile {profile!r} goes beyond what a cell of this kernel may ask for by itself "
            f"(ceiling: {ceiling}), and nobody can be asked here. HINT → Run the cell in a frontend that takes input, "
            f"or install a kernel that starts with it, in a terminal: sentinel-kernel install --profile {profile}",
            f"配置“{profile}”超出此内核的单元格可以自行请求的范围（上限：{ceiling}），且此处无人可以询问。"
            f"HINT → 请在支持输入的前端运行该单元格，或在终端安装以该配置启动的内核："
            f"sentinel-kernel install --profile {profile}",
        )

    def declined(self, profile: str) -> str:
        """Return the refusal where the person did not agree."""
        return self._say(
            f"the profile {profile!r} was not allowed: the answer was no, or there was none. Nothing has changed.",
            f"未允许配置“{profile}”：回答为否，或没有回答。一切保持不变。",
        )

    def _files(self, held: int) -> str:
        """Return what becomes of files that are held, with a space before it; empty where none is."""
        if not held:
            return ""
        return self._say(
            f" {_files(held)} not come along: saved aside (in a terminal: sentinel-kernel artifacts list), out of "
            "cells' sight; %sentinel_commit first writes to the folder.",
            f"沙箱中保留的 {held} 个文件不会带上，而是另行保存（在终端中运行 sentinel-kernel artifacts list），"
            "单元格看不到它们；可先用 %sentinel_commit 写入文件夹。",
        )

    def afresh(self, held: int) -> str:
        """Return what a fresh sandbox means beside the variables, with a space before it."""
        return self._files(held) + self._say(
            " Cells start in the notebook's folder again: os.chdir does not come along.",
            "单元格会重新从笔记本所在文件夹开始：os.chdir 的更改不会带上。",
        )

    def choice(self, profile: str, why: str, held: int = 0) -> str:
        """Return the question what becomes of the variables, and of ``held`` files."""
        files = self.afresh(held)
        return self._say(
            f"asks: {profile!r} takes a fresh sandbox ({why}).{files} [c] carry over the variables that can be "
            "pickled, [f] start fresh without them, [n] stay as it is: ",
            f"询问：“{profile}”需要全新的沙箱（{why}）。{files}[c] 带上可序列化的变量，[f] 不带变量，[n] 保持现状：",
        )

    def choose(self, profile: str, why: str, held: int = 0) -> str:
        """Return the refusal where nobody can be asked for the choice."""
        files = self.afresh(held)
        return self._say(
            f"{profile!r} takes a fresh sandbox ({why}), and nobody can be asked here what becomes of the variables. "
            f"HINT → Type %sentinel_profile {profile} --carry to carry over those that can be pickled, or "
            f"%sentinel_profile {profile} --fresh to lose them.{files}",
            f"“{profile}”需要全新的沙箱（{why}），且此处无人可以询问如何处理变量。"
            f"HINT → 输入 %sentinel_profile {profile} --carry 带上可序列化的变量，"
            f"或 %sentinel_profile {profile} --fresh 放弃变量。{files}",
        )

    def stays(self, profile: str, why: str, hosts: Sequence[str] = ()) -> str:
        """Return what is said where the person chose to stay, and so without ``hosts`` where they were asked for."""
        if hosts:
            named = ", ".join(hosts)
            return self._say(
                f"{named} can't be reached yet: it takes a fresh sandbox ({why}), and the answer was to stay. Nothing "
                "has changed, and no variable was touched.",
                f"仍无法访问 {named}：这需要全新的沙箱（{why}），而您选择保持现状。一切保持不变，变量未受影响。",
            )
        return self._say(
            f"the profile stays as it was: {profile!r} takes a fresh sandbox ({why}). No variable was touched.",
            f"配置保持不变：“{profile}”需要全新的沙箱（{why}）。变量未受影响。",
        )

    def no_start(self, profile: str, cause: str, remedy: str) -> str:
        """Return what is said where a fresh sandbox is known not to start, so that the old one was kept."""
        hint = f" HINT → {remedy}" if remedy else ""
        return self._say(
            f"no sandbox can be set up under the profile {profile!r}, so that the one there is was kept with all its "
            f"variables. {cause}{hint}",
            f"无法以配置“{profile}”建立沙箱，因此保留了原沙箱及其所有变量。{cause}{hint}",
        )

    def untried(self, profile: str) -> str:
        """Return what is said where nobody could find out whether a fresh sandbox starts: the old one was kept."""
        return self._say(
            f"it could not be found out whether a sandbox can be set up under the profile {profile!r}, so that the one "
            "there is was kept with all its variables. HINT → Try again; `sentinel-kernel doctor` tells what is "
            "missing.",
            f"无法确认能否以配置“{profile}”建立沙箱，因此保留了原沙箱及其所有变量。HINT → 请重试；"
            "`sentinel-kernel doctor` 会说明缺少什么。",
        )

    def gone(self, former: str, *, again: bool) -> str:
        """Return what is said behind a start that failed; ``again``: whether the one of before can be had anew."""
        return self._say(
            "The sandbox of before has ended, and its variables with it."
            + (f" %sentinel_profile {former} starts a fresh one as it was." if again else ""),
            "原沙箱已经结束，其变量也随之消失。"
            + (f"输入 %sentinel_profile {former} 可按原来的配置启动新沙箱。" if again else ""),
        )

    def not_saved(self, fault: Left) -> str:
        """Return what is said where the variables could not be saved."""
        shown = fault.said(chinese=self._chinese)
        return self._say(
            f"the variables could not be carried over ({shown}), so that the sandbox was kept. HINT → Interrupt what "
            "still runs and try again, or save them to a file.",
            f"无法带上变量（{shown}），因此保留了原沙箱。HINT → 请先中断仍在运行的代码再试，或将变量保存到文件。",
        )

    def leaves(self, cargo: Cargo) -> str:
        """Return the question whether to go on without what can't be carried over."""
        many = counted(len(cargo.carried), "variable")
        return self._say(
            f"asks: {many} ({size_text(cargo.size_bytes)}) can be carried over, these can't: "
            f"{self._list(cargo)}. Go on without them? [y] yes, [n] stay as it is: ",
            f"询问：可带上 {len(cargo.carried)} 个变量（{size_text(cargo.size_bytes)}），"
            f"以下不能：{self._list(cargo)}。是否继续？[y] 是，[n] 保持现状：",
        )

    def rows(self, cargo: Cargo) -> list[tuple[str, str]]:
        """Return the rows of the page about what came along and what was left behind."""
        names = [item.name for item in cargo.carried]
        kept = ", ".join(rendering.printable(name, 60) for name in names[:50])
        more = len(names) - 50
        if more > 0:
            kept += self._say(f" and {more} more", f" 等 {len(names)} 个")
        rows = [(self._say("carried over", "已带上"), kept or self._say("nothing", "无"))]
        label = self._say("left behind", "未带上")
        rows += [
            (label, f"{rendering.printable(name, 60)}: {why.said(chinese=self._chinese)}")
            for name, why in cargo.left[:50]
        ]
        if len(cargo.left) > 50:
            rows.append((label, self._say(f"{len(cargo.left) - 50} more", f"另有 {len(cargo.left) - 50} 个")))
        return rows

    def progress(self, what: str, done: int, total: int, size_bytes: int) -> Json:
        """Return the bundle that shows how far it is; ``what`` is saved or loaded."""
        label = self._say(what, "已保存" if what == "saved" else "已载入")
        row = f"{done} / {total}, {size_text(size_bytes)}"
        return rendering.table_bundle(self._say("Sentinel: variables", "Sentinel：变量"), [(label, row)])

    def _list(self, cargo: Cargo) -> str:
        shown = "; ".join(
            f"{rendering.printable(name, 60)} ({why.said(chinese=self._chinese)})"
            for name, why in cargo.left[:_SHOWN]
        )
        # In brackets stand the answers, of which a variable's name must make none.
        shown = shown.replace("[", "(").replace("]", ")")
        more = len(cargo.left) - _SHOWN
        return shown + (self._say(f" and {more} more", f" 等 {len(cargo.left)} 个") if more > 0 else "")
