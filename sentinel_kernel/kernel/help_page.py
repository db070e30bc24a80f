"""The page of `%sentinel_help`: every magic with what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import files_words, rendering

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json


def help_page(*, chinese: bool) -> Json:
    """Return the bundle of the page."""

    def say(english: str, chinese_text: str) -> str:
        return chinese_text if chinese else english

    rows = [
        (
            "%sentinel_status",
            say("what this sandbox allows and has refused", "当前沙箱的限制与拒绝记录"),
        ),
        (
            "%sentinel_status --live",
            say("the same as a widget that follows the cells", "同上，以随单元格更新的控件显示"),
        ),
        (
            "%sentinel_profile",
            say("list the profiles and what each allows", "列出所有配置及其权限"),
        ),
        (
            "%sentinel_profile NAME",
            say(
                "go on under another profile; variables stay",
                "切换到其他配置；变量会保留",
            ),
        ),
        (
            "%sentinel_limit",
            say("list the limits, and what is used of them", "列出限制及其使用情况"),
        ),
        (
            "%sentinel_limit memory=4G",
            say("set a limit, up to the ceiling; variables stay", "设定限制（不超过上限）；变量会保留"),
        ),
        (
            "%sentinel_limit io_read=50M io_write=20M",
            say(
                "bytes that may be read from and written to disk in a second, where a control group can hold that",
                "每秒可从磁盘读取、写入的字节数（需要控制组支持）",
            ),
        ),
        (
            "%sentinel_mount PATH",
            say(
                "show a folder of the host to the cells, once you agree; rw: let them change it; variables stay",
                "经您同意后向单元格显示主机文件夹；rw：允许修改；变量会保留",
            ),
        ),
        (
            "%sentinel_allow HOST:PORT",
            say(
                "reach a host, once you agree; until the kernel ends",
                "经您同意后可访问主机，直至内核结束",
            ),
        ),
        (
            "%sentinel_net",
            say("hosts, what was tried, sent and received", "可访问的主机，以及尝试、发送与接收的记录"),
        ),
        (
            "%sentinel_gauge",
            say(
                "what is used of the limits, moving while a cell runs; profile selector and stop button",
                "以随单元格变化的仪表显示资源用量；可选择配置、停止单元格",
            ),
        ),
        (
            "%sentinel_gauge summary on",
            say("one line at each cell's end: time, memory, CPU, refusals", "在每个单元格末尾显示一行用量"),
        ),
        (
            "%sentinel_explain",
            say(
                "the last refusal at length; with a number N the N-th last",
                "详细说明最近一次拒绝；加数字 N 表示倒数第 N 次",
            ),
        ),
        (
            "%sentinel_violations",
            say(
                "all refusals, limits and deaths of this session; --last N, --json",
                "本次会话的所有拒绝、限制与终止；--last N，--json",
            ),
        ),
        (
            "%sentinel_audit",
            say("what ran, what was refused, what was used", "执行、拒绝与资源使用的记录"),
        ),
        (
            "%sentinel_preflight refuse",
            say(
                "do not run cells with lines that will be refused (advise: say so; off)",
                "不运行含有会被拒绝的行的单元格（advise：仅提示；off：关闭）",
            ),
        ),
        (
            "%sentinel_preflight --dangerous refuse",
            say(
                "the same about code that should be read before it is run (advise; off)",
                "同上，针对运行前应先阅读的危险代码（advise；off）",
            ),
        ),
        (
            "%sentinel_trust_output",
            say(
                "what outputs may do in the browser; HOST or scripts: more of it, once you agree",
                "输出在浏览器中的权限；加主机名或 scripts：经您同意后放宽",
            ),
        ),
        *files_words.help_rows(chinese=chinese),
        ("%sentinel_reset", say("a fresh sandbox; variables are lost", "全新的沙箱；变量将丢失")),
        ("%sentinel_help", say("this page", "本页")),
    ]
    note = say(
        "They are the first lines of a cell; the code below them runs afterwards. Outside, "
        "`sentinel-kernel explain PROFILE` tells what a profile does with each system call.",
        "它们必须位于单元格的最前面；其后的代码随后运行。在终端中，`sentinel-kernel explain PROFILE` "
        "会说明某个配置如何处理每个系统调用。",
    )
    return rendering.table_bundle(say("Sentinel: magics", "Sentinel：魔法命令"), rows, [note])
