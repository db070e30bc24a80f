"""Constants of ``<linux/personality.h>``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

PER_LINUX: Final = 0
ADDR_COMPAT_LAYOUT: Final = 0x0200000
"""Programs that are executed from then on have their mappings from the bottom up, from a third (x86_64) or a quarter
(aarch64) of the way, chosen at random as ever (mmap_base of the Linux kernel)."""
