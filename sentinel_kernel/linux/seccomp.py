"""Loading a seccomp filter with a listener, and the listener's notifications (seccomp(2), seccomp_unotify(2))."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

from sentinel_kernel.abi.seccomp import (
    ADDFD_FLAG_SEND,
    ADDFD_FLAG_SETFD,
    ADDFD_FORMAT,
    BPF_INSTRUCTION_SIZE,
    IOCTL_NOTIF_ADDFD,
    IOCTL_NOTIF_ID_VALID,
    IOCTL_NOTIF_RECV,
    IOCTL_NOTIF_SEND,
    IOCTL_NOTIF_SET_FLAGS,
    NOTIFICATION_FORMAT,
    NOTIFICATION_SIZE,
    RESPONSE_FORMAT,
    RESPONSE_SIZE,
    SECCOMP_GET_NOTIF_SIZES,
    SECCOMP_SET_MODE_FILTER,
    SIZES_FORMAT,
    USER_NOTIF_FD_SYNC_WAKE_UP,
    USER_NOTIF_FLAG_CONTINUE,
    FilterFlags,
)
from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.linux.libc import LIBC, NUMBERS, checked, system_call
from sentinel_kernel.record import Record


class _Program(ctypes.Structure):
    """``struct sock_fprog`` of <linux/filter.h>."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def load_filter(program: bytes) -> int:
    """Load the BPF ``program`` into this process and return the listener, close-on-exec.

    WAIT_KILLABLE_RECV (Linux 5.19) keeps a received call from being restarted by every signal: without it a
    program with a timer never gets its answer.

    Raises:
        OSError: EINVAL where the Linux kernel is older than 5.19; EBUSY when there is a listener already.

    """
    buffer = ctypes.create_string_buffer(program, len(program))
    layout = _Program(len(program) // BPF_INSTRUCTION_SIZE, ctypes.addressof(buffer))
    flags = FilterFlags.NEW_LISTENER | FilterFlags.WAIT_KILLABLE_RECV
    result: int = LIBC.syscall(
        ctypes.c_long(NUMBERS["seccomp"]),
        ctypes.c_long(SECCOMP_SET_MODE_FILTER),
        ctypes.c_long(int(flags)),
        ctypes.byref(layout),
    )
    return checked(result, "seccomp(SET_MODE_FILTER)")


def check_notification_sizes() -> None:
    """Check that the Linux kernel's structures are the ones this room was written for.

    Raises:
        UnsupportedHost: they have grown.

    """
    buffer = ctypes.create_string_buffer(struct.calcsize(SIZES_FORMAT))
    system_call("seccomp", SECCOMP_GET_NOTIF_SIZES, 0, buffer)
    notification, response, _ = struct.unpack(SIZES_FORMAT, buffer.raw)
    if notification > NOTIFICATION_SIZE or response > RESPONSE_SIZE:
        raise UnsupportedHost(
            f"This Linux kernel's seccomp notifications are {notification} and {response} bytes long.",
            "Update Sentinel Kernel: it knows 80 and 24.",
        )


class Notification(Record):
    """One held system call, as the Linux kernel describes it. ``thread`` is a thread id, not a process id."""

    id: int
    thread: int
    number: int
    architecture: int
    arguments: tuple[int, int, int, int, int, int]


class Listener:
    """Owner of a listener descriptor."""

    def __init__(self, descriptor: int) -> None:
        """Take over ``descriptor`` and ask for synchronous wake-ups (Linux 6.6; older ones answer EINVAL)."""
        self.descriptor = descriptor
        self._buffer = bytearray(NOTIFICATION_SIZE)
        self._zeros = bytes(NOTIFICATION_SIZE)
        try:
            # The flags are the ioctl's argument itself, not a pointer to them.
            fcntl.ioctl(descriptor, IOCTL_NOTIF_SET_FLAGS, USER_NOTIF_FD_SYNC_WAKE_UP)
            self.synchronous = True
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self.synchronous = False

    def fileno(self) -> int:
        """Return the descriptor, for poll(2)."""
        return self.descriptor

    def receive(self) -> Notification | None:
        """Return the next held call, or None where it vanished meanwhile (ENOENT, EINTR).

        Precondition: poll(2) said that one is there; RECV blocks even on a non-blocking descriptor.
        """
        buffer = self._buffer
        buffer[:] = self._zeros  # a buffer that is not zeroed is refused with EINVAL
        try:
            fcntl.ioctl(self.descriptor, IOCTL_NOTIF_RECV, buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        identifier, thread, _, number, architecture, _, *arguments = struct.unpack(
            NOTIFICATION_FORMAT, buffer
        )
        return Notification(identifier, thread, number, architecture, tuple(arguments))

    def is_valid(self, identifier: int) -> bool:
        """Tell whether the call is still held, i.e. its thread id still means the same thread."""
        try:
            fcntl.ioctl(self.descriptor, IOCTL_NOTIF_ID_VALID, struct.pack("=Q", identifier))
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def refuse(self, identifier: int, number: int) -> bool:
        """Answer with the error ``number``; False where the caller is gone."""
        return self._send(struct.pack(RESPONSE_FORMAT, identifier, 0, -number, 0))

    def proceed(self, identifier: int) -> bool:
        """Let the Linux kernel carry out the call (FLAG_CONTINUE).

        Only for decisions made from register arguments: memory behind pointers can change until it is read again.
        """
        return self._send(struct.pack(RESPONSE_FORMAT, identifier, 0, 0, USER_NOTIF_FLAG_CONTINUE))

    def answer(self, identifier: int, value: int) -> bool:
        """Answer with success and ``value``, where the call was carried out here; False where the caller is gone."""
        return self._send(struct.pack(RESPONSE_FORMAT, identifier, value, 0, 0))

    def answer_with_file(self, identifier: int, descriptor: int, *, close_on_exec: bool) -> bool:
        """Answer with a duplicate of ``descriptor`` in the caller's table; False where the caller is gone.

        Raises:
            OSError: EMFILE, the caller's table is full.

        """
        flags = os.O_CLOEXEC if close_on_exec else 0
        layout = struct.pack(ADDFD_FORMAT, identifier, ADDFD_FLAG_SEND, descriptor, 0, flags)
        try:
            fcntl.ioctl(self.descriptor, IOCTL_NOTIF_ADDFD, layout)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINPROGRESS):
                return False
            raise
        return True

    def put_file(self, identifier: int, descriptor: int, number: int, *, close_on_exec: bool) -> bool:
        """Put a duplicate of ``descriptor`` in the place of the caller's ``number``; the call is still held then.

        False where the caller is gone.

        Raises:
            OSError: EBADF, the number is beyond the caller's limit.

        """
        flags = os.O_CLOEXEC if close_on_exec else 0
        layout = struct.pack(ADDFD_FORMAT, identifier, ADDFD_FLAG_SETFD, descriptor, number, flags)
        try:
            fcntl.ioctl(self.descriptor, IOCTL_NOTIF_ADDFD, layout)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINPROGRESS):
                return False
            raise
        return True

    def _send(self, response: bytes) -> bool:
        try:
            fcntl.ioctl(self.descriptor, IOCTL_NOTIF_SEND, bytearray(response))
        except OSError as error:
            # ENOENT: killed meanwhile. EINPROGRESS: answered already.
            if error.errno in (errno.ENOENT, errno.EINPROGRESS):
                return False
            raise
        return True

    def close(self) -> None:
        """Close the descriptor; calls that are still held fail with ENOSYS."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
