"""Acting on files as somebody else, for a few calls (setfsuid(2), setfsgid(2))."""

from __future__ import annotations

import contextlib

from sentinel_kernel.linux.libc import system_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def acting_as(who: tuple[int, int] | None) -> Iterator[None]:
    """Let the calls within create and be judged as user and group ``who``; None changes nothing.

    For root alone: the Linux kernel takes its rights over others' files away meanwhile. Of this thread alone.

    Raises:
        OSError: EPERM where it did not take effect.

    """
    if who is None:
        yield
        return
    user, group = who
    before_group = system_call("setfsgid", group)
    before_user = system_call("setfsuid", user)
    try:
        # They tell of no failure but by what is in force (setfsuid(2), BUGS).
        if system_call("setfsuid", -1) != user or system_call("setfsgid", -1) != group:
            raise PermissionError(1, f"acting as {user}:{group} was refused")
        yield
    finally:
        system_call("setfsuid", before_user)
        system_call("setfsgid", before_group)
