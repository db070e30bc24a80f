"""What the host itself says, in English and Chinese: deaths, refused magics, outputs that were held back."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json


class Words(Record):
    """What happened and what to do about it, in both languages."""

    message_en: str
    message_zh: str
    hint_en: str
    hint_zh: str

    def message(self, language: str) -> str:
        """Return what happened."""
        return self.message_zh if language == "zh" else self.message_en

    def hint(self, language: str) -> str:
        """Return what to do."""
        return self.hint_zh if language == "zh" else self.hint_en

    def plain(self, language: str) -> str:
        """Return both as the plain text that tools and assistants read."""
        return f"[SEMANTIC] {self.message(language)}\nHINT → {self.hint(language)}"


LOST_EN = "The variables of this notebook are lost."
LOST_ZH = "此笔记本中的变量已全部丢失。"
_AGAIN_EN = "A new sandbox takes over: run the cells that define your variables again"
_AGAIN_ZH = "新的沙箱会接替它：请重新运行定义变量的单元格"

_SIGNALS: dict[int, tuple[str, str, str, str]] = {
    signal.SIGKILL: (
        "its own code sent the signal, or the Linux kernel did because the machine ran out of memory",
        "信号由代码自身发出，或因机器内存不足由 Linux 内核发出",
        "; if it was memory, work on less data at once.",
        "；如果是内存不足，请减少一次处理的数据量。",
    ),
    signal.SIGSEGV: (
        "native code crashed (segmentation fault)",
        "本机代码崩溃（段错误）",
        "; the last call into an extension module (C, C++, Rust) is the first suspect.",
        "；请首先检查最后调用的扩展模块（C、C++、Rust）。",
    ),
    signal.SIGABRT: (
        "native code gave up (abort)",
        "本机代码主动中止（abort）",
        "; the last call into an extension module (C, C++, Rust) is the first suspect.",
        "；请首先检查最后调用的扩展模块（C、C++、Rust）。",
    ),
    signal.SIGSYS: (
        "it made a system call that the sandbox answers by ending it",
        "它发出了沙箱会以终止进程来回应的系统调用",
        "; code for another processor architecture does that.",
        "；为其他处理器架构编译的代码会导致这种情况。",
    ),
    signal.SIGBUS: (
        "it touched memory that could not be provided, as when a file or /dev/shm was cut or is full",
        "它访问了无法提供的内存，例如文件或 /dev/shm 被截断或已满",
        "; use smaller shared arrays, or fewer workers.",
        "；请使用更小的共享数组，或减少并行进程。",
    ),
}


def death(cause: Json, violation: Json | None) -> Words:
    """Return the words for a worker's death; ``violation`` is the completed one that a KILL rule reported."""
    kind = cause.get("kind")
    if kind == "rule_kill":
        return _rule_kill(violation, str(cause.get("detail") or "a system call")[:200])
    if kind == "signal":
        return _signal(cause.get("signal"))
    if kind == "exit":
        status = cause.get("status")
        return Words(
            f"The sandboxed Python ended itself (exit status {status}). {LOST_EN}",
            f"沙箱中的 Python 自行退出（退出状态 {status}）。{LOST_ZH}",
            f"{_AGAIN_EN}; exit(), quit and os._exit() end the whole session: leave them out.",
            f"{_AGAIN_ZH}；exit()、quit 和 os._exit() 会结束整个会话，请去掉它们。",
        )
    if kind == "protocol":
        return Words(
            f"The sandboxed Python sent messages that no Jupyter kernel sends, and was ended. {LOST_EN}",
            f"沙箱中的 Python 发送了不符合 Jupyter 协议的消息，已被终止。{LOST_ZH}",
            f"{_AGAIN_EN}; code that writes to the kernel's own sockets or descriptors does that.",
            f"{_AGAIN_ZH}；直接向内核自身的套接字或文件描述符写入的代码会导致这种情况。",
        )
    detail = str(cause.get("detail") or "")[:300]
    return Words(
        f"The sandbox was lost: its supervisor stopped working. {detail} {LOST_EN}".replace("  ", " "),
        f"沙箱已丢失：其监管进程停止工作。{detail} {LOST_ZH}",
        f"{_AGAIN_EN}. If it happens again, run `sentinel-kernel doctor` in a terminal.",
        f"{_AGAIN_ZH}。若再次发生，请在终端运行 `sentinel-kernel doctor`。",
    )


def _rule_kill(violation: Json | None, call: str) -> Words:
    # The refusal itself was shown, with its hint: it is not said twice.
    shown_en, shown_zh = ("; the box above says why", "，原因见上方") if violation is not None else ("", "")
    return Words(
        f"The sandbox was ended before the system call {call} took effect{shown_en}. {LOST_EN}",
        f"沙箱在系统调用 {call} 生效之前已被终止{shown_zh}。{LOST_ZH}",
        f"{_AGAIN_EN}, without that call.",
        f"{_AGAIN_ZH}，并去掉该调用。",
    )


def _signal(number: object) -> Words:
    try:
        name = signal.Signals(number).name  # type: ignore[arg-type] # whatever the event says; ValueError if none
    except ValueError:
        name = f"signal {number}"
    because_en, because_zh, more_en, more_zh = _SIGNALS.get(
        number if isinstance(number, int) else 0, ("", "", ".", "。")
    )
    return Words(
        f"The sandboxed Python died of {name}" + (f": {because_en}. " if because_en else ". ") + LOST_EN,
        f"沙箱中的 Python 因 {name} 而终止" + (f"：{because_zh}。" if because_zh else "。") + LOST_ZH,
        _AGAIN_EN + more_en,
        _AGAIN_ZH + more_zh,
    )


def switched(reason: str) -> Words:
    """Return the words for a cell of another subshell that ran when a magic asked for a new sandbox."""
    return Words(
        f"Another cell asked for a new sandbox ({reason}), and this one was still running. {LOST_EN}",
        f"另一个单元格请求了新的沙箱（{reason}），而此单元格仍在运行。{LOST_ZH}",
        f"{_AGAIN_EN}.",
        f"{_AGAIN_ZH}。",
    )


ENDED_BY_BUTTON = Words(
    f"The cell went on in spite of an interrupt, so its worker was ended from the gauge. {LOST_EN}",
    f"单元格忽略了中断，因此已从仪表终止其进程。{LOST_ZH}",
    f"{_AGAIN_EN}. Code that catches KeyboardInterrupt, or computes in an extension module, can't be interrupted.",
    f"{_AGAIN_ZH}。捕获 KeyboardInterrupt 或在扩展模块中计算的代码无法被中断。",
)

SCRIPT_HELD = Words(
    "This output is a script (application/javascript) and was held back: in the browser it would act with "
    "your Jupyter login, outside the sandbox.",
    "此输出是脚本（application/javascript），已被拦截："
    "它会在浏览器中以您的 Jupyter 登录身份、在沙箱之外运行。",
    "Show data as text, HTML without scripts, images or widgets; display(HTML(...)) and plotting libraries "
    "with a static or PNG renderer work.",
    "请以文本、不含脚本的 HTML、图片或控件来展示数据；"
    "display(HTML(...)) 以及绘图库的静态或 PNG 渲染方式均可使用。",
)

RESERVED_HELD = Words(
    "This output claimed to come from the sandbox itself (a Sentinel MIME type or widget) and was held back.",
    "此输出冒充沙箱自身的信息（Sentinel 的 MIME 类型、显示区域或控件），已被拦截。",
    "Only the host tells of refusals; show your own data under another MIME type.",
    "只有宿主才能报告拒绝信息；请使用其他 MIME 类型展示您自己的数据。",
)

INPUT_HELD = Words(
    "A prompt for input was held back: the cell does not take input now, or already waits for an answer.",
    "一个输入提示已被拦截：该单元格当前不接受输入，或已在等待回答。",
    "Ask once at a time, with input() in a cell that is run from a notebook.",
    "请在笔记本单元格中使用 input()，一次只提出一个问题。",
)

MALFORMED_HELD = Words(
    "An output could not be read (it is not JSON in UTF-8, or too deeply nested) and was held back.",
    "一个输出无法读取（不是 UTF-8 的 JSON，或嵌套过深），已被拦截。",
    "Show the data in another form, for example as text.",
    "请以其他形式展示数据，例如文本。",
)


def not_granted(notice: tuple[str, str]) -> Words:
    """Return the words for a setting that a lab's configuration does not let stand."""
    return Words(
        *notice,
        "This machine's lab has laid that down; ask whoever runs it. Nothing in a notebook or a home can change it.",
        "这由此机器的实验室设定；请联系管理员。笔记本或主目录中的任何内容都无法更改它。",
    )


def artifacts(path: str, files: int, left_out: int = 0) -> Words:
    """Return the words for files that were saved when a sandbox ended; ``left_out`` could not be."""
    count_en = "one changed file" if files == 1 else f"{files} changed files"
    return Words(
        f"The sandbox's {count_en} {'was' if files == 1 else 'were'} saved in {path}; "
        f"{f'{left_out} more could not be; ' if left_out else ''}the notebook's folder itself is untouched.",
        f"沙箱中改动过的 {files} 个文件已保存到 {path}；"
        f"{f'另有 {left_out} 个未能保存；' if left_out else ''}笔记本所在文件夹未被改动。",
        "Copy what you need from there, after a look."
        + (" Its manifest.json says what was left out, and why." if left_out else ""),
        "请查看后从那里复制所需文件。"
        + ("其中的 manifest.json 说明了未保存的内容及原因。" if left_out else ""),
    )
