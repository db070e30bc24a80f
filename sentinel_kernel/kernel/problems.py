"""Why there is no sandbox, where the host itself found out: words for the supervisor's and the worker's failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.unavailable import Problem

if TYPE_CHECKING:
    from sentinel_kernel.errors import SentinelError
    from sentinel_kernel.kernel.wire import Json

_DOCTOR_EN = "Run `sentinel-kernel doctor` in a terminal: it tries each mechanism and names the repair."
_DOCTOR_ZH = "请在终端运行 `sentinel-kernel doctor`：它会逐项检查并给出修复方法。"


def refused_start(message: str) -> Problem:
    """Return the problem of a start request that was answered with no."""
    return Problem("start", None, message, message, _DOCTOR_EN, _DOCTOR_ZH)


def forbidden(error: SentinelError) -> Problem:
    """Return the problem of a lab's configuration that stops every sandbox."""
    return Problem("lab_configuration", None, error.message, error.message, error.remedy, error.remedy)


def no_supervisor(reason: str) -> Problem:
    """Return the problem of a supervisor that can't be started or did not last."""
    return Problem(
        "supervisor",
        None,
        f"The supervisor, which makes the sandbox, did not work: {reason}",
        f"负责建立沙箱的监管进程未能工作：{reason}",
        _DOCTOR_EN,
        _DOCTOR_ZH,
    )


def no_answer(seconds: float) -> Problem:
    """Return the problem of a worker that is there and says nothing."""
    return Problem(
        "worker_answer",
        None,
        f"The sandboxed Python did not answer within {seconds:g} s.",
        f"沙箱中的 Python 在 {seconds:g} 秒内没有应答。",
        "Check that ipykernel 7.2 or newer is installed: python -m pip install -U ipykernel",
        "请确认此 Python 已安装 ipykernel 7.2 或更新版本：python -m pip install -U ipykernel",
    )


def dies_at_start(cause: Json, times: int) -> Problem:
    """Return the problem of a worker that ends again and again before it answers."""
    if cause.get("kind") == "signal":
        how_en, how_zh = f"signal {cause.get('signal')}", f"信号 {cause.get('signal')}"
    else:
        how_en, how_zh = f"exit status {cause.get('status')}", f"退出状态 {cause.get('status')}"
    return Problem(
        "start_worker",
        None,
        f"The sandboxed Python ended {times} times while it started ({how_en}).",
        f"沙箱中的 Python 在启动过程中 {times} 次退出（{how_zh}）。",
        "Look at the arguments in the kernel's kernel.json: those behind the connection file go to ipykernel, and a "
        "path among them must exist inside the sandbox.",
        "请检查内核 kernel.json 中的参数：连接文件之后的参数会传给 ipykernel，其中的路径必须在沙箱内存在。",
    )
