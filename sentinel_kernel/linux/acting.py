"""Acting on files as somebody else, for a few calls (setfsuid(2), setfsgid(2))."""

from __future__ import annotations

from sentinel_kernel.linux.libc import system_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class acting_as:  # noqa: N801 - it is used as a statement is
    """Lets the calls within create and be judged as user and group ``who``; None changes nothing.

    For root alone: the Linux kernel takes its rights over others' files away meanwhile. Of this thread alone.

    Raises:
        OSError: EPERM where it did not take effect.

    """

    def __init__(self, who: tuple[int, int] | None) -> None:
        """Change nothing yet."""
        self._who = who
        self._before = (-1, -1)

    def __enter__(self) -> Self:
        if self._who is None:
            return self
        user, group = self._who
        before_group = system_call("setfsgid", group)
        self._before = system_call("setfsuid", user), before_group
        # They tell of no failure but by what is in force (setfsuid(2), BUGS).
        if system_call("setfsuid", -1) != user or system_call("setfsgid", -1) != group:
            self._back()
            raise PermissionError(1, f"acting as {user}:{group} was refused")
        return self

    def __exit__(self, *_: object) -> None:
        if self._who is not None:
            self._back()

    def _back(self) -> None:
        system_call("setfsuid", self._before[0])
        system_call("setfsgid", self._before[1])
