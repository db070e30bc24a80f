"""Starts the host kernel: ``python -P -E -m sentinel_kernel -f CONNECTION_FILE``."""

from __future__ import annotations

import os
import site
import sys

if __name__ == "__main__":
    # First of all, with nothing but what the interpreter loaded by itself.
    from sentinel_kernel.kernel.trusted_path import trusted_path

    if not sys.flags.safe_path:
        del sys.path[0]  # the notebook's folder, where somebody else's json.py may lie
    environment = [sys.prefix, sys.base_prefix, sys.exec_prefix]
    if site.ENABLE_USER_SITE and site.USER_SITE:
        environment.append(site.USER_SITE)
    sys.path[:] = trusted_path(sys.path, os.getcwd(), environment)

    from sentinel_kernel.kernel.launch import main

    status = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, or nobody reads it any more
            continue
    # The sockets of clients that are gone may keep the library, and the interpreter, from ending.
    os._exit(status)
