"""Bounded reads and writes of another process's memory (process_vm_readv(2))."""

from __future__ import annotations

import ctypes
import errno

from sentinel_kernel.linux.libc import LIBC, NUMBERS, call_by_number

_PAGE_BYTES = 4096


class _Vector(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


# Most reads are short, within one page, and of them there are many: one connection's address each. This process has one
# thread, and a fork of its has copies.
_READ = NUMBERS["process_vm_readv"]
_buffer = (ctypes.c_char * _PAGE_BYTES)()
_one_local, _one_remote = _Vector(ctypes.addressof(_buffer), 0), _Vector(0, 0)
_ONE_LOCAL, _ONE_REMOTE = ctypes.addressof(_one_local), ctypes.addressof(_one_remote)


def read_memory(process: int, address: int, length: int) -> bytes:
    """Return up to ``length`` bytes at ``address`` of ``process``; fewer, or none, where the memory ends.

    The read stops at the first page that is not mapped. Nothing is raised for bad addresses: what the caller
    gets is what could be read.

    Raises:
        OSError: the process is gone (ESRCH) or may not be read (EPERM).

    """
    if length <= 0 or address <= 0 or address + length >= 1 << 64:
        return b""
    if length <= _PAGE_BYTES and (address ^ (address + length - 1)) < _PAGE_BYTES:
        _one_local.length = _one_remote.length = length
        _one_remote.base = address
        count = call_by_number(_READ, process, _ONE_LOCAL, 1, _ONE_REMOTE, 1, 0)
        return _buffer[:count] if count >= 0 else _none_read()  # type: ignore[return-value]
    buffer = ctypes.create_string_buffer(length)
    local = _Vector(ctypes.addressof(buffer), length)
    # One remote vector per page: a partial transfer then ends at the page boundary instead of failing whole.
    vectors = []
    position = address
    while position < address + length:
        end = min((position // _PAGE_BYTES + 1) * _PAGE_BYTES, address + length)
        vectors.append(_Vector(position, end - position))
        position = end
    remote = (_Vector * len(vectors))(*vectors)
    count = call_by_number(
        _READ, process, ctypes.addressof(local), 1, ctypes.addressof(remote), len(vectors), 0
    )
    return buffer.raw[:count] if count >= 0 else _none_read()


def _none_read() -> bytes:
    """Return nothing where the memory is not there. Raises OSError for any other fault."""
    number = ctypes.get_errno()
    if number == errno.EFAULT:
        return b""
    raise OSError(number, "process_vm_readv")


def write_memory(process: int, address: int, content: bytes) -> bool:
    """Write ``content`` at ``address`` of ``process`` (process_vm_writev(2)); False where not all of it can be.

    What is written must be the caller's own answer: it lands wherever the caller points.
    """
    if address <= 0 or address + len(content) >= 1 << 64:
        return False
    buffer = ctypes.create_string_buffer(content, len(content))
    local = _Vector(ctypes.addressof(buffer), len(content))
    remote = _Vector(address, len(content))
    count: int = LIBC.syscall(
        ctypes.c_long(NUMBERS["process_vm_writev"]),
        ctypes.c_long(process),
        ctypes.byref(local),
        ctypes.c_long(1),
        ctypes.byref(remote),
        ctypes.c_long(1),
        ctypes.c_long(0),
    )
    return count == len(content)
