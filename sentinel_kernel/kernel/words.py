"""What the host itself says, in English and Chinese: deaths, refused magics, outputs that were held back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.kernel.unusable_settings import unusable_places, unusable_settings
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sentinel_kernel.kernel.settings import Settings
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


def death(cause: Json, violation: Json | None) -> Words:
    """Return the words for a worker's death: those of ``violation``, which is completed, and what became of it."""
    if cause.get("kind") == "rule_kill":
        return _rule_kill(violation, str(cause.get("detail") or "a system call")[:200])
    message, hint = (violation or {}).get("message"), (violation or {}).get("hint")
    if not isinstance(message, dict) or not isinstance(hint, dict):
        return Words(
            f"The sandboxed Python ended. {LOST_EN}",
            f"沙箱中的 Python 已结束。{LOST_ZH}",
            f"{_AGAIN_EN}.",
            f"{_AGAIN_ZH}。",
        )
    return Words(str(message.get("en")), str(message.get("zh")), str(hint.get("en")), str(hint.get("zh")))


def _rule_kill(violation: Json | None, call: str) -> Words:
    # The refusal itself was shown, with its hint: it is not said twice.
    shown_en, shown_zh = ("; the box above says why", "，原因见上方") if violation is not None else ("", "")
    return Words(
        f"The sandbox was ended before the system call {call} took effect{shown_en}. {LOST_EN}",
        f"沙箱在系统调用 {call} 生效之前已被终止{shown_zh}。{LOST_ZH}",
        f"{_AGAIN_EN}, without that call.",
        f"{_AGAIN_ZH}，并去掉该调用。",
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


def unheeded(seconds: int) -> Words:
    """Return the notice that a cell goes on so long after it was interrupted."""
    return Words(
        f"This cell has not ended in the {seconds} seconds since it was interrupted. Code that catches "
        "KeyboardInterrupt, or computes in an extension module, may still end; a worker that has lost its connection "
        "to the notebook won't.",
        f"中断 {seconds} 秒后，此单元格仍未结束。捕获 KeyboardInterrupt 或在扩展模块中计算的代码可能稍后结束；"
        "断开了与笔记本连接的进程不会结束。",
        "Interrupt it once more. Where that does not help either, restart the kernel: the variables are lost, and all "
        "that cells wrote is in the folder or saved (`sentinel-kernel artifacts list` in a terminal).",
        "请再次中断。如果仍无效，请重启内核：变量会丢失，而单元格写入的内容已在文件夹中或会被保存"
        "（在终端中运行 `sentinel-kernel artifacts list`）。",
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


def about_settings(settings: Settings) -> list[Words]:
    """Return what the first cell is told about settings that do not count, as far as their words tell it."""
    unusable = unusable_settings(settings, os.environ)
    return [*map(_mistyped, (*settings.mistyped, *unusable)), *map(_not_granted, settings.notices)]


def about_places() -> Iterator[Words]:
    """Yield what a cell is told about places that settings name; each look may take long (unusable_settings.py)."""
    return map(_mistyped, unusable_places(os.environ))


def _mistyped(notice: tuple[str, str]) -> Words:
    """Return the words for a setting whose value there is not."""
    return Words(
        *notice,
        "Correct the variable where the kernel is started (or the kernelspec's arguments), then restart the kernel.",
        "请在启动内核的地方改正该变量（或内核规格的参数），然后重启内核。",
    )


def _not_granted(notice: tuple[str, str]) -> Words:
    """Return the words for a setting that a lab's configuration does not let stand."""
    return Words(
        *notice,
        "This machine's lab has laid that down; ask whoever runs it. Nothing in a notebook or a home can change it.",
        "这由此机器的实验室设定；请联系管理员。笔记本或主目录中的任何内容都无法更改它。",
    )


def own_words_unused(path: str, place: str, why: str, remedy: str) -> Words:
    """Return the words for a file with words of the user's own that can't be used; ``place`` is in its JSON."""
    from sentinel_kernel.kernel.chinese import in_chinese  # noqa: PLC0415 - seldom, and not on the start path

    where_en, where_zh = ("", "") if place in ("", "$") else (f" at {place}", f"（位置 {place}）")
    return Words(
        f"The words of your own in {path} are not used: there is a fault{where_en}. {why} The shipped words stand in.",
        f"您自己的提示文字 {path} 未被使用：文件有误{where_zh}。{in_chinese(why)}将使用自带的文字。",
        f"{remedy} Correct the file, and restart the kernel.".strip(),
        f"{in_chinese(remedy)}请更正该文件，然后重启内核。",
    )


def artifacts(path: str, files: int, left_out: int = 0) -> Words:
    """Return the words for files that were saved when a sandbox ended; ``left_out`` could not be."""
    if not files:
        return _nothing_saved(path, left_out)
    name = os.path.basename(path)
    them = "it" if files == 1 else "them"
    count_en = "one changed file" if files == 1 else f"{files} changed files"
    return Words(
        f"The sandbox's {count_en} {'was' if files == 1 else 'were'} saved in {path}; "
        f"{f'{left_out} more could not be; ' if left_out else ''}nothing of that was written to the folder itself.",
        f"沙箱中改动过的 {files} 个文件已保存到 {path}；"
        f"{f'另有 {left_out} 个未能保存；' if left_out else ''}这些内容均未写入原文件夹。",
        f"In a terminal, `sentinel-kernel artifacts show {name}` lists {them}, and `sentinel-kernel artifacts restore "
        f"{name}` copies {them} to the folder."
        + (" Its manifest.json says what was left out, and why." if left_out else ""),
        f"在终端中运行 `sentinel-kernel artifacts show {name}` 查看，"
        f"运行 `sentinel-kernel artifacts restore {name}` 将其复制到文件夹。"
        + ("其中的 manifest.json 说明了未保存的内容及原因。" if left_out else ""),
    )


def _nothing_saved(path: str, left_out: int) -> Words:
    """Return the words for a sandbox of which only a list is kept: of what was deleted, or could not be saved."""
    if left_out:
        what, them = (f"None of the sandbox's {left_out} changed files", "them")
        if left_out == 1:
            what, them = "What the sandbox changed", "it"
        could = "could not" if left_out == 1 else "could"
        return Words(
            f"{what} {could} be saved; nothing of {them} was written to the folder itself.",
            f"沙箱中改动过的 {left_out} 个文件均未能保存，也未写入原文件夹。",
            f"manifest.json in {path} says which, and why."
            if path
            else "Nothing can be written where files of ended sandboxes are saved (SENTINEL_ARTIFACTS): look at that "
            "disk's room and rights.",
            f"{path} 中的 manifest.json 说明了是哪些文件及原因。"
            if path
            else "无法写入保存已结束沙箱文件的位置（SENTINEL_ARTIFACTS）：请检查该磁盘的空间和权限。",
        )
    return Words(
        "Files were deleted in the sandbox alone: in the notebook's folder itself they are still there.",
        "文件只在沙箱中被删除：笔记本所在文件夹中的文件仍然存在。",
        f"Nothing has to be copied back; manifest.json in {path} lists them.",
        f"无需复制任何文件；{path} 中的 manifest.json 列出了这些文件。",
    )
