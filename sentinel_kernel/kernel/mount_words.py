"""What the person is asked and told about folders that are shown while the sandbox runs, in English and Chinese."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.kernel.wire import Json

_CHARACTERS = 200
_MOST_NAMED, _NAME_CHARACTERS = 6, 60
_FAILED = (
    (
        "it did not work ({detail}). Nothing has changed. HINT → Try again; `sentinel-kernel "
        "doctor` tells what is missing."
    ),
    "操作失败（{detail}）。一切保持不变。HINT → 请重试；`sentinel-kernel doctor` 会说明缺少什么。",
)
_WHY = {
    "absent": (
        (
            "there is no such folder on the host. HINT → Check how it is written; a relative path "
            "starts at the notebook's folder."
        ),
        "主机上没有这个文件夹。HINT → 请检查拼写；相对路径从笔记本所在文件夹开始。",
    ),
    "busy": (
        "another folder is being shown right now. HINT → Run the cell again in a moment.",
        "正在显示另一个文件夹。HINT → 请稍后重新运行该单元格。",
    ),
    "changed": (
        (
            "it is another folder than the one that you were asked about. Nothing has changed. HINT "
            "→ Run the cell again."
        ),
        "它已不是询问时的那个文件夹。一切保持不变。HINT → 请重新运行该单元格。",
    ),
    "host_runs": (
        (
            "programs on the host would run or obey what a cell writes there ({detail}). HINT → Show "
            "it read-only: %sentinel_mount {path} ro"
        ),
        (
            "主机上的程序会运行或采用单元格写入其中的内容（{detail}）。HINT → 请以只读方式显示："
            "%sentinel_mount {path} ro"
        ),
    ),
    "loop": (
        "its links lead round in a circle.",
        "其链接形成循环。",
    ),
    "mounts_below": (
        (
            "other file systems are mounted inside it ({detail}), above which an ordinary user can't "
            "put a layer. HINT → Name a folder below or beside that place."
        ),
        (
            "其中挂载了其他文件系统（{detail}），普通用户无法在其上叠加一层。HINT → 请指定该位置之下"
            "或旁边的文件夹。"
        ),
    ),
    "no_access": (
        "you may not read it yourself. HINT → Ask its owner.",
        "您本人无权读取它。HINT → 请联系其所有者。",
    ),
    "no_layer": (
        (
            "its file system does not take the layer that keeps the host's sockets and pipes out "
            "({detail}). HINT → Show it read-only (ro), or copy it to a local disk first."
        ),
        (
            "其文件系统不支持隔离主机套接字和管道的叠加层（{detail}）。HINT → 请以只读（ro）方式显示"
            "，或先复制到本地磁盘。"
        ),
    ),
    "no_owner_map": (
        "its file system can't map owners ({detail}). HINT → Start JupyterLab as an ordinary user.",
        "其文件系统无法映射所有者（{detail}）。HINT → 请以普通用户身份启动 JupyterLab。",
    ),
    "no_sandbox": (
        "no sandbox runs at the moment. HINT → Run the cell again.",
        "目前没有运行中的沙箱。HINT → 请重新运行该单元格。",
    ),
    "rung": (
        (
            "on the landlock rung nothing can be mounted. HINT → Copy the files into the notebook's folder, or name "
            "the folder in a profile's filesystem.mounts. %sentinel_status tells how to get the full rung."
        ),
        (
            "landlock 隔离级别无法挂载文件夹。HINT → 请把文件复制到笔记本所在文件夹，或在配置的 filesystem.mounts "
            "中列出该文件夹。%sentinel_status 会说明如何获得完整级别。"
        ),
    ),
    "no_work_folder": (
        (
            "a folder that is written needs a folder beside it on the same file system, and {detail} "
            "can't be written. HINT → Name a folder inside it, or show it read-only (ro)."
        ),
        (
            "可写文件夹需要在同一文件系统上有一个相邻文件夹，而 {detail} 不可写。HINT → 请指定其中的"
            "子文件夹，或以只读（ro）方式显示。"
        ),
    ),
    "no_write": (
        "you may not write there yourself. HINT → Show it read-only: %sentinel_mount {path} ro",
        "您本人无权写入。HINT → 请以只读方式显示：%sentinel_mount {path} ro",
    ),
    "not_folder": (
        "it is a file. HINT → Name the folder that it lies in.",
        "它是文件。HINT → 请指定其所在的文件夹。",
    ),
    "secret": (
        (
            "it is hidden from every cell ({detail}): keys, passwords, settings or what Sentinel saves lie there. "
            "HINT → Copy what the cell needs into the notebook's folder."
        ),
        (
            "它对所有单元格隐藏（{detail}）：其中有密钥、密码、设置或 Sentinel 保存的文件。HINT → "
            "请把单元格所需内容复制到笔记本所在文件夹。"
        ),
    ),
    "secret_inside": (
        (
            "{detail} is hidden from every cell, and is not there yet: in a folder that is written directly nothing "
            "would cover it. HINT → Make it first, or show the folder read-only: %sentinel_mount {path} ro"
        ),
        (
            "{detail} 对所有单元格隐藏，而它尚不存在：在直接写入的文件夹中无法将其遮盖。HINT → 请先创建它，"
            "或以只读方式显示该文件夹：%sentinel_mount {path} ro"
        ),
    ),
    "special": (
        "{detail} is no folder of data. HINT → Name a folder with your data.",
        "{detail} 不是数据文件夹。HINT → 请指定存放数据的文件夹。",
    ),
    "taken": (
        "its place {detail} is taken. HINT → %sentinel_mount lists what is shown.",
        "位置 {detail} 已被占用。HINT → %sentinel_mount 列出已显示的文件夹。",
    ),
    "too_many": (
        (
            "{detail} folders are shown already. HINT → Take one away: %sentinel_mount lists them with the names that "
            "stand behind %sentinel_mount --remove"
        ),
        "已显示 {detail} 个文件夹。HINT → 请先移除一个：%sentinel_mount 会列出名称，写在 %sentinel_mount --remove 后",
    ),
    "too_slow": (
        "its disk does not answer. Nothing has changed. HINT → Try again when the disk answers.",
        "其磁盘没有响应。一切保持不变。HINT → 请在磁盘恢复响应后重试。",
    ),
    "unknown_name": (
        "no folder of that name is shown. HINT → %sentinel_mount lists the names.",
        "没有显示该名称的文件夹。HINT → %sentinel_mount 会列出名称。",
    ),
}
_BEFORE_HINT = (" HINT →", "HINT →")
_HOLDS_DATA_ALONE = (
    (
        "HINT → Cells can read it all the same. Have the profile name a folder inside it that holds data alone, or "
        "write to the notebook's folder."
    ),
    "HINT → 单元格仍可读取它。请在配置中改为列出其中只存放数据的文件夹，或写入笔记本所在文件夹。",
)
_OF_PROFILE = {
    "host_runs": _HOLDS_DATA_ALONE,
    "no_layer": (
        (
            "HINT → Cells can read it all the same. To have it written, copy it to a local disk and name that in the "
            "profile."
        ),
        "HINT → 单元格仍可读取它。如需写入，请将其复制到本地磁盘，并在配置中列出该处。",
    ),
    "no_work_folder": _HOLDS_DATA_ALONE,
    "no_write": (
        "HINT → Cells can read it all the same. To have it written, ask its owner for the right to.",
        "HINT → 单元格仍可读取它。如需写入，请向其所有者申请权限。",
    ),
    "secret_inside": (
        (
            "HINT → Cells can read it all the same. To have it written, make that first, outside the sandbox, and type "
            "%sentinel_mount {path} rw"
        ),
        "HINT → 单元格仍可读取它。如需写入，请先在沙箱外创建它，然后输入 %sentinel_mount {path} rw",
    ),
}
"""What helps where the profile wants a folder written: it is shown read-only already."""
CODES = frozenset({*_WHY, "failed"})


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
        english, chinese = _WHY.get(str(told.get("code")), _FAILED)
        detail = rendering.printable(str(told.get("detail") or ""), _CHARACTERS)
        shown = rendering.printable(path, _CHARACTERS)
        why = self._say(english, chinese).format(detail=detail, path=_typed(path))
        return self._say(f"the folder {shown!r} is not shown: {why}", f"文件夹“{shown}”未显示：{why}")

    def not_written(self, path: str, told: Json) -> str:
        """Return why a folder that the profile wants written is only read."""
        code, language = str(told.get("code")), int(self._chinese)
        why = _WHY.get(code, _FAILED)[language]
        if code in _OF_PROFILE:
            why = why.partition(_BEFORE_HINT[language])[0] + " "[language:] + _OF_PROFILE[code][language]
        detail = rendering.printable(str(told.get("detail") or ""), _CHARACTERS)
        why = why.format(detail=detail, path=_typed(path))
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

    def read_only(self, path: str, why: str) -> Json:
        """Return the bundle that tells that a folder which the profile wants writable can only be read."""
        shown = rendering.printable(path, _CHARACTERS)
        title = self._say("Sentinel: a folder can only be read", "Sentinel：文件夹只能读取")
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
