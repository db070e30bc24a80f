"""The dangerous rule set: code that should be read, and mostly rewritten, before anybody runs it.

It is about the text alone, whatever the sandbox would do: each finding names what to write instead.
"""

from __future__ import annotations

from sentinel_kernel.policy.dangerous_code import DangerousCode
from sentinel_kernel.policy.preflight_cell import read_cell
from sentinel_kernel.policy.preflight_finding import CERTAIN, DANGEROUS_RULES, Finding
from sentinel_kernel.policy.preflight_magics import shell_text
from sentinel_kernel.policy.preflight_names import Names
from sentinel_kernel.policy.text import shown
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

MOST_CHARACTERS = 256 * 1024
MOST_FINDINGS = 100

RULES: Final[dict[str, tuple[str, str, str, str]]] = {
    "code-from-data": (
        "Text that is only known while the cell runs is executed as code.",
        "单元格运行时才得知的文本会被当作代码执行。",
        "Rewrite it: ast.literal_eval for values, a dictionary of functions for choices, a def for formulas.",
        "请改写：取值用 ast.literal_eval 或 json.loads，分支用函数字典，公式用普通的 def。",
    ),
    "hidden-code": (
        "Code is decoded and executed at once, so that nobody can read it before it runs.",
        "代码在解码后立即执行，运行前无人能读到它。",
        "Rewrite it: print what it decodes to, and put that into the cell as plain code.",
        "请改写：先打印解码结果，再把它作为普通代码写入单元格。",
    ),
    "downloaded-code": (
        "What another machine sends is executed as code, unread.",
        "其他机器发来的内容未经检查就被当作代码执行。",
        "Rewrite it: download to a file, look at it, and run that file; or install a released package.",
        "请改写：先下载到文件，查看内容后再运行该文件；或安装已发布的软件包。",
    ),
    "built-shell": (
        "A shell command is put together from values: a space or semicolon in one of them becomes another command.",
        "shell 命令由变量拼接而成：其中的空格或分号会变成另一条命令。",
        "Rewrite it: subprocess.run([program, argument, ...]) with a list and without shell=True.",
        "请改写：使用 subprocess.run([程序, 参数, ...]) 的列表形式，不要使用 shell=True。",
    ),
    "broad-delete": (
        "It deletes, or opens to everybody, a whole folder tree near the root, the home folder or the working folder.",
        "它会删除根目录、主目录或工作目录附近的整个目录树，或将其开放给所有人。",
        "Rewrite it: name the very files or the one folder that this notebook has made.",
        "请改写：明确写出此笔记本所创建的文件或那一个文件夹。",
    ),
    "overwritten-disk": (
        "It writes to a disk below its file system, which destroys what is on it.",
        "它会绕过文件系统直接写入磁盘，从而毁坏其中的内容。",
        "Take the line out: no notebook needs it. Write to a file.",
        "请删除这一行：笔记本不需要它。请写入文件。",
    ),
    "reflection": (
        "It reaches Python's internals by a way round their names, as code does that wants to get out of checks.",
        "它绕开名称去访问 Python 的内部对象，这是试图逃避检查的代码的常见做法。",
        "Rewrite it: import the module and call the function by its name.",
        "请改写：导入模块并按名称调用函数。",
    ),
    "native-memory": (
        "It calls C functions or changes memory by address, past everything that Python checks.",
        "它直接调用 C 函数或按地址修改内存，绕过了 Python 的所有检查。",
        "Rewrite it with a module that does the same: os, mmap, struct, numpy.",
        "请改用功能相同的模块：os、mmap、struct、numpy。",
    ),
    "downloaded-pickle": (
        "Data from another machine is unpickled, and a pickle runs whatever code its maker put into it.",
        "来自其他机器的数据被反序列化（pickle），而 pickle 会运行其制作者放入的任何代码。",
        "Rewrite it: use a format that holds data alone, such as JSON, CSV, Parquet, or safetensors for models.",
        "请改写：使用只含数据的格式，例如 JSON、CSV、Parquet，模型请用 safetensors。",
    ),
    "fork-bomb": (
        "It starts processes without end.",
        "它会无止境地启动进程。",
        "Rewrite it: start a fixed number, with concurrent.futures.ProcessPoolExecutor(max_workers=4).",
        "请改写：用 concurrent.futures.ProcessPoolExecutor(max_workers=4) 启动固定数量的进程。",
    ),
}
"""Rule -> message and hint, in English and Chinese."""


class DangerousNotebook:
    """What the rule set has read of a notebook's cells so far."""

    def __init__(self) -> None:
        self._names = Names()
        self._sources: dict[str, str] = {}
        self._before = (self._names, self._sources)
        self.skipped = False
        """Whether the cell that was read last is one that could not be followed to its end."""

    def take_back(self) -> None:
        """Forget what the cell that was read last has bound: it is not run after all."""
        self._names, self._sources = self._before

    def read(self, code: str) -> tuple[Finding, ...]:
        """Return the findings of one more cell. Never raises."""
        self.skipped = False
        if len(code) > MOST_CHARACTERS:
            return ()
        names, sources = self._names.copy(), dict(self._sources)
        try:
            cell = read_cell(code)
            if cell is None:
                return ()
            reader = DangerousCode(names, sources)
            reader.visit(cell.tree)
            found = set(reader.found)
            for magic in cell.magics:
                text = shell_text(magic)
                if text is not None:
                    found |= {(text[1] + line, 0, rule) for line, rule in reader.shell(text[0])}
            self.skipped = reader.skipped
            lines = code.split("\n")
            told = tuple(_finding(*one, lines, cell.indentation) for one in sorted(found)[:MOST_FINDINGS])
        except Exception:  # noqa: BLE001 - no text of a cell's may end who reads it; nothing is said of this one
            self.skipped = True  # most often deeper than any person writes
            return ()
        self._before = (self._names, self._sources)
        self._names, self._sources = names, sources
        return told


def check_dangerous(code: str, earlier: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Return what is dangerous in a cell that is run after ``earlier`` ones. Pure and total."""
    notebook = DangerousNotebook()
    for one in earlier:
        notebook.read(one)
    return notebook.read(code)


def _finding(line: int, offset: int, rule: str, lines: list[str], indentation: int) -> Finding:
    message_en, message_zh, hint_en, hint_zh = RULES[rule]
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    column = len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace")) + 1
    return Finding(
        cause=rule,
        line=line,
        column=column + indentation,
        what=rule,
        rule=f"dangerous: {rule}",
        confidence=CERTAIN,
        message=Text(message_en, message_zh),
        hint=Text(hint_en, hint_zh),
        rules=DANGEROUS_RULES,
        raises=False,
        source=shown(text.strip()),
    )
