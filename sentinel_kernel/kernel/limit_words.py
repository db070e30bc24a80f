"""What a person is told of a limit that was reached: which, how much, by whose word, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.words import LOST_EN, LOST_ZH, Words
from sentinel_kernel.policy.sizes_in_words import amount

if TYPE_CHECKING:
    from sentinel_kernel.kernel.wire import Json

MAGIC = {
    "memory": "memory",
    "cpu_seconds": "cpu_seconds",
    "wall_seconds": "wall",
    "pids": "pids",
    "disk": "disk",
    "tmp": "tmp",
    "shm": "shm",
    "file_size": "file_size",
    "open_files": "open_files",
    "output": "output",
}
"""Limit -> the name that `%sentinel_limit` takes."""

_REFUSED = {
    "memory": (
        "The memory that this cell asked for would be more than the sandbox's {allowed}: it got MemoryError.",
        "此单元格请求的内存超出了沙箱的上限 {allowed}：它得到了 MemoryError。",
        "The variables are kept. Delete what is no longer needed (del name), or work on the data in pieces",
        "变量均已保留。请删除不再需要的数据（del 名称），或分块处理数据",
    ),
    "pids": (
        "No further process or thread could be started: the sandbox may have {allowed} of both together{used}.{ended}",
        "无法再启动新的进程或线程：沙箱中二者合计最多 {allowed} 个{used}。{ended}",
        "Use fewer workers (n_jobs, max_workers, num_workers), and end those that are done",
        "请减少并行数量（n_jobs、max_workers、num_workers），并结束已完成的进程和线程",
    ),
    "disk": (
        "The room for new and changed files (notebook's folder, Python environment) is full: {allowed}{used}.",
        "用于存放改动和新增文件的空间（笔记本所在文件夹与 Python 环境）已满：{allowed}{used}。",
        "Remove files that cells have written and that are not needed",
        "请删除单元格写入的、不再需要的文件",
    ),
    "tmp": (
        "The folder {place} is full: {allowed}{used}.",
        "文件夹 {place} 已满：{allowed}{used}。",
        "Remove files from it that are not needed, or write to the notebook's folder",
        "请删除其中不需要的文件，或改为写入笔记本所在文件夹",
    ),
    "shm": (
        "The shared memory in /dev/shm is full: {allowed}{used}.",
        "共享内存 /dev/shm 已满：{allowed}{used}。",
        "Use smaller shared arrays or fewer workers, and unlink() shared memory that is done",
        "请使用更小的共享数组或更少的并行进程，并对用完的共享内存调用 unlink()",
    ),
    "file_size": (
        "A file would have become larger than the sandbox allows one file to be: {allowed}.",
        "文件将超过沙箱允许的单个文件大小：{allowed}。",
        "Write several smaller files",
        "请写成多个较小的文件",
    ),
    "open_files": (
        "The limit of open files and connections of one process was reached: {allowed}.",
        "已达到单个进程可打开的文件和连接数上限：{allowed}。",
        "Close files when they are done (with open(...) as file: does), and keep fewer open at once",
        "请及时关闭文件（使用 with open(...) as file:），减少同时打开的数量",
    ),
    "output": (
        "This cell's output was cut: it printed and displayed more than {allowed}. The cell itself goes on.",
        "此单元格的输出已被截断：其打印和显示的内容超过了 {allowed}。单元格本身仍在运行。",
        "Print less, or write it to a file; the interrupt button ends a cell that never stops printing",
        "请减少打印内容，或写入文件；如果单元格不停打印，可点击中断按钮",
    ),
}
_FULL_OF_NAMES = (
    "There is no room for the name of another file in {place}: it may hold {allowed} files and folders{used}.",
    "{place} 已无法再创建文件：最多可存放 {allowed} 个文件和文件夹{used}。",
    "Remove files that are not needed, or put many small ones into one archive",
    "请删除不需要的文件，或将许多小文件合并为一个归档文件",
)
_SOME_FOLDER = (
    "A folder of the sandbox is full. {detail}.",
    "沙箱中的某个文件夹已满。{detail}。",
    "Remove files that cells have written and that are not needed",
    "请删除单元格写入的、不再需要的文件",
)
_INTERRUPTED = {
    "wall_seconds": (
        "This cell ran for the {allowed} that a cell may take, and was interrupted.",
        "此单元格已运行满允许的 {allowed}，已被中断。",
    ),
    "cpu_seconds": (
        "This cell used the {allowed} of processor time that a cell may take, and was interrupted.",
        "此单元格已用完允许的 {allowed} 处理器时间，已被中断。",
    ),
}
_NEXT_EN = "The variables are kept. If it does not end within {grace}, the session is ended"
_NEXT_ZH = "变量均已保留。若它在 {grace} 内没有结束，会话将被终止"
_KILLED = {
    "wall_seconds": (
        "The cell went on after it was interrupted for running longer than {allowed}, and was killed.",
        "单元格因运行超过 {allowed} 被中断后仍未结束，已被强制终止。",
    ),
    "cpu_seconds": (
        "The cell went on after it was interrupted for using more than {allowed} of processor time, and was killed.",
        "单元格因使用超过 {allowed} 的处理器时间被中断后仍未结束，已被强制终止。",
    ),
    "memory": (
        "The sandboxed Python was killed: it used {used_plain} of memory, and {allowed} are allowed.",
        "沙箱中的 Python 已被强制终止：它使用了 {used_plain} 内存，而上限为 {allowed}。",
    ),
    "shm": (
        "Shared memory was written when /dev/shm was full ({allowed}): the sandboxed Python was ended by SIGBUS.",
        "在 /dev/shm 已满（{allowed}）时写入共享内存：沙箱中的 Python 因 SIGBUS 而终止。",
    ),
    "tmp": (
        "A mapped file in memory (/tmp or HOME) was written when {allowed} were full: Python was ended by SIGBUS.",
        "内存中的映射文件（/tmp 或 HOME）在 {allowed} 已满时被写入：Python 因 SIGBUS 而终止。",
    ),
    "disk": (
        "A mapped file was written when the room for held files ({allowed}) was full: Python was ended by SIGBUS.",
        "在存放改动文件的空间（{allowed}）已满时写入映射文件：Python 因 SIGBUS 而终止。",
    ),
}


def limit_reached(limit: Json) -> Words:
    """Return the words for a limit of the event ``limit`` whose worker lives on."""
    name, stage = str(limit.get("name")), limit.get("stage")
    if name == "left_running":
        return _left_running(limit)
    if _lacks_machine(limit):
        message_en, message_zh = _OF_MACHINE.get(str(stage), _OF_MACHINE["refused"])
        _, _, hint_en, hint_zh = _REFUSED["memory"]
    elif stage == "interrupt" and name in _INTERRUPTED:
        message_en, message_zh = _INTERRUPTED[name]
        hint_en, hint_zh = _NEXT_EN, _NEXT_ZH
    elif name == "memory" and stage == "soft":
        message_en, message_zh = _SOFT_MEMORY
        _, _, hint_en, hint_zh = _REFUSED["memory"]
    elif name == "memory" and stage == "kill":
        message_en, message_zh = _CHILD_KILLED
        _, _, hint_en, hint_zh = _REFUSED["memory"]
    elif limit.get("detail") == "inodes":
        message_en, message_zh, hint_en, hint_zh = _FULL_OF_NAMES
    elif not limit.get("allowed") and name in ("disk", "tmp", "shm"):
        message_en, message_zh, hint_en, hint_zh = _SOME_FOLDER
    else:
        message_en, message_zh, hint_en, hint_zh = _REFUSED.get(name, _SOME_FOLDER)
    if limit.get("said") is True:
        message_en, message_zh = _SAID_EN + message_en, _SAID_ZH + message_zh
    return _words(limit, (message_en, message_zh, hint_en, hint_zh))


_SAID_EN = "The cell says so, and what was measured does not show it: "
_SAID_ZH = "这是单元格自己的说法，测量结果未能证实："
_SOFT_MEMORY = (
    "The sandbox came near its {allowed} of memory{used}: this cell got MemoryError, so that nothing had to be killed.",
    "沙箱的内存接近上限 {allowed}{used}：此单元格得到了 MemoryError，因此无需强制终止任何进程。",
)
_CHILD_KILLED = (
    "A process of this cell was killed: the sandbox used {used_plain} of memory, and {allowed} are allowed.",
    "此单元格启动的一个进程已被强制终止：沙箱使用了 {used_plain} 内存，而上限为 {allowed}。",
)


_MACHINE_EN = "The machine has too little memory left, so that the sandbox may use less than its limit. "
_MACHINE_ZH = "这台计算机的剩余内存不足，因此沙箱可用的内存低于其上限。"
_ELSEWHERE_EN = ". Closing other notebooks and programs gives the machine memory back."
_ELSEWHERE_ZH = "。关闭其他笔记本和程序可以释放内存。"
_OF_MACHINE = {
    "soft": (
        "Of the {allowed} that it may use now, {used_plain} were in use: this cell got MemoryError.",
        "目前可用 {allowed}，已用 {used_plain}：此单元格得到了 MemoryError。",
    ),
    "kill": (
        "A process of this cell was killed: {used_plain} were in use, of {allowed} that there were.",
        "此单元格启动的一个进程已被强制终止：当时可用 {allowed}，已用 {used_plain}。",
    ),
    "refused": (
        "This cell asked for more than the {allowed} that it may use now, and got MemoryError.",
        "此单元格请求的内存超出了目前可用的 {allowed}，得到了 MemoryError。",
    ),
    "death": (
        "The sandboxed Python was killed: {used_plain} were in use, of {allowed} that there were.",
        "沙箱中的 Python 已被强制终止：当时可用 {allowed}，已用 {used_plain}。",
    ),
}
"""Stage -> what is said where the machine is short: the profile's limit, raised or not, would change nothing."""


def _lacks_machine(limit: Json) -> bool:
    return limit.get("name") == "memory" and limit.get("machine") is True


def limit_death(limit: Json) -> Words:
    """Return the words for the death of the worker by ``limit``."""
    message_en, message_zh = _KILLED.get(
        str(limit.get("name")), ("A limit of the sandbox was passed.", "超出了沙箱的限制。")
    )
    if _lacks_machine(limit):
        message_en, message_zh = _OF_MACHINE["death"]
    again_en = "A new sandbox takes over: run the cells that define your variables again"
    again_zh = "新的沙箱会接替它：请重新运行定义变量的单元格"
    told = _words(limit, (message_en, message_zh, again_en, again_zh))
    return Words(f"{told.message_en} {LOST_EN}", f"{told.message_zh}{LOST_ZH}", told.hint_en, told.hint_zh)


def _left_running(limit: Json) -> Words:
    detail = str(limit.get("detail") or "?")[:100]
    return Words(
        f"A cell left a process behind that goes on in the background: {detail}.",
        f"有单元格留下了仍在后台运行的进程：{detail}。",
        "It is still in the sandbox, held to the same limits, and ends with it: %sentinel_reset or a restart ends it "
        "now.",
        "它仍在沙箱内，受同样的限制，并随沙箱结束：可用 %sentinel_reset 或重启立即结束它。",
    )


def _words(limit: Json, texts: tuple[str, str, str, str]) -> Words:
    english, chinese = _facts(limit, chinese=False), _facts(limit, chinese=True)
    message_en, message_zh, hint_en, hint_zh = texts
    if _lacks_machine(limit):
        return Words(
            f"{_MACHINE_EN}{message_en.format(**english)}",
            f"{_MACHINE_ZH}{message_zh.format(**chinese)}",
            f"{hint_en}{_ELSEWHERE_EN}",
            f"{hint_zh}{_ELSEWHERE_ZH}",
        )
    profile = str(limit.get("profile") or "")[:60]
    own = bool(limit.get("own"))
    more_en, more_zh = _more(str(limit.get("name")))
    whose_en = "set with %sentinel_limit" if own else f"profile {profile}"
    whose_zh = "由 %sentinel_limit 设定" if own else f"配置 {profile}"
    return Words(
        f"{message_en.format(**english).removesuffix('.')} ({whose_en}).",
        f"{message_zh.format(**chinese).removesuffix('。')}（{whose_zh}）。",
        f"{hint_en.format(**english)}{more_en}",
        f"{hint_zh.format(**chinese)}{more_zh}",
    )


def _facts(limit: Json, *, chinese: bool) -> dict[str, str]:
    """Return what the texts have places for."""
    unit, used = str(limit.get("unit") or "count"), limit.get("used")
    used_text = amount(used, unit, chinese=chinese)
    shows = isinstance(used, int | float) and used > 0
    in_use = f"，已用 {used_text}" if chinese else f" ({used_text} in use)"
    ended = limit.get("ended")
    ended_text = ""
    if isinstance(ended, int) and ended > 0:
        ended_text = (
            f"已结束此单元格启动的 {ended} 个进程，以便其他进程可以启动。"
            if chinese
            else f" The {ended} that this cell had started were ended, so that others can start."
        )
    return {
        "ended": ended_text,
        "allowed": amount(limit.get("allowed"), unit, chinese=chinese),
        "used_plain": used_text,
        "used": in_use if shows else "",
        "place": str(limit.get("place") or "/tmp")[:100],
        "detail": str(limit.get("detail") or "")[:200],
        "grace": amount(limit.get("grace_seconds"), "seconds", chinese=chinese),
    }


def _more(name: str) -> tuple[str, str]:
    """Return what to type for more of it."""
    magic = MAGIC.get(name)
    if magic is None:
        return ".", "。"
    return (
        f"; %sentinel_limit shows what is in force, %sentinel_limit {magic}=... at a cell's top sets it.",
        f"；%sentinel_limit 可查看当前限制，在单元格开头用 %sentinel_limit {magic}=... 可以调整。",
    )
