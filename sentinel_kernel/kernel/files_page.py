"""`%sentinel_files` and what the other file magics answer: tables of what is held, done, failed.

Every path is the cell's own word: it is shown escaped and cut.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sentinel_kernel.kernel import files_reasons, files_words, rendering
from sentinel_kernel.kernel.violations_page import seen
from sentinel_kernel.policy.mime import FILES_TYPE
from sentinel_kernel.policy.sizes_in_words import size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.kernel.rendering import Part
    from sentinel_kernel.kernel.wire import Json
    from sentinel_kernel.kernel.words import Words

VERSION = 1
_ARTIFACT_CHARACTERS = frozenset("0123456789abcdef-")
_COLUMNS = (
    ("file", "文件"),
    ("change", "更改"),
    ("size", "大小"),
    ("on this machine", "此机器上"),
    ("note", "备注"),
)
_MOST_ROWS = 200
_MOST_DATA = 1000


def held_page(
    answer: Json, own: Json, earlier: Sequence[Words] = (), *, named: bool = False, chinese: bool
) -> Json:
    """Return the bundle of the table of what is held; ``answer`` is that of ``list``, of paths that were ``named``.

    ``own`` says what lies in the sandbox's own folders (FilesEntry.own), which is held by nothing; ``earlier`` where
    the files of sandboxes that have ended are.
    """
    entries = _entries(answer)
    lying, paths = _number(own, "count"), _texts(own, "paths")
    unheld = [files_words.lying_in_own(lying, paths, chinese=chinese)] if lying and not named else []
    language = "zh" if chinese else "en"
    for told in earlier:
        unheld += [told.message(language), f"HINT → {told.hint(language)}"]
    title = "Sentinel：单元格写入的文件" if chinese else "Sentinel: files that cells wrote"
    if not entries:
        nothing = (
            "没有待提交的文件：此机器上的文件夹与单元格现在看到的一致。",
            "Nothing is held: the folder on this machine is as the cells see it now.",
        )
        said = (files_words.NOTHING_NAMED if named else nothing)[not chinese]
        return rendering.page_bundle(title, [], [said, *unheld])
    rows = [_row(entry, chinese=chinese) for entry in entries[:_MOST_ROWS]]
    count, size = _number(answer, "count"), _number(answer, "bytes")
    notes = [_total(count, size, chinese=chinese)]
    more = count - len(rows)
    if more > 0:
        notes.append(
            f"另有 {more} 个未列出；请指定路径或通配符。"
            if chinese
            else f"{more} more {'is' if more == 1 else 'are'} not listed; name a path or a glob such as results/*.csv."
        )
    if left_out := _number(answer, "left_out"):
        notes.append(
            f"还有 {left_out} 个超出可查看的数量。"
            if chinese
            else f"{left_out} more lie beyond what is looked at."
        )
    notes.append(
        "%sentinel_files --diff 显示差异，%sentinel_commit [路径] 写入文件夹，%sentinel_discard [路径] 丢弃。"
        if chinese
        else "%sentinel_files --diff shows what differs, %sentinel_commit [PATH] writes to the folder, "
        "%sentinel_discard [PATH] drops."
    )
    notes += unheld
    header = [zh if chinese else english for english, zh in _COLUMNS]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return rendering.columns_bundle(title, header, rows, notes, first=files_words.PATH_CHARACTERS)


def held_data(answer: Json, own: Json) -> Json:
    """Return the bundle of what is held as data; ``unheld`` is what lies in the sandbox's own folders."""
    fields = ("path", "layer", "folder", "kind", "is_folder", "size", "host_size", "conflict", "committable")
    entries = [
        {name: _plain(entry.get(name)) for name in fields if name in entry} for entry in _entries(answer)
    ]
    document = {
        "version": VERSION,
        "count": _number(answer, "count"),
        "bytes": _number(answer, "bytes"),
        "files": entries[:_MOST_DATA],
        "unheld": {"count": _number(own, "count"), "paths": [_plain(path) for path in _texts(own, "paths")]},
    }
    text = seen(json.dumps(document, ensure_ascii=False, indent=1))
    return {FILES_TYPE: document, "application/json": document, "text/plain": text}


def done_page(name: str, answer: Json, *, chinese: bool) -> Json:
    """Return the bundle that tells what a commit (or discard, undo) did; ``name`` is the answer's field."""
    titles = {
        "committed": ("Sentinel: written to the folder", "Sentinel：已写入文件夹"),
        "discarded": ("Sentinel: dropped", "Sentinel：已丢弃"),
        "undone": ("Sentinel: taken back", "Sentinel：已撤销"),
    }
    nothing = {
        "committed": files_words.NOTHING_NAMED[::-1],
        "discarded": files_words.NOTHING_NAMED[::-1],
        "undone": ("There was nothing to take back.", "没有可撤销的内容。"),
    }
    done = answer.get(name)
    done = done if isinstance(done, dict) else {}
    files, size, folders = (_number(done, field) for field in ("count", "bytes", "folders"))
    count = files + folders
    parts: list[Part] = []
    notes: list[str] = []
    paths = [path for path in done.get("paths") or () if isinstance(path, str)]
    if count:
        rows = [[files_words.shown_path(path)] for path in paths]
        head = _of_both(files, size, folders, chinese=chinese)
        parts.append(rendering.columns_part([head], rows))
        if count > len(paths):
            more = count - len(paths)
            notes.append(
                f"另有 {more} 个。" if chinese else f"{more} more {'is' if more == 1 else 'are'} not named."
            )
    failed = answer.get("failed")
    failed = failed if isinstance(failed, dict) else {}
    if _number(failed, "count"):
        parts += _failed_parts(failed, notes, chinese=chinese)
    elif not count and not _number(answer, "aside"):
        notes.append(files_reasons.say(nothing[name], chinese=chinese))
    unmet = answer.get("unmet")
    if isinstance(unmet, dict) and (
        absent := [path for path in unmet.get("paths") or () if isinstance(path, str)]
    ):
        said = _not_held(unmet, absent, _number(unmet, "count"), chinese=chinese)
        notes.append(f"{said}。" if chinese else f"{said[0].upper()}{said[1:]}.")
    notes += _after(name, answer, chinese=chinese)
    return rendering.page_bundle(files_reasons.say(titles[name], chinese=chinese), parts, notes)


def _of_both(files: int, size: int, folders: int, *, chinese: bool) -> str:
    """Return how many files, of how many bytes, and how many folders by themselves."""
    told = [f"{files_words.files(files, chinese=chinese)} ({size_text(size)})"] if files else []
    if folders:
        told.append(f"{folders} 个文件夹" if chinese else f"{folders} {files_words.folder_word(folders)}")
    return ("、" if chinese else " and ").join(told)


def failure_text(answer: Json, typed: Sequence[str] = (), *, chinese: bool) -> str:
    """Return why a request about the paths that were ``typed`` was not carried out, and what to do."""
    code = answer.get("code")
    told = files_reasons.reason(code, chinese=chinese)
    if code == "no_such_path" and typed:
        told = _not_held(answer, typed, len(typed), chinese=chinese)
    if code == "not_kept" and isinstance(unkept := answer.get("unkept"), dict):
        told = _unkept(unkept, chinese=chinese)
    if code == "unseen" and isinstance(unseen := answer.get("unseen"), dict):
        count, paths = _number(unseen, "count"), _texts(unseen, "paths")
        told += ("：" if chinese else ": ") + files_words.named(paths, count, chinese=chinese, mark="`")
    hint = files_reasons.hint_for(code, chinese=chinese)
    near = [path for path in answer.get("near") or () if isinstance(path, str)]
    if near:
        # As a folder that a cell has gone to is not what paths are taken from.
        named = files_words.named(near, len(near), chinese=chinese, mark="`")
        told = (
            f"{told}（路径从笔记本所在文件夹算起，与 os.chdir 无关）"
            if chinese
            else f"{told}: paths are taken from the notebook's folder, wherever os.chdir has gone"
        )
        hint = f"请输入完整路径：{named}" if chinese else f"Type the path from there: {named}"
    text = f"未执行：{told}。" if chinese else f"Not done: {told}."
    return f"{text} HINT → {hint}" if hint else text


def _unkept(unkept: Json, *, chinese: bool) -> str:
    """Return of which files no copy could be kept, and why."""
    count, size, room = (_number(unkept, name) for name in ("count", "bytes", "room"))
    named = files_words.named(_texts(unkept, "paths"), count, chinese=chinese, mark="`")
    full = size_text(room) if size > room else ""
    return files_reasons.unkept(named, count, full, chinese=chinese)


def _not_held(answer: Json, typed: Sequence[str], count: int, *, chinese: bool) -> str:
    """Return of each of the ``count`` paths that were typed why nothing can be done with it: it is saved, or not known.

    ``typed`` are all of them, or the first ones.
    """
    settled = [path for path in answer.get("settled") or () if path in typed]
    absent = [path for path in typed if path not in settled]
    told = []
    if settled:
        named = files_words.named(settled, len(settled), chinese=chinese, mark="`")
        told.append(files_reasons.settled(named, len(settled), chinese=chinese))
    if absent:
        named = files_words.named(absent, count - len(settled), chinese=chinese, mark="`")
        told.append(files_reasons.not_held(named, chinese=chinese))
    return ("；" if chinese else "; ").join(told)


def _failed_parts(failed: Json, notes: list[str], *, chinese: bool) -> list[Part]:
    entries = [entry for entry in failed.get("paths") or () if isinstance(entry, dict)]
    rows = [
        [files_words.path_of(entry), files_reasons.reason(entry.get("why"), chinese=chinese)]
        for entry in entries
    ]
    count = _number(failed, "count")
    heading = f"未处理（{count} 个）" if chinese else f"Left as they were: {count}"
    hints = dict.fromkeys(files_reasons.hint_for(entry.get("why"), chinese=chinese) for entry in entries)
    notes += [f"HINT → {hint}" for hint in hints if hint]
    header = ["文件", "原因"] if chinese else ["file", "why"]
    return [
        rendering.heading_part(heading),
        rendering.columns_part(header, rows, first=files_words.PATH_CHARACTERS),
    ]


def _after(name: str, answer: Json, *, chinese: bool) -> list[str]:
    """Return what is still held, and what can still be taken back."""
    notes = []
    beside = [path for path in answer.get("beside") or () if isinstance(path, str)]
    if beside:
        named = files_words.named(beside, len(beside), chinese=chinese)
        notes.append(
            f"此机器上也被更改，单元格的版本放在旁边：{named}" if chinese else f"Put beside: {named}"
        )
    if aside := _number(answer, "aside"):
        notes.append(
            f"未写入 {aside} 个字节码或检查点文件（程序会自行重新生成）；如需写入，请指定路径：%sentinel_commit 路径。"
            if chinese
            else f"Left out: {files_words.files(aside, chinese=False)} of bytecode or checkpoints, which programs make "
            "anew; %sentinel_commit PATH writes what is named."
        )
    held = _number(answer, "held")
    if held:
        notes.append(
            f"仍有 {held} 个文件保留在沙箱中（%sentinel_files）。"
            if chinese
            else f"Still held in the sandbox: {files_words.files(held, chinese=False)} (%sentinel_files)."
        )
    first, _, last = str(answer.get("cell") or "").partition("-")
    if all(number.isdecimal() and number.isascii() for number in (first, last or "0")):
        told = [part for part in (answer.get(name), answer.get("failed")) if isinstance(part, dict)]
        what = (
            "it" if sum(_number(part, "count") + _number(part, "folders") for part in told) == 1 else "them"
        )
        wrote = "wrote" if any(_number(part, "count") for part in told) else "made"
        if last:  # many files are held: they were not looked at between such cells
            said = (
                f"这些是单元格 [{first}] 到 [{last}] 的更改。",
                f"It was cells [{first}] to [{last}] that {wrote} {what}.",
            )
        else:
            said = f"这些是单元格 [{first}] 的更改。", f"It was cell [{first}] that {wrote} {what}."
        notes.insert(0, said[0] if chinese else said[1])
    kept = str(answer.get("kept") or "")
    if kept and set(kept) <= _ARTIFACT_CHARACTERS:
        command = f"sentinel-kernel artifacts restore {kept}"
        notes.append(
            f"被撤销的内容保留了副本：在终端中运行 {command} 可取回。"
            if chinese
            else f"A copy of what was taken back is kept: in a terminal, {command} brings it back."
        )
    steps = _number(answer, "steps")
    if name == "undone" and steps:
        notes.append(
            f"再次运行 %sentinel_undo 可继续撤销（还有 {steps} 步）。"
            if chinese
            else f"%sentinel_undo again takes back the files of the cell before ({steps} more)."
        )
    if answer.get("incomplete") is True:
        notes.append(files_reasons.say(files_words.INCOMPLETE, chinese=chinese))
    return notes


def _row(entry: Json, *, chinese: bool) -> list[str]:
    size, host_size = entry.get("size"), entry.get("host_size")
    kind = files_words.KINDS.get(str(entry.get("kind")))
    change = files_reasons.say(kind, chinese=chinese) if kind else rendering.printable(entry.get("kind"), 20)
    folder = entry.get("is_folder") is True
    return [
        files_words.path_of(entry) + ("/" if folder else ""),
        change,
        size_text(size) if isinstance(size, int) and size >= 0 and not folder else "-",
        size_text(host_size) if isinstance(host_size, int) and host_size >= 0 and not folder else "-",
        _note(entry, chinese=chinese),
    ]


def _note(entry: Json, *, chinese: bool) -> str:
    notes = []
    if entry.get("conflict") is True:
        notes.append("此机器上也已更改" if chinese else "changed on this machine too")
    if code := entry.get("committable") or entry.get("waits"):
        notes.append(files_words.why_held(code, chinese=chinese))
    return "; ".join(notes)


def _total(count: int, size: int, *, chinese: bool) -> str:
    if chinese:
        return f"共 {count} 个，{size_text(size)}；这些更改尚未写入此机器。"
    this = "this change is" if count == 1 else "these changes are"
    return f"{files_words.files(count, chinese=False)}, {size_text(size)}; {this} not on this machine yet."


def _entries(answer: Json) -> list[Json]:
    entries = answer.get("entries")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _number(answer: Json, name: str) -> int:
    value = answer.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _texts(answer: Json, name: str) -> list[str]:
    values = answer.get(name)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _plain(value: object) -> object:
    """Return a value of an entry for data: a text is cut, and holds no lone surrogate."""
    if isinstance(value, str):
        return value[:4096].encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def joined(answers: Sequence[Json]) -> Json:
    """Return one answer made of several pages of ``list``."""
    joined = dict(answers[0])
    joined["entries"] = [entry for answer in answers for entry in _entries(answer)]
    return joined
