"""Limits of ``<asm-generic/resource.h>`` that the module resource has no name for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

RLIMIT_LOCKS: Final = 10
"""Handed down and shown (proc_pid_limits(5)), and enforced by nothing since Linux 2.4.25."""
