"""Telling people where a sandbox's files were saved: in the cell, or after a restart in the next kernel's first one."""

from __future__ import annotations

from sentinel_kernel.supervisor import protocol
from sentinel_kernel.supervisor.salvage import artifact_store, leave_word, salvage, take_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.hostlink import HostLink


def save_files(host: HostLink, upper: int, workspace: str, kernel: str, *, last: bool) -> None:
    """Save the layer ``upper`` and tell the host; with ``last`` no cell is left to say it in, so word is left.

    ``kernel`` names the kernel across restarts: the next one of that name says it in its first cell.
    """
    saved = salvage(upper, workspace, artifact_store())
    if saved.path or saved.skipped:
        fields = {
            "path": saved.path,
            "files": saved.files,
            "bytes": saved.bytes,
            "skipped": saved.skipped,
            "left_out": saved.left_out,
        }
        host.event(protocol.EVENT_ARTIFACTS, fields)
    if saved.path and last:
        leave_word(saved.path, kernel)


def tell_of_saved_files(host: HostLink, kernel: str) -> None:
    """Tell the host, once, of what was saved when its predecessor of the same name ended."""
    for path, files, left_out in take_words(artifact_store(), kernel):
        fields = {"path": path, "files": files, "bytes": 0, "skipped": [], "left_out": left_out}
        host.event(protocol.EVENT_ARTIFACTS, fields)
