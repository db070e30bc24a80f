"""The host's own answers where there is no sandbox: every request gets one, so that no client hangs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel import __version__
from sentinel_kernel.record import Record

if TYPE_CHECKING:
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.outbox import Outbox
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json

_TEXT_CHARACTERS = 4000


class Problem(Record):
    """Why no sandbox can be set up: the failed step, its errno, cause and repair in both languages."""

    step: str
    errno: int | None
    cause_en: str
    cause_zh: str
    remedy_en: str
    remedy_zh: str

    @classmethod
    def from_event(cls, event: Json) -> Problem:
        """Return the problem in an ``unavailable`` event; what is missing in it is left empty."""

        def text(key: str) -> str:
            value = event.get(key)
            return value[:_TEXT_CHARACTERS] if isinstance(value, str) else ""

        number = event.get("errno")
        return cls(
            text("step") or "start",
            number if isinstance(number, int) else None,
            text("cause_en"),
            text("cause_zh"),
            text("remedy_en"),
            text("remedy_zh"),
        )

    def describe(self, language: str) -> tuple[str, str, str]:
        """Return step (with errno), cause and repair."""
        number = f" (errno {self.errno})" if self.errno else ""
        if language == "zh":
            from sentinel_kernel.kernel.chinese import in_chinese  # noqa: PLC0415 - for those who read it

            cause, remedy = in_chinese(self.cause_en), in_chinese(self.remedy_en)
            # What the supervisor has no words of its own for is the English sentence, perhaps with the step before it.
            return (
                f"{self.step}{number}",
                (self.cause_zh or self.cause_en).replace(self.cause_en, cause),
                (self.remedy_zh or self.remedy_en).replace(self.remedy_en, remedy),
            )
        return f"{self.step}{number}", self.cause_en, self.remedy_en

    def error(self, language: str) -> Json:
        """Return the error that every cell gets."""
        step, cause, remedy = self.describe(language)
        if language == "zh":
            first = f"无法建立沙箱，因此没有运行任何代码。失败的步骤：{step}。"
            lines = [first, f"原因：{cause}", f"修复方法：{remedy}"]
        else:
            first = f"The sandbox could not be set up, so nothing was run. The step that failed: {step}."
            lines = [first, f"Cause: {cause}", f"Repair: {remedy}"]
        return {
            "ename": "SandboxUnavailable",
            "evalue": " ".join(lines),
            "traceback": [f"SandboxUnavailable: {lines[0]}", *lines[1:]],
        }


def answer_cell(outbox: Outbox, cell: Cell, error: Json, execution_count: int) -> None:
    """Answer a cell that is not run: busy, execute_input, the host's displays, the error, the reply, idle.

    With an empty ``error`` the cell consisted of the host's magics alone, and is answered as done.
    """
    request = cell.request
    cell.execution_count = execution_count
    outbox.status("busy", request.header)
    if not cell.silent:
        outbox.publish(
            "execute_input", {"code": cell.code, "execution_count": execution_count}, request.header
        )
        for bundle in cell.displays:
            outbox.display(bundle, request.header)
        cell.displays.clear()
        if error:
            outbox.error(error, request.header)
    if error:
        reply = {
            "status": "error",
            "execution_count": execution_count,
            "user_expressions": {},
            "payload": [],
            **error,
        }
    else:
        reply = {"status": "ok", "execution_count": execution_count, "user_expressions": {}, "payload": []}
    outbox.reply(request, reply, {"status": reply["status"]})
    outbox.status("idle", request.header)
    cell.idle = True


def answer_request(outbox: Outbox, request: Request, error: Json) -> None:
    """Answer any other request with what its client can use: an empty result, or the error."""
    if not request.msg_type.endswith("_request"):
        outbox.status("busy", request.header)
        outbox.status("idle", request.header)
        return
    outbox.answer(request, failed_content(request, error))


def failed_content(request: Request, error: Json) -> Json:
    """Return a reply's content that every client can read, where nothing better is to be had than ``error``."""
    failed = {"status": "error", **error}
    # Fields that clients read without looking at the status first (messaging protocol 5.4).
    beside: dict[str, dict[str, Any]] = {
        "complete_request": {"matches": [], "cursor_start": 0, "cursor_end": 0, "metadata": {}},
        "inspect_request": {"found": False, "data": {}, "metadata": {}},
        "history_request": {"history": []},
        "debug_request": {
            "type": "response",
            "success": False,
            "message": error["evalue"],
            "request_seq": 0,
            "seq": 0,
        },
    }
    if request.msg_type == "kernel_info_request":
        return kernel_info()
    if request.msg_type == "comm_info_request":
        return {"status": "ok", "comms": {}}
    if request.msg_type == "is_complete_request":
        return {"status": "unknown"}
    return {**beside.get(request.msg_type, {}), **failed}


def kernel_info() -> Json:
    """Return what ipykernel would say of this interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": "ipython",
        "implementation_version": __version__,
        "language_info": {
            "name": "python",
            "version": version,
            "mimetype": "text/x-python",
            "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
            "pygments_lexer": "ipython3",
            "nbconvert_exporter": "python",
            "file_extension": ".py",
        },
        "banner": f"Sentinel Kernel {__version__} (no sandbox: nothing is run), Python {version}",
        "help_links": [],
        "supported_features": [],
    }
