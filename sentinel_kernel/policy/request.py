"""One held call as the supervisor took it: registers, and what was copied from behind its pointers, once."""

from __future__ import annotations

from functools import lru_cache

from sentinel_kernel.abi.architecture import architecture_by_audit
from sentinel_kernel.abi.socket import SOCKADDR_STORAGE_BYTES
from sentinel_kernel.policy.signatures import is_described, signature
from sentinel_kernel.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATH_MAXIMUM_BYTES = 256
"""More of a path is never shown, and the caller must not choose how much the supervisor allocates."""

_REMEMBERED = 512
_MAXIMUM_BYTES = {"path": PATH_MAXIMUM_BYTES, "address": SOCKADDR_STORAGE_BYTES, "bytes": PATH_MAXIMUM_BYTES}
_COPY_KINDS = {"path": "path", "address": "sockaddr", "bytes": "bytes"}


class Copy(Record):
    """What to copy for one argument: a path (up to a zero byte), a socket address, or bytes.

    ``length_argument`` is the index of the argument that gives the length; None copies ``maximum_bytes``.
    """

    argument: int
    kind: str
    length_argument: int | None
    maximum_bytes: int


class Request(Record):
    """A held call. ``number`` is signed, ``arguments`` are six unsigned 64-bit values.

    ``copied`` maps an argument's index to the bytes that were behind it when they were looked at. They are
    only ever shown: another thread may have changed them since, so no call is let through because of them.
    """

    number: int
    architecture: int
    arguments: tuple[int, int, int, int, int, int]
    tid: int
    pid: int
    command: str
    is_worker: bool
    copied: Mapping[int, bytes] = fresh(default_factory=dict)


@lru_cache(maxsize=_REMEMBERED)
def pointer_copies(number: int, arch: int) -> tuple[Copy, ...]:
    """Return what to copy for call ``number`` of AUDIT_ARCH ``arch``: nothing for an unknown one."""
    architecture = architecture_by_audit(arch & 0xFFFFFFFF)
    syscall = architecture.names.get(number) if architecture is not None else None
    if syscall is None or not is_described(syscall):
        return ()
    copies = []
    for index, (_, kind) in enumerate(signature(syscall)):
        if kind in _COPY_KINDS:
            length = None if kind == "path" else index + 1
            copies.append(Copy(index, _COPY_KINDS[kind], length, _MAXIMUM_BYTES[kind]))
    return tuple(copies)
