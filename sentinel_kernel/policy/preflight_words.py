"""The words of preflight, in English and Chinese: why a line will be refused, and what to do instead."""

from __future__ import annotations

from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.preflight_finding import Judged

_FILES_EN = "Download the data outside the sandbox, put the file next to the notebook and read it from there."
_FILES_ZH = "请在沙箱外下载数据，将文件放到笔记本旁边，再从那里读取。"
_INSTALL_EN = "Install it outside the sandbox, into this kernel's environment: what is run next finds it."
_INSTALL_ZH = "请在沙箱外将其安装到此内核的环境中，之后即可直接 import。"

_WORDS: dict[str, tuple[str, str, str, str]] = {
    "network": (
        "{what} needs the network, and the profile '{profile}' has none: this will be refused.",
        "{what} 需要网络，而配置“{profile}”没有网络：此操作会被拒绝。",
        _FILES_EN,
        _FILES_ZH,
    ),
    "outside": (
        "{what} goes to another machine, and the sandbox's network ends at its own loopback: this will fail.",
        "{what} 要连接其他机器，而沙箱网络仅限于自身的回环接口：此操作会失败。",
        _FILES_EN,
        _FILES_ZH,
    ),
    "host": (
        "{what} asks for a host that the profile '{profile}' does not let cells reach: this will be refused.",
        "{what} 要访问配置“{profile}”未允许单元格访问的主机：此操作会被拒绝。",
        (
            "`%sentinel_allow HOST` (HOST: the host's name, e.g. github.com) at the top of a cell asks you whether it "
            "may be reached."
        ),
        "在单元格首行写 `%sentinel_allow HOST`（HOST 为主机名，例如 github.com），系统会询问您是否允许访问。",
    ),
    "call": (
        "{what} makes the system call {syscall}, which the profile '{profile}' refuses.",
        "{what} 会发出系统调用 {syscall}，配置“{profile}”会拒绝它。",
        "Do it without this call; `sentinel-kernel explain {profile} {syscall}` tells why it is refused.",
        "请不要使用此调用；`sentinel-kernel explain {profile} {syscall}` 会说明拒绝的原因。",
    ),
    "kill": (
        (
            "{what} makes the system call {syscall}, for which the profile '{profile}' ends the whole sandbox: "
            "all variables would be lost."
        ),
        "{what} 会发出系统调用 {syscall}，配置“{profile}”会因此终止整个沙箱：所有变量都会丢失。",
        "Take the line out; `sentinel-kernel explain {profile} {syscall}` tells why.",
        "请删除这一行；`sentinel-kernel explain {profile} {syscall}` 会说明原因。",
    ),
    "place": (
        "{what} writes to a place that can't be written in the sandbox.",
        "{what} 要写入沙箱中不可写的位置。",
        "Write next to the notebook (a relative path) or into /tmp.",
        "请写到笔记本旁边（相对路径）或 /tmp 中。",
    ),
    "workspace": (
        "{what} writes into the notebook's folder, which the profile '{profile}' shows read-only.",
        "{what} 要写入笔记本所在的文件夹，而配置“{profile}”将其设为只读。",
        "Write into /tmp.",
        "请写到 /tmp 中。",
    ),
    "install": (
        "{what} has to download packages, and the sandbox has no network: this will fail.",
        "{what} 需要下载软件包，而沙箱没有网络：此操作会失败。",
        _INSTALL_EN,
        _INSTALL_ZH,
    ),
    "system-install": (
        "{what} has to download packages and write to the system's folders: neither is possible in the sandbox.",
        "{what} 需要下载软件包并写入系统文件夹：在沙箱中都不可能。",
        "Install it on the host, outside the sandbox; system programs show up inside by themselves.",
        "请在沙箱外的主机上安装；系统程序会自动出现在沙箱内。",
    ),
    "sudo": (
        "{what} can't give rights in the sandbox: no program gains any there.",
        "{what} 在沙箱中无法提升权限：任何程序都不能获得更多权限。",
        "Run the command without sudo, or outside the sandbox.",
        "请不加 sudo 运行此命令，或在沙箱外运行。",
    ),
}


def words_for(judged: Judged, profile: str) -> tuple[Text, Text]:
    """Return message and hint. Nothing of the cell's own text is in them."""
    values = {"what": judged.what, "profile": profile, "syscall": judged.syscall or ""}
    english, chinese, hint_en, hint_zh = (text.format(**values) for text in _WORDS[judged.kind])
    return Text(english, chinese), Text(hint_en, hint_zh)
