"""Starts the upload of an artifact: a program of its own, which outlives everybody here."""

from __future__ import annotations

import os
import signal
import sys

from sentinel_kernel.workspace.store import UPLOAD_FAILED, write_word


def start_upload(path: str) -> None:
    """Start copying the artifact at ``path`` to SENTINEL_ARTIFACTS; where it can't be started, a word says so there."""
    command = [
        sys.executable,
        "-P",
        "-E",
        "-m",
        "sentinel_kernel",
        "artifacts",
        "upload",
        os.path.basename(path),
    ]
    ignored = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO]
    try:
        os.posix_spawn(
            sys.executable, command, dict(os.environ), setsid=True, setsigdef=ignored, setsigmask=[]
        )
    except OSError as error:
        write_word(path, UPLOAD_FAILED, f"It could not be started: {error}.")
