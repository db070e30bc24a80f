"""Parts of the tree with fewer controllers: what is missing is named, what is there is used."""

from __future__ import annotations

import os
from pathlib import Path

from telling import check

from sentinel_kernel.supervisor.backend import Backends


def lesser() -> dict[str, str]:
    """Tell what is made of this part of the tree."""
    backends = Backends()
    backend = backends.make("auto")
    try:
        given = Path(os.environ["VM_CONTROLLERS"]).read_text().split()
        if {"memory", "pids"} <= set(given):
            assert backend.name == "cgroup", backend.detail
            assert "without cpu, io, which this part of the tree was not given" in backend.detail, (
                backend.detail
            )
            usage = backend.usage()
            assert usage is not None
            assert not backend.throttles
        else:
            assert backend.name == "fallback", backend.detail
            assert "lacks the controllers memory, pids" in backend.detail, backend.detail
    finally:
        backend.close()
        backends.close()
    return {"name": backend.name, "detail": backend.detail}


if __name__ == "__main__":
    check(f"lesser_{os.environ['VM_PART']}", lesser)
