"""What the person is asked and told about folders that are shown while the sandbox runs, in English and Chinese."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.mount_refusals import ANEW, BEFORE_HINT, FAILED, NOT_ANEW, OF_PROFILE, WHY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.kernel.wire import Json

_CHARACTERS = 200
_MOST_NAMED, _NAME_CHARACTERS = 6, 60


def _typed(path: str) -> str:
    """Return a path as it is typed behind a magic or in a shell, in quotes where it needs them."""
    return shlex.quote(rendering.printable(path, _CHARACTERS))


class MountWords:
    """Words in one language."""

    def __init__(self, language: str) -> None:
        self._chinese = language == "zh"

    def _say(self, english: str, chinese: str) -> str:
        return chinese if self._chinese else english

    def refused(self, path: str, told: Json) -> str:
        """Return why the folder ``path`` is not shown."""
        english, chinese = WHY.get(str(told.get("code")), FAILED)
        detail = rendering.printable(str(told.get("detail") or ""), _CHARACTERS)
        shown = rendering.printable(path, _CHARACTERS)
        why = self._say(english, chinese).format(detail=detail, path=_typed(path))
        return self._say(f"the folder {shown!r} is not shown: {why}", f"文件夹“{shown}”未显示：{why}")

    def not_written(self, path: str, told: Json, *, held: bool = False) -> str:
        """Return why a folder that the profile wants written is only read.

        ``held`` tells that cells were given what was there before, and go on writing to that.
        """
        code, language = str(told.get("code")), int(self._chinese)
        why = WHY.get(code, FAILED)[language]
        hint = OF_PROFILE.get(code)
        if held:
            hint = ANEW if code in WHY and code not in NOT_ANEW else None
        if hint is not None:
            why = why.partition(BEFORE_HINT[language])[0] + " "[language:] + hint[language]
        detail = rendering.printable(str(told.get("detail") or ""), _CHARACTERS)
        why = why.format(detail=detail, path=_typed(path))
        if held:
            return self._say(
                f"what cells write here goes to the folder that they were given before: {why}",
                f"单元格在此写入的内容仍进入先前提供的文件夹：{why}",
            )
        return self._say(f"cells can't change it: {why}", f"单元格无法修改它：{why}")

    def question(self, path: str, mode: str, told: Json, *, profile: str = "") -> str:
        """Return the question about a folder, of which ``told`` says what was found in it.

        ``profile`` names the profile that asks for it, if one does.
        """
        looked_through, secrets = told.get("looked_through") is not False, self._secrets(told)
        shown = rendering.printable(path, _CHARACTERS)
        who = self._say(
            f"the profile {profile!r} wants" if profile else "this cell wants",
            f"配置“{profile}”请求" if profile else "此单元格请求",
        )
        if mode == "ro":
            return self._say(
                f"asks: {who} to read the folder {shown} of the host, and all below it.{secrets} "
                "Allow it until the sandbox ends? [y] yes, [n] no: ",
                f"询问：{who}读取主机文件夹 {shown} 及其下所有内容。{secrets}是否允许，直到沙箱结束？[y] 是，[n] 否：",
            )
        more = self._say(
            "" if looked_through else " It is too large to be looked through for what the host would run.",
            "" if looked_through else "它太大，无法逐一检查其中是否有主机会运行的内容。",
        )
        return self._say(
            f"asks: {who} to change the folder {shown} of the host itself: files there are written and deleted "
            f"at once, nothing is held back or can be taken back.{more}{secrets} Allow it until the kernel ends? "
            "[y] yes, [n] no: ",
            f"询问：{who}直接修改主机文件夹 {shown}：其中的文件会立即写入和删除，不会保留，也无法撤销。{more}{secrets}"
            "是否允许，直到内核结束？[y] 是，[n] 否：",
        )

    def _secrets(self, told: Json) -> str:
        """Return what the person is to know of secrets in the folder: which are covered, and which could be read."""
        text = ""
        if told.get("homes"):
            text += self._say(
                " Hidden files of homes in it (.ssh, .config ...) stay covered.",
                "其中用户主目录里的隐藏文件（.ssh、.config 等）仍不可见。",
            )
        named = [f"'{rendering.printable(str(one), _NAME_CHARACTERS)}'" for one in told.get("secrets") or ()]
        if named:
            names = ", ".join(named[:_MOST_NAMED])
            more = self._say(" and more", " 等") if len(named) > _MOST_NAMED else ""
            text += self._say(
                f" These sound like secrets, and CELLS COULD READ THEM: {names}{more}.",
                f"以下名称像是密钥或密码，单元格将能读取它们：{names}{more}。",
            )
        if told.get("looked_through") is False:
            text += self._say(
                " It is too large to be looked through for secrets.",
                "它太大，无法逐一检查其中是否有密钥或密码。",
            )
        return text

    def nobody(self, path: str) -> str:
        """Return the refusal where nobody can be asked."""
        shown = rendering.printable(path, _CHARACTERS)
        return self._say(
            f"the folder {shown!r} is shown only once a person has agreed, and nobody can be asked here. "
            "HINT → Run the cell in a frontend that takes input, or put the folder into a profile of yours (README).",
            f"只有在有人同意后才会显示文件夹“{shown}”，而此处无人可以询问。HINT → 请在支持输入的前端运行该单元格，"
            "或把该文件夹写入配置（见 README 中的自定义配置）。",
        )

    def nobody_to_write(self, path: str) -> str:
        """Return why a folder that the profile wants written can only be read: nobody can be asked."""
        return self._say(
            "Cells may change it only once a person has agreed, and nobody can be asked here. HINT → Run the cell in a "
            f"frontend that takes input, or agree beforehand: start the kernel with SENTINEL_WRITABLE={_typed(path)}",
            "只有在有人同意后单元格才能修改它，而此处无人可以询问。HINT → 请在支持输入的前端运行该单元格，"
            f"或事先同意：以 SENTINEL_WRITABLE={_typed(path)} 启动内核",
        )

    def gone(self, mounts: list[Json]) -> Json:
        """Return the page of folders that went with the sandbox, each with the line that shows it again."""
        rows = []
        for mount in mounts:
            mode = " rw" if mount.get("mode") == "rw" else ""
            line = f"%sentinel_mount {_typed(str(mount.get('path')))}{mode}"
            rows.append((str(mount.get("target")), line))
        title = self._say("Sentinel: folders are shown no more", "Sentinel：文件夹不再显示")
        note = self._say(
            "They went with the sandbox that was left. These lines show them again.",
            "它们已随旧沙箱消失。用这些命令可重新显示。",
        )
        return rendering.table_bundle(title, rows, [note])

    def declined(self, path: str) -> str:
        """Return the refusal where the person did not agree."""
        shown = rendering.printable(path, _CHARACTERS)
        return self._say(
            f"the folder {shown!r} was not allowed: the answer was no, or there was none. Nothing has changed.",
            f"未允许文件夹“{shown}”：回答为否，或没有回答。一切保持不变。",
        )

    def declined_to_write(self, path: str) -> str:
        """Return why a folder that the profile wants written can only be read: the person's answer holds on."""
        shown = _typed(path)
        return self._say(
            "you were asked whether cells may write it, and did not agree; that holds until the kernel ends. "
            f"HINT → To be asked again: %sentinel_mount {shown} rw",
            "系统询问过单元格能否写入，您没有同意；该回答在内核结束前有效。"
            f"HINT → 如需再次询问：%sentinel_mount {shown} rw",
        )

    def read_only(self, path: str, why: str, *, held: bool = False) -> Json:
        """Return the bundle that tells that a folder which the profile wants writable can only be read.

        Or, where it is ``held`` as :meth:`not_written` says, that cells write to the former one.
        """
        shown = rendering.printable(path, _CHARACTERS)
        title = self._say("Sentinel: a folder can only be read", "Sentinel：文件夹只能读取")
        if held:
            title = self._say(
                "Sentinel: cells write to a former folder", "Sentinel：单元格写入的是先前的文件夹"
            )
        label = self._say("folder", "文件夹")
        return rendering.table_bundle(title, [(label, shown), (self._say("why", "原因"), why)])

    def shown(self, told: Json) -> Json:
        """Return the bundle of a folder that is shown from here on."""
        mount = told.get("mount") or {}
        if mount.get("target") == mount.get("path"):
            note = self._say(
                "All variables are kept. Cells may change it until the kernel ends, as the profile wants.",
                "所有变量均保留。按照配置的要求，单元格可以修改它，直到内核结束。",
            )
        else:
            note = self._say(
                "All variables are kept. It goes with the sandbox: with %sentinel_reset, a restart, or "
                f"%sentinel_mount --remove {mount.get('name')}",
                "所有变量均保留。它随沙箱结束而消失：%sentinel_reset、重启，或 "
                f"%sentinel_mount --remove {mount.get('name')}",
            )
        title = self._say("Sentinel: a folder is shown", "Sentinel：已显示文件夹")
        return rendering.table_bundle(title, self._rows([mount]), [note])

    def removed(self, told: Json) -> Json:
        """Return the bundle of a folder that was taken away."""
        title = self._say("Sentinel: a folder was taken away", "Sentinel：已移除文件夹")
        note = self._say(
            "What a cell still holds open in it stays readable to that cell until it is closed.",
            "单元格仍打开的文件在关闭之前仍可访问。",
        )
        return rendering.table_bundle(title, self._rows([told.get("mount") or {}]), [note])

    def listed(self, mounts: list[Json], of_profile: list[Json]) -> Json:
        """Return the bundle of all that are shown, those that the profile shows by itself first."""
        title = self._say("Sentinel: folders shown", "Sentinel：已显示的文件夹")
        rows = [
            (path, f"{self._say('by the profile', '由配置显示')} ({mode})")
            for path, mode in self._own(of_profile)
        ]
        if not mounts:
            note = self._say(
                "None were shown since the sandbox began. Type %sentinel_mount PATH, or %sentinel_mount PATH rw",
                "沙箱启动以来没有显示其他文件夹。请输入 %sentinel_mount PATH 或 %sentinel_mount PATH rw",
            )
            return rendering.table_bundle(title, rows, [note])
        return rendering.table_bundle(title, [*rows, *self._rows(mounts)])

    def _own(self, of_profile: list[Json]) -> Iterable[tuple[str, str]]:
        modes = {
            "ro": self._say("can be read", "只读"),
            "overlay": self._say("what is written is held", "写入的内容会被保留在沙箱中"),
            "rw": self._say("can be read; written once you have agreed", "可读；经您同意后可写"),
        }
        for one in of_profile:
            path = rendering.printable(str(one.get("path")), _CHARACTERS)
            yield path, modes.get(str(one.get("mode")), "")

    def _rows(self, mounts: Iterable[Json]) -> list[tuple[str, str]]:
        modes = {
            "ro": self._say("can be read", "只读"),
            "rw": self._say("is changed on the host itself", "直接修改主机上的内容"),
        }
        return [
            (
                rendering.printable(str(one.get("target")), _CHARACTERS),
                f"{rendering.printable(str(one.get('path')), _CHARACTERS)} ({modes.get(str(one.get('mode')), '')})",
            )
            for one in mounts
        ]

    def row(self, mounts: list[Json]) -> list[tuple[str, str]]:
        """Return the rows for the status page."""
        label = self._say("folder shown", "已显示文件夹")
        return [(label, f"{target}: {path}") for target, path in self._rows(mounts)]
