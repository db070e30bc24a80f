"""Makes a spare in this process, with the clock and the memory that the test wants, and prints what becomes of it."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import sentinel_kernel
from sentinel_kernel.supervisor import spare
from sentinel_kernel.supervisor.backend import Backends
from sentinel_kernel.supervisor.identities import Identities
from sentinel_kernel.supervisor.ledger import Ledger
from sentinel_kernel.supervisor.preparation import parse_start

_TURNS = 2000


def main(workspace: str) -> None:
    """Print a line for each step."""
    poll = select.poll()
    kept = spare.Spare(poll, Identities(), Backends(), sentinel_kernel.__path__[0])
    request = parse_start({"profile": "strict", "workspace": workspace, "python": sys.executable})

    def until_warm_or_gone() -> None:
        for _ in range(_TURNS):
            warm = kept.due_seconds()
            if not kept.there or (warm is not None and warm > spare._WARM_SECONDS):
                return
            kept.serve(dict(poll.poll(50)))

    spare.AMPLE_BYTES = 1 << 60
    kept.make(request)
    print("scarce memory:", kept.there)
    kept.make(request, scarce=False)
    print("in the place of another:", kept.there)
    kept.drop()

    spare.AMPLE_BYTES = 0
    kept.make(request)
    until_warm_or_gone()
    print("warm:", kept.there)
    other = parse_start({"profile": "datascience", "workspace": workspace, "python": sys.executable})
    print("for another profile:", kept.take(other, Ledger(lambda _: True)) is not None, kept.there)

    kept.make(request)
    until_warm_or_gone()
    spare.IDLE_SECONDS = -1.0
    kept.used()
    kept.serve({})
    print("idle for long:", kept.there)
    print("children:", Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


if __name__ == "__main__":
    main(sys.argv[1])
