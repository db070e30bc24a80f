"""Numbers and layouts of <linux/pidfd.h>."""

from __future__ import annotations

import struct
from typing import Final

PROCESS_GROUP: Final = 1 << 2
"""PIDFD_SIGNAL_PROCESS_GROUP of pidfd_send_signal(2), Linux 6.9."""

GET_INFO: Final = 0xC040FF0B
"""_IOWR(PIDFS_IOCTL_MAGIC, 11, struct pidfd_info), Linux 6.13."""

INFO_EXIT: Final = 1 << 3
"""How the process has ended; only where that is known, which it is once its parent has waited for it. Linux 6.15."""

INFO: Final = struct.Struct("=QQ11Ii")
"""struct pidfd_info as first published: mask, cgroupid, pid to fsgid, exit_code (a wait status)."""
