"""Changes a cell so that its pools of workers stay within the limit of processes and threads."""

from __future__ import annotations

import ast

from sentinel_kernel.policy.change import Change
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.cell_source import CellSource, Edit

_POOLS = {
    "ThreadPoolExecutor": "max_workers",
    "ProcessPoolExecutor": "max_workers",
    "Pool": "processes",
    "ThreadPool": "processes",
    "Parallel": "n_jobs",
}
"""The pool's class -> its argument that says how many workers, which is the first one too."""

_TOGETHER = frozenset(("Barrier", "threading.Barrier", "multiprocessing.Barrier", ".Barrier", ".barrier"))
_MOST_WORKERS = 32


def smaller_pools(cell: CellSource, allowed: float | None) -> Change | None:
    """Return the change that bounds each pool to what ``allowed`` tasks leave room for, None without a pool.

    A pool whose workers wait for each other (a barrier) needs all of them, and is left alone.
    """
    most = max(1, min(_MOST_WORKERS, int((allowed or 2 * _MOST_WORKERS) // 4)))
    if any(name in _TOGETHER for _, name in cell.calls()):
        return None
    edits: list[Edit] = []
    for call, name in cell.calls():
        argument = _POOLS.get(name.rpartition(".")[2])
        if argument is None:
            continue
        size = next((word.value for word in call.keywords if word.arg == argument), None)
        size = size if size is not None else next(iter(call.args), None)
        if size is None or isinstance(size, ast.Starred):
            continue
        if isinstance(size, ast.Constant):
            if isinstance(size.value, int) and not isinstance(size.value, bool) and size.value > most:
                edits.append(cell.replace(size, str(most)))
        elif not isinstance(size, ast.UnaryOp):
            edits.append(cell.replace(size, f"min({cell.segment(size)}, {most})"))
    if not edits:
        return None
    return Change(
        cell.changed(edits),
        f"Use at most {most} workers",
        Text(
            f"{most} workers fit into the limit of processes and threads; the work is shared among them.",
            f"{most} 个并行工作单元不会超出进程和线程数限制；任务由它们分担。",
        ),
    )
