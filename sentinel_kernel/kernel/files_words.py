"""The words about what cells wrote, in English and Chinese: kinds, reasons, questions, notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel import rendering
from sentinel_kernel.kernel.files_reasons import hint_for, reason, say
from sentinel_kernel.kernel.words import Words
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.wire import Json

_NAMED = 8
PATH_CHARACTERS = 120
_BEGIN_CHARACTERS = 40

KINDS = {
    "new": ("new", "新建"),
    "changed": ("changed", "已修改"),
    "deleted": ("deleted", "已删除"),
    "renamed": ("renamed", "已重命名"),
    "mode": ("permissions changed", "权限已更改"),
    "special": ("no plain file", "非普通文件"),
}
"""Kind of change (workspace/request.py) in English and Chinese."""

_HELD = {
    "special": ("no plain file: never copied out", "非普通文件：不会复制出沙箱"),
    "unreadable": ("can't be read", "无法读取"),
    "too_deep": ("too many folders deep", "文件夹嵌套过深"),
    "over_folder": ("a folder is there on this machine", "此机器上该处是文件夹"),
    "over_file": ("a file is there on this machine", "此机器上该处是文件"),
    "over_special": ("a link or device is there on this machine", "此机器上该处是链接或设备"),
    "own_name": ("a name that is kept for unfinished copies", "该名称保留给未完成的副本"),
    "version_control": ("asked about by itself: it steers version control", "需单独确认：它控制版本管理"),
    "configuration": (
        "asked about by itself: programs read it when they start",
        "需单独确认：程序启动时会读取它",
    ),
    "loaded": ("asked about by itself: code is loaded from there", "需单独确认：会从该处加载代码"),
    "executable": ("asked about by itself: it is a program", "需单独确认：它是可执行程序"),
    "model": ("waits for %sentinel_commit: loading it runs code", "等待 %sentinel_commit：加载它会运行代码"),
    "waits": (
        "waits for %sentinel_commit: no plain data by its name",
        "等待 %sentinel_commit：名称不属于纯数据",
    ),
    "settings": (
        "waits for %sentinel_commit: it says what a program is to run or load",
        "等待 %sentinel_commit：其中写明了程序要运行或加载的内容",
    ),
    "sparse": ("waits for %sentinel_commit: it is mostly empty space", "等待 %sentinel_commit：内容大多为空"),
    "option": (
        "waits for %sentinel_commit: programs may take its name for an option",
        "等待 %sentinel_commit：程序可能把其名称当作选项",
    ),
}
"""Codes of policy/committable.py in English and Chinese."""

_QUESTIONS = {
    "new": ("write new files", "写入新文件"),
    "overwrite": ("overwrite files on this machine", "覆盖此机器上的文件"),
    "delete": ("delete files on this machine", "删除此机器上的文件"),
    "conflict": (
        "put its version of files that were changed on this machine meanwhile beside them",
        "把单元格的版本放在此机器上同时被修改的文件旁边",
    ),
    "dangerous": (
        "write where this machine runs or loads files (start-up files, settings, .git, hooks, import paths)",
        "写入此机器会执行或加载文件的位置（启动文件、设置、.git、钩子、导入路径）",
    ),
    "discard": ("throw away what cells wrote", "丢弃单元格写入的内容"),
    "export": ("copy a file out of the sandbox", "将文件复制出沙箱"),
}

_OF_ONE = {
    "new": "write a new file",
    "overwrite": "overwrite a file on this machine",
    "delete": "delete a file on this machine",
    "conflict": "put its version of a file that was changed on this machine meanwhile beside it",
}
"""What of those is said of one file; Chinese has no plural."""


def files(count: int, *, chinese: bool) -> str:
    """Return a number of files in words."""
    if chinese:
        return f"{count} 个文件"
    return "1 file" if count == 1 else f"{count} files"


def folder_word(count: int) -> str:
    """Return "folder" or "folders"."""
    return "folder" if count == 1 else "folders"


def path_of(entry: Json) -> str:
    """Return the path of an entry as it is shown: relative in the workspace, else in full; escaped and cut."""
    path, layer = str(entry.get("path") or "?"), entry.get("layer")
    folder = entry.get("folder")
    if layer not in (None, "", "workspace") and isinstance(folder, str):
        path = f"{folder.rstrip('/')}/{path}"
    return shown_path(path)


def shown_path(path: object) -> str:
    """Return a path safe to show; of a long one the middle is cut, as its end tells which file it is."""
    text = str(path)
    if len(text) > PATH_CHARACTERS:
        text = f"{text[:_BEGIN_CHARACTERS]}…{text[_BEGIN_CHARACTERS + 1 - PATH_CHARACTERS :]}"
    return rendering.printable(text, PATH_CHARACTERS)


def named(paths: Sequence[object], count: int, *, chinese: bool, mark: str = "") -> str:
    """Return the first paths, each made safe to show between two of ``mark``, and how many more there are."""
    safe = [shown_path(path) for path in paths[:_NAMED]]
    if mark:
        safe = [f"{mark}{path.replace(mark, '?')}{mark}" for path in safe]
    shown = ("、" if chinese else ", ").join(safe)
    more = count - min(len(paths), _NAMED)
    if more <= 0:
        return shown
    return f"{shown} 等（另有 {more} 个）" if chinese else f"{shown} and {more} more"


def question(need: Json, *, chinese: bool) -> str:
    """Return what the person is asked about one need of a commit; the paths are named, and come from the cell."""
    what = _QUESTIONS.get(str(need.get("what")), _QUESTIONS["dangerous"])
    paths = [path for path in need.get("paths") or () if isinstance(path, str)]
    count = need.get("count")
    count = count if isinstance(count, int) else len(paths)
    # Marked off, so that no name reads as the end of the question.
    told = named(paths, count, chinese=chinese, mark="`")
    final = need.get("final") or 0
    options = need.get("options") or 0
    if chinese:
        lost = f"其中 {final} 个无法用 %sentinel_undo 恢复（文件夹，或太大而未保留）。" if final else ""
        odd = f"其中 {options} 个名称以 - 或 ~ 开头：程序（如 tar cf x *）会把它当作选项。" if options else ""
        return f"询问：此单元格想要{what[1]}（{count} 个）：{told}。{odd}{lost}是否允许？[y] 是，[n] 否："
    lost = (
        f"%sentinel_undo can't bring {'it' if count == final == 1 else f'{final} of these'} back "
        f"({'a folder' if final == 1 else 'folders'}, or too large to keep). "
        if final
        else ""
    )
    begins = f"Of these {options} {'begins' if options == 1 else 'begin'}" if count > 1 else "Its name begins"
    odd = f"{begins} with - or ~, which programs take for an option (tar cf x *). " if options else ""
    wants = _OF_ONE.get(str(need.get("what")), what[0]) if count == 1 else f"{what[0]} ({count})"
    return f"asks: this cell wants to {wants}: {told}. {odd}{lost}Allow it? [y] yes, [n] no: "


def nobody(what: str, *, chinese: bool) -> str:
    """Return why something that needs a yes is refused where nobody can be asked."""
    pair = _QUESTIONS.get(what, _QUESTIONS["dangerous"])
    if what == "discard":
        if chinese:
            return "丢弃全部内容需要您的同意，而此处无人可以询问。HINT → 请指定路径，或使用 --all。"
        return "To drop everything needs a yes, and nobody can be asked here. HINT → Name the paths, or type --all."
    if chinese:
        return (
            f"{pair[1]}需要您的同意，而此处无人可以询问。未做任何更改。HINT → 请在 JupyterLab 等可以回答问题的"
            "前端中运行此行；这些文件在沙箱结束时会保存到制品库（sentinel-kernel artifacts list）。"
        )
    return (
        f"To {pair[0]} needs a yes, and nobody can be asked here. Nothing was changed. HINT → Run the line where a "
        "question can be answered, as in JupyterLab; when the sandbox ends, the files are kept in the artifact store "
        "(sentinel-kernel artifacts list)."
    )


def too_many_exports(place: str, files_at_most: int, bytes_at_most: int, *, chinese: bool) -> str:
    """Return why no further copy is made where nobody can be asked; ``place`` is safe to show."""
    size = size_text(bytes_at_most)
    if chinese:
        return (
            f"无人可以询问时，最多将 {files_at_most} 个文件（共 {size}）复制到 {place}，此文件会超出上限。"
            "HINT → 请移走或删除那里的文件，或在 JupyterLab 等可以回答问题的前端中运行此行。"
        )
    return (
        f"Where nobody can be asked, at most {files_at_most} files of {size} together are copied to {place}, and this "
        "one would be more. HINT → Move or delete what lies there, or run the line where a question can be answered, "
        "as in JupyterLab."
    )


def declined(*, chinese: bool) -> str:
    """Return what is said after a no."""
    if chinese:
        return "未获同意，未做任何更改。HINT → %sentinel_files --diff 会显示差异。"
    return "It was not agreed to, and nothing was changed. HINT → %sentinel_files --diff shows what differs."


def why_held(code: object, *, chinese: bool) -> str:
    """Return why a file is held until the person says something, or can't be written at all."""
    pair = _HELD.get(str(code))
    return say(pair, chinese=chinese) if pair else rendering.printable(code, 60)


def help_rows(*, chinese: bool) -> list[tuple[str, str]]:
    """Return what the help page says of the file magics."""
    rows = (
        (
            "%sentinel_files",
            "files that cells wrote and that are held; --json",
            "单元格写入并保留在沙箱中的文件；--json",
        ),
        (
            "%sentinel_files --diff PATH",
            "what differs from the files on this machine",
            "与此机器上文件的差异",
        ),
        (
            "%sentinel_commit PATH",
            "write them to the folder of this machine; globs work",
            "写入此机器上的文件夹；支持通配符",
        ),
        (
            "%sentinel_discard PATH",
            "drop them; --all drops everything that is held",
            "丢弃；--all 丢弃所有待提交文件",
        ),
        (
            "%sentinel_undo",
            "take back the files of the last cell that wrote any",
            "撤销上一个写入文件的单元格",
        ),
        ("%sentinel_export PATH", "a link to download one file", "下载某个文件的链接"),
        (
            "%%sentinel_dry_run",
            "first line of a cell: run it on a copy, show what it would change and reach, keep nothing",
            "单元格首行：在副本中运行，显示将更改的文件与将连接的主机，不保留任何结果",
        ),
    )
    return [(name, zh if chinese else english) for name, english, zh in rows]


NOTHING_NAMED = (
    "没有该名称的待提交文件（%sentinel_files 列出所有待提交文件）。",
    "Nothing of that name is held (%sentinel_files lists what is).",
)

INCOMPLETE = (
    "Not all that cells wrote could be followed: an undo may leave some of it (%sentinel_files lists what is held).",
    "单元格写入的内容未能全部跟踪：撤销可能会留下其中一部分（%sentinel_files 列出待提交的文件）。",
)


# --- notices of a cell's end


def held(count: int, size: int) -> Words:
    """Return the one notice of a session that files are held."""
    pronoun, verb = ("it", "is") if count == 1 else ("them", "are")
    return Words(
        f"{files(count, chinese=False)} that cells changed {verb} held in the sandbox ({size_text(size)}): nothing "
        "that was there before has changed on this machine.",
        f"单元格更改的 {count} 个文件保留在沙箱中（{size_text(size)}）：此机器上原有的文件均未改变。",
        f"%sentinel_files lists {pronoun}, --diff shows what differs, %sentinel_commit writes {pronoun} to this "
        "machine. This is said once; the gauge (%sentinel_gauge) goes on counting.",
        "%sentinel_files 列出它们，--diff 显示差异，%sentinel_commit 写入此机器。"
        "此提示只出现一次；仪表（%sentinel_gauge）会继续计数。",
    )


_WAITING = {
    "model": (
        "a model or pickle: loading it runs code in it",
        "加载模型或 pickle 会运行其中的代码",
    ),
    "settings": (
        "it says what a program is to run, load or fetch: programs of this machine may follow it",
        "其中写明了程序要运行、加载或下载的内容，此机器上的程序可能会照做",
    ),
    "sparse": ("it says to be far longer than what is stored of it", "它声称的长度远大于实际存储的内容"),
    "option": (
        "its name begins with - or ~: programs may take it for an option",
        "其名称以 - 或 ~ 开头，程序可能把它当作选项",
    ),
    "waits": (
        "programs of this machine may run it, or follow it",
        "此机器上的程序可能会运行或读取它",
    ),
}


def waiting(count: int, code: object) -> Words:
    """Return the notice that new files wait for the person, for the reason ``code`` (policy/committable.py)."""
    why = _WAITING.get(str(code), _WAITING["waits"])
    pronoun, verb = ("it", "is") if count == 1 else ("them", "are")
    return Words(
        f"{count} new {'file' if count == 1 else 'files'} {verb} held in the sandbox ({why[0]}).",
        f"{count} 个新文件保留在沙箱中（{why[1]}）。",
        f"%sentinel_commit NAME writes {pronoun} to this machine. This is said once; plain data (csv, json, "
        "png, parquet ...) is saved by itself, and %sentinel_files lists what is held.",
        "%sentinel_commit 文件名 会将其写入此机器。此提示只出现一次；纯数据（csv、json、png、parquet 等）"
        "会自动保存，%sentinel_files 会列出待提交的文件。",
    )


def saved(count: int) -> Words:
    """Return the notice that new files were committed by themselves, for the first time."""
    verb, kind, pronoun = ("was", "new file", "it") if count == 1 else ("were", "new files", "them")
    return Words(
        f"{count} {kind} {verb} saved on this machine, where the cell wrote {pronoun}.",
        f"{count} 个新文件已保存到此机器上单元格写入的位置。",
        f"%sentinel_undo takes {pronoun} back. This is said once; new data files are saved at each cell's end.",
        "%sentinel_undo 可以撤销。此提示只出现一次；之后每个单元格结束时都会保存新的数据文件。",
    )


def made(count: int) -> Words:
    """Return the notice that new folders were made with no file in them, for the first time."""
    verb, pronoun = ("was", "it") if count == 1 else ("were", "them")
    return Words(
        f"{count} new {folder_word(count)} with no files {verb} made on this machine, where the cell made {pronoun}.",
        f"{count} 个不含文件的新文件夹已在此机器上创建，位置与单元格中相同。",
        f"%sentinel_undo takes {pronoun} back. This is said once; new folders are made at each cell's end, up to a "
        "thousand with no files in them.",
        "%sentinel_undo 可以撤销。此提示只出现一次；之后每个单元格结束时都会创建新文件夹（不含文件的最多一千个）。",
    )


def not_looked_at() -> Words:
    """Return the notice that the process that deals with changed files has failed, twice in a row."""
    return Words(
        "What cells have changed could not be looked at: the process for that ended, and once more. It stays in the "
        "sandbox, new files may not have got to this machine, and %sentinel_undo does not know this cell.",
        "无法查看单元格的更改：负责处理的进程连续两次结束。更改保留在沙箱中，新文件未写入此机器，"
        "%sentinel_undo 也不知道此单元格。",
        "Run another cell, or %sentinel_files, to have it tried again. What is still held when the kernel ends is "
        "saved (`sentinel-kernel artifacts list` in a terminal). The kernel's log has the reason.",
        "运行另一个单元格或 %sentinel_files 会再次尝试。内核结束时仍保留的文件会被保存"
        "（在终端中运行 `sentinel-kernel artifacts list`）。原因见内核日志。",
    )


def in_own(place: str, count: int) -> Words:
    """Return the notice, one for each folder, that files lie in the sandbox's own ``home`` or ``tmp``."""
    verb, pronoun = ("lies", "it") if count == 1 else ("lie", "them")
    english, chinese = {
        "home": ("copy of the home folder", "主目录副本"),
        "tmp": ("/tmp, beside or above the notebook's folder", " /tmp（笔记本文件夹的旁边或上级）"),
    }[place]
    return Words(
        f"{files(count, chinese=False)} of this cell {verb} in the sandbox's own {english}: "
        "nothing there reaches this machine, and a restart, a reset or the kernel's end deletes it.",
        f"此单元格有 {count} 个文件写在沙箱自己的{chinese}中：那里的内容不会到达此机器，"
        "重启、重置或内核结束时会被删除。",
        f"Write {pronoun} to the notebook's folder instead (a plain name such as results.csv), or move {pronoun} there "
        'with shutil.move(PATH, "."). This is said once for each folder; %sentinel_files lists them all.',
        '请改为写入笔记本所在文件夹（例如直接使用 results.csv），或用 shutil.move(路径, ".") 移到那里。'
        "每个文件夹只提示一次；%sentinel_files 会列出全部。",
    )


def lying_in_own(count: int, paths: Sequence[object], *, chinese: bool) -> str:
    """Return the line of the list of what is held about files that nothing holds."""
    listed = named(paths, count, chinese=chinese)
    if chinese:
        return (
            f"另有 {count} 个文件写在沙箱自己的主目录或临时文件夹中（笔记本文件夹的旁边或上级），会随沙箱一起消失："
            f"{listed}"
        )
    lies, goes = ("lies", "goes") if count == 1 else ("lie", "go")
    return (
        f"{files(count, chinese=False)} {lies} in the sandbox's own home or temporary folder, beside the notebook's, "
        f"and {goes} with the sandbox: {listed}"
    )


def conflicts(count: int) -> Words:
    """Return the notice that the host's files changed after a cell wrote its own."""
    return Words(
        f"{files(count, chinese=False)} changed on both sides, in a cell and on this machine. Both versions are kept.",
        f"{count} 个文件在单元格和此机器上都被更改。两个版本都已保留。",
        "%sentinel_files --diff shows the difference; %sentinel_commit puts the cell's version beside the machine's, "
        "%sentinel_discard drops the cell's.",
        "%sentinel_files --diff 显示差异；%sentinel_commit 把单元格的版本放在此机器的版本旁边，"
        "%sentinel_discard 丢弃单元格的版本。",
    )


def not_saved(count: int, code: object) -> Words:
    """Return the notice that new files could not be committed by themselves, for the reason ``code``."""
    return Words(
        f"{files(count, chinese=False)} could not be saved on this machine "
        f"({reason(code, chinese=False)}), and {'is' if count == 1 else 'are'} held in the sandbox instead.",
        f"{count} 个文件未能保存到此机器（{reason(code, chinese=True)}），保留在沙箱中。",
        f"{hint_for(code, chinese=False)} This is said once; %sentinel_files lists what is held.".strip(),
        f"{hint_for(code, chinese=True)}此提示只出现一次；%sentinel_files 会列出待提交的文件。",
    )
