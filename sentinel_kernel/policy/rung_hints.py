"""Words for what the landlock rung refuses, as no profile gives it there; pure."""

from __future__ import annotations

from sentinel_kernel.policy.path_attribution import ON_RUNG
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Violation


def words_on_rung(violation: Violation, leeway: Leeway) -> tuple[Text, Text] | None:
    """Return message and hint for what the rung refuses; None for what it does not."""
    remedy = Text(leeway.rung_words.get("remedy_en", ""), leeway.rung_words.get("remedy_zh", ""))
    full = Text(
        f"The full rung of isolation has it: {remedy.en} Then restart the kernel.",
        f"完整（full）隔离级别提供此功能：{remedy.zh} 然后重启内核。",
    )
    if violation.origin == "rung":
        return _call(violation), full
    if not violation.rule.startswith(ON_RUNG):
        return None
    of_machine = _of_machine(violation.subject.text if violation.subject is not None else "")
    if of_machine is not None:
        return of_machine
    output = leeway.rung_words.get("output", "")
    if violation.cause == "path_read_only":
        place_en = "os.environ['SENTINEL_OUTPUT'], which stays beside the notebook, or " if output else ""
        place_zh = "os.environ['SENTINEL_OUTPUT']（保留在笔记本旁），或写入 " if output else ""
        return (
            Text(
                "The path can't be written: on the landlock rung cells write to two folders alone.",
                "无法写入该路径：在 landlock 隔离级别，单元格只能写入两个文件夹。",
            ),
            Text(
                f"Write to {place_en}os.environ['TMPDIR'] (tempfile does), which goes with the kernel.",
                f"请写入 {place_zh}os.environ['TMPDIR']（tempfile 默认使用它，随内核消失）。",
            ),
        )
    return (
        Text(
            "The path exists, and is not among those that the sandbox may open.",
            "该路径存在，但不在沙箱可以打开的路径之列。",
        ),
        Text(
            "Put the file into the notebook's folder, or have a profile show its folder (filesystem.mounts).",
            "请把文件放到笔记本所在文件夹，或在配置中用 filesystem.mounts 显示其所在文件夹。",
        ),
    )


def _of_machine(path: str) -> tuple[Text, Text] | None:
    """Return the words for what is the machine's in /proc and /dev/shm, which no profile shows on this rung."""
    if is_within(path, "/proc"):
        return (
            Text(
                "/proc tells of the machine's processes: on the landlock rung it is closed, a program's own part too.",
                "/proc 会透露本机的进程：在 landlock 隔离级别它是关闭的，包括程序自身的部分。",
            ),
            Text(
                "Ask the program itself: resource.getrusage(resource.RUSAGE_SELF) for memory, time.process_time(), "
                "os.getpid(), threading.enumerate(). psutil.virtual_memory() and psutil.cpu_percent() work.",
                "请询问程序自身：内存用 resource.getrusage(resource.RUSAGE_SELF)，以及 time.process_time()、"
                "os.getpid()、threading.enumerate()。psutil.virtual_memory() 和 psutil.cpu_percent() 可用。",
            ),
        )
    if is_within(path, "/dev/shm"):
        return (
            Text(
                "/dev/shm is the machine's: on the landlock rung the sandbox has none of its own.",
                "/dev/shm 属于本机：在 landlock 隔离级别，沙箱没有自己的 /dev/shm。",
            ),
            Text(
                "Share memory by a file in os.environ['TMPDIR'] (mmap, numpy.memmap), or by "
                "multiprocessing.shared_memory; locks by multiprocessing's fork method "
                "(multiprocessing.get_context('fork')).",
                "请通过 os.environ['TMPDIR'] 中的文件（mmap、numpy.memmap）或 multiprocessing.shared_memory 共享内存；"
                "锁请使用 multiprocessing 的 fork 方式（multiprocessing.get_context('fork')）。",
            ),
        )
    return None


def _call(violation: Violation) -> Text:
    name = violation.syscall or "the call"
    return Text(
        f"The call {name} was refused: on the landlock rung it would reach what is the machine's.",
        f"调用 {name} 被拒绝：在 landlock 隔离级别，它会触及本机共用的资源。",
    )
