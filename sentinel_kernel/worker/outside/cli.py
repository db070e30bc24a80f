"""`sentinel-kernel` inside the sandbox: it says where its commands are run."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Say it, and fail."""
    names = ("SENTINEL_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    chosen = next((os.environ[name] for name in names if os.environ.get(name)), "")
    typed = " ".join(["sentinel-kernel", *sys.argv[1:]])
    if chosen.lower().startswith("zh"):
        sys.stderr.write(f"请在沙箱外的终端中运行此命令：{typed}\n")
    else:
        sys.stderr.write(f"Run this in a terminal, outside the sandbox: {typed}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
