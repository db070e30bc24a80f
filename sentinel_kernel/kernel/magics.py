"""What `%sentinel_*` lines at a cell's start do; all are checked before any of them acts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProfileError, SentinelError
from sentinel_kernel.kernel import files_arguments, rendering
from sentinel_kernel.kernel.files_arguments import FilesTyped, FilesWanted
from sentinel_kernel.kernel.limit_magic import LimitChange, LimitTyped, read_line
from sentinel_kernel.kernel.mount_arguments import MOUNT, MountWanted
from sentinel_kernel.kernel.mount_arguments import USAGE as MOUNT_USAGE
from sentinel_kernel.kernel.mount_arguments import read_line as read_mount
from sentinel_kernel.kernel.network_arguments import USAGE as NETWORK_USAGE
from sentinel_kernel.kernel.network_arguments import NetworkTyped, NetworkWanted
from sentinel_kernel.kernel.network_arguments import read_line as read_network
from sentinel_kernel.kernel.page_arguments import EXPLAIN, VIOLATIONS, PageWanted, read_page
from sentinel_kernel.kernel.preflight_magic import USAGE as PREFLIGHT_USAGE
from sentinel_kernel.kernel.preflight_magic import PreflightChange, read_change, too_little
from sentinel_kernel.kernel.trust_arguments import TRUST, TrustWanted
from sentinel_kernel.kernel.trust_arguments import USAGE as TRUST_USAGE
from sentinel_kernel.kernel.trust_arguments import read_line as read_trust
from sentinel_kernel.policy.spelling import closest
from sentinel_kernel.record import Record
from sentinel_kernel.supervisor.protocol import HOST_MAGICS
from sentinel_kernel.worker.leading_block import DRY_RUN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.carrying import Cargo
    from sentinel_kernel.kernel.ceiling import Ceiling
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.worker.leading_block import MagicLine


class UsageError(Exception):
    """A magic was typed wrong; the text says what is wrong and what to type."""


class Switch(Record):
    """A magic's wish for another profile or sandbox: under which profile, and why (profile or reset).

    ``beyond`` tells that the person has to agree; ``how`` says what becomes of the variables where it takes a fresh
    sandbox (fresh, carry, or "" where that is still to be chosen).
    """

    profile: str
    reason: str
    beyond: bool = False
    how: str = ""
    hosts: tuple[str, ...] = ()
    """Rules of hosts that the person has allowed, and that the fresh sandbox can reach."""


Wanted = FilesWanted | MountWanted | NetworkWanted | TrustWanted
Action = Switch | LimitChange | PageWanted | PreflightChange | Wanted | str
"""What a checked magic line does: a switch, limits, or the page that it shows (status, live, profiles, help)."""

_USAGE = {
    **files_arguments.USAGE,
    EXPLAIN: " [N]",
    "sentinel_gauge": " [summary on|off]",
    "sentinel_limit": " [NAME=VALUE ...]",
    MOUNT: MOUNT_USAGE,
    **NETWORK_USAGE,
    **TRUST_USAGE,
    "sentinel_preflight": PREFLIGHT_USAGE,
    "sentinel_profile": " [NAME [--carry|--fresh]]",
    "sentinel_status": " [--live]",
    VIOLATIONS: " [--last N] [--json]",
}
"""What may follow a magic's name."""


class Magics:
    """Checks magic lines and renders their pages.

    ``status`` returns the rows of the status page; ``profile`` is asked for the current profile's name.
    """

    def __init__(
        self,
        language: str,
        profile_directories: Sequence[str],
        ceiling: Ceiling,
        profile: Callable[[], str],
        status: Callable[[], list[tuple[str, str]]],
        preflight: tuple[str, str] = ("advise", "off"),
    ) -> None:
        self._chinese = language == "zh"
        self._directories = profile_directories
        self._ceiling = ceiling
        self._profile = profile
        self._status = status
        self._preflight = preflight
        """What the kernel was started for: about lines that will be refused, and about dangerous code."""

    def check(self, lines: Sequence[MagicLine]) -> list[Action]:
        """Return what the lines do. Raises UsageError for the first one that can't be done."""
        return [self._check(line) for line in lines]

    def _check(self, line: MagicLine) -> Action:  # noqa: C901, PLR0911, PLR0912 - one a kind of magic
        words = line.argument_text.split()
        if line.name not in HOST_MAGICS:
            raise self._unknown(line)
        if line.name in files_arguments.MAGICS:
            return self._files(line)
        if line.name == "sentinel_limit":
            return self._limits(words, line.line_number)
        if line.name in NETWORK_USAGE:
            return self._network(line)
        if line.name == TRUST:
            if (trust := read_trust(line.argument_text)) is None:
                raise self._not_understood(line)
            return trust
        if line.name == MOUNT:
            if (mount := read_mount(line.argument_text)) is None:
                raise self._not_understood(line)
            return mount
        if line.name == "sentinel_gauge" and words in ([], ["summary", "on"], ["summary", "off"]):
            return " ".join(words) or "gauge"
        if line.name == "sentinel_profile" and words and words[1:] in ([], ["--carry"], ["--fresh"]):
            return self._switch(words[0], "".join(words[1:])[2:], line.line_number)
        if line.name in (EXPLAIN, VIOLATIONS):
            return self._violations(line, words)
        if line.name == "sentinel_preflight":
            return self._preflight_change(line, words)
        live = line.name == "sentinel_status" and words == ["--live"]
        if words and not live:
            raise self._not_understood(line)
        if line.name == "sentinel_reset":
            return Switch(self._profile(), "reset")
        pages = {"sentinel_status": "live" if live else "status", "sentinel_profile": "profiles"}
        return {**pages, "sentinel_audit": "audit"}.get(line.name, "help")

    def _unknown(self, line: MagicLine) -> UsageError:
        known = ", ".join([*(f"%{name}" for name in HOST_MAGICS), f"%%{DRY_RUN}"])
        meant = f"%{DRY_RUN}" if line.name == DRY_RUN else closest(line.name, HOST_MAGICS)
        meant_en = f"Did you mean %{meant}? " if meant else ""
        meant_zh = f"您是想输入 %{meant} 吗？" if meant else ""
        return UsageError(
            self._say(
                f"line {line.line_number}: %{line.name} is not a Sentinel magic. {meant_en}Known are {known}.",
                f"第 {line.line_number} 行：%{line.name} 不是 Sentinel 魔法命令。{meant_zh}可用的有 {known}。",
            )
        )

    def _files(self, line: MagicLine) -> FilesWanted:
        try:
            return files_arguments.read_line(line.name, line.argument_text)
        except FilesTyped as typed:
            error = self._not_understood(line)
            if typed.meant:
                meant = self._say(f" Did you mean {typed.meant}?", f"您是想输入 {typed.meant} 吗？")
                error = UsageError(f"{error}{meant}")
            raise error from None

    def _network(self, line: MagicLine) -> NetworkWanted:
        try:
            wanted = read_network(line.name, line.argument_text)
        except NetworkTyped as typed:
            error = self._not_understood(line)
            raise UsageError(f"{error} {typed.chinese if self._chinese else typed.message}") from None
        if wanted is None:
            raise self._not_understood(line)
        return wanted

    def _not_understood(self, line: MagicLine) -> UsageError:
        usage = f"%{line.name}{_USAGE.get(line.name, '')}"
        return UsageError(
            self._say(
                f"line {line.line_number}: {rendering.printable(line.argument_text, 80)!r} is not understood. "
                f"Type {usage}, alone on its line.",
                f"第 {line.line_number} 行：无法理解“{rendering.printable(line.argument_text, 80)}”。"
                f"请单独一行输入 {usage}。",
            )
        )

    @property
    def ceiling_name(self) -> str:
        """Return the name of the profile that bounds what a cell may ask for."""
        return self._ceiling.name

    def _violations(self, line: MagicLine, words: list[str]) -> PageWanted:
        wanted = read_page(line.name, words)
        if wanted is None:
            raise self._not_understood(line)
        return wanted

    def granted(self, profile: Profile) -> str:
        """Tell how a magic gets ``profile`` (ceiling.py)."""
        return self._ceiling.grants(profile)

    def _preflight_change(self, line: MagicLine, words: list[str]) -> PreflightChange:
        change = read_change(words)
        if change is None:
            raise self._not_understood(line)
        if too_little(change, *self._preflight):
            raise UsageError(
                self._say(
                    f"line {line.line_number}: this kernel was started to refuse, and no cell can change that. "
                    "HINT → Start it with SENTINEL_PREFLIGHT=advise, or SENTINEL_DANGEROUS=off.",
                    f"第 {line.line_number} 行：此内核启动时设定为拒绝，单元格无法更改。"
                    "HINT → 请用 SENTINEL_PREFLIGHT=advise 或 SENTINEL_DANGEROUS=off 启动内核。",
                )
            )
        return change

    def _limits(self, words: list[str], line_number: int) -> LimitChange:
        try:
            return read_line(words, chinese=self._chinese)
        except LimitTyped as error:
            text = self._say(f"line {line_number}: {error}", f"第 {line_number} 行：{error}")
            raise UsageError(text) from error

    def _switch(self, name: str, how: str, line_number: int) -> Switch:
        """Return the switch to a profile; whether the person agrees to one beyond the ceiling is asked later."""
        from sentinel_kernel.kernel.ceiling import ASK, NEVER  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

        try:
            profile = load_profile(name, self._directories)
        except (SentinelError, OSError) as error:
            shown = rendering.printable(name, 60)
            if isinstance(error, ProfileError) and not error.message.startswith("In "):
                # There is none of that name, which the error says in full; else it speaks of the inside of a file.
                raise UsageError(
                    self._say(
                        f"line {line_number}: {error}",
                        f"第 {line_number} 行：没有名为“{shown}”的配置。可用的配置：{'、'.join(self._names())}。",
                    )
                ) from error
            raise UsageError(
                self._say(
                    f"line {line_number}: the profile {shown!r} can't be used: {error}",
                    f"第 {line_number} 行：配置“{shown}”不可用：{error}",
                )
            ) from error
        granted = self._ceiling.grants(profile)
        if granted == NEVER:
            raise UsageError(
                self._say(
                    f"line {line_number}: the lab's configuration does not let this kernel change to {name!r} "
                    f"(ceiling: {self._ceiling.name}{', locked' if self._ceiling.locked else ''}). "
                    "HINT → Ask whoever runs this machine; nothing in a notebook can change it.",
                    f"第 {line_number} 行：实验室配置不允许此内核切换到“{name}”"
                    f"（上限：{self._ceiling.name}{'，已锁定' if self._ceiling.locked else ''}）。"
                    "HINT → 请联系此机器的管理员；笔记本中的任何内容都无法更改它。",
                )
            )
        return Switch(name, "profile", granted == ASK, how)

    def _names(self) -> list[str]:
        from sentinel_kernel.policy.profile import list_profiles  # noqa: PLC0415 - not on the start path

        return list_profiles(self._directories)

    def choices(self) -> list[str]:
        """Return the profiles that a cell may switch to."""
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

        names = []
        for name in self._names():
            with contextlib.suppress(SentinelError, OSError):
                if self._ceiling.allows(load_profile(name, self._directories)):
                    names.append(name)
        return names

    def page(self, name: str) -> Json:
        """Return the bundle of a page: status, profiles or help."""
        if name == "status":
            return rendering.table_bundle(self._say("Sentinel: status", "Sentinel：状态"), self._status())
        return self._profiles_page() if name == "profiles" else self._help_page()

    def switched(self, switch: Switch, reason: str, cargo: Cargo | None = None) -> Json:
        """Return the bundle that tells what a fresh sandbox means, why it had to be one, and what came along."""
        if switch.reason == "reset":
            title = self._say("Sentinel: a fresh sandbox", "Sentinel：全新的沙箱")
        else:
            title = self._say(f"Sentinel: profile {switch.profile}", f"Sentinel：配置 {switch.profile}")
        rows = [(self._say("profile", "配置"), switch.profile)]
        if switch.hosts:
            rows.append((self._say("allowed", "已允许"), ", ".join(switch.hosts)))
        if cargo is not None:
            from sentinel_kernel.kernel.switch_words import SwitchWords  # noqa: PLC0415 - not on the start path

            rows += SwitchWords("zh" if self._chinese else "en").rows(cargo)
        else:
            gone = self._say(
                "A fresh sandbox was started: all variables and imports of this notebook are gone.",
                "已启动全新的沙箱：此笔记本的所有变量和导入都已清空。",
            )
            rows.append((self._say("variables", "变量"), gone))
        if reason:
            rows.append((self._say("why not in place", "为何不能就地切换"), reason))
        return rendering.table_bundle(title, rows)

    def _profiles_page(self) -> Json:
        from sentinel_kernel.kernel.profiles_page import profiles_page  # noqa: PLC0415 - not on the start path

        return profiles_page(self._directories, self._ceiling, self._profile(), chinese=self._chinese)

    def _help_page(self) -> Json:
        from sentinel_kernel.kernel.help_page import help_page  # noqa: PLC0415 - not on the start path

        return help_page(chinese=self._chinese)

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english
