"""Long runs: the tests that are marked `soak`, or kernels under chaos.

    python tests/soak/run.py [pytest's options]
    python tests/soak/run.py chaos [--kernels N] [--minutes M] [--seed S] [--acts WORD]

As root a chaos run has a small file system of its own, in a mount namespace of its own, that is filled now and then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE.parents[1]), str(_HERE.parent / "support")]

_DISK_MIB = 96
_INSIDE = "SENTINEL_CHAOS_DISK"


def _chaos(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="chaos")
    parser.add_argument("--kernels", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--acts", default="", help="only those whose names have this in them, as 'supervisor'"
    )
    asked = parser.parse_args(arguments)
    if os.geteuid() == 0 and _INSIDE not in os.environ:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            # The mount goes with the namespace, and the namespace with its last process.
            command = f'mount -t tmpfs -o size={_DISK_MIB}m none "$0" && exec "$@"'
            inside = [
                "unshare",
                "--mount",
                "sh",
                "-c",
                command,
                folder,
                sys.executable,
                __file__,
                "chaos",
                *arguments,
            ]
            return subprocess.run(inside, check=False, env={**os.environ, _INSIDE: folder}).returncode
    with tempfile.TemporaryDirectory(prefix="chaos-work-") as work:
        disk = Path(os.environ.pop(_INSIDE)) if _INSIDE in os.environ else None
        for variable, name in (
            ("XDG_DATA_HOME", "share"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
        ):
            place = (disk if disk is not None and name != "run" else Path(work)) / name
            place.mkdir(mode=0o700)
            os.environ[variable] = str(place)
        import chaos

        folder, seconds = Path(work) / "kernels", asked.minutes * 60
        return chaos.main(asked.kernels, seconds, folder, disk, asked.seed, asked.acts)


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    if arguments[:1] == ["chaos"]:
        return _chaos(arguments[1:])
    command = [sys.executable, "-m", "pytest", "-m", "soak", "--timeout=0", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
