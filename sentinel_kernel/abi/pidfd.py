"""Numbers and layouts of <linux/pidfd.h>."""

from __future__ import annotations

from typing import Final

PROCESS_GROUP: Final = 1 << 2
"""PIDFD_SIGNAL_PROCESS_GROUP of pidfd_send_signal(2), Linux 6.9."""
