"""The supervisor process: takes the control socket on descriptor 3 and serves it until the host is gone."""

from __future__ import annotations

import gc
import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if __name__ == "__main__":
    # Started as a file, with -I -S: neither the user's site-packages nor the environment has a say in what the
    # trusted side imports. This file's own folder was put first on the path; only the package belongs there.
    sys.path[0] = os.path.dirname(_PACKAGE)
    # The host's own site-packages folders, for pyseccomp; behind the standard library.
    sys.path += sys.argv[1:]

_CONTROL = 3


def main() -> None:
    """Serve the host until it is gone; leave no process, mount or folder behind."""
    gc.disable()  # nothing that is imported here is garbage
    # Only now: the path above decides where these come from.
    import contextlib  # noqa: PLC0415
    import socket  # noqa: PLC0415

    from sentinel_kernel.linux.process import close_descriptors  # noqa: PLC0415
    from sentinel_kernel.supervisor.service import Service  # noqa: PLC0415

    os.chdir("/")  # hold no folder of the user
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    close_descriptors(_CONTROL + 1, (1 << 31) - 1)
    if os.geteuid() == 0:
        # Root of a user namespace may be denied it (user_namespaces(7)): as with an ordinary user, they stay.
        with contextlib.suppress(PermissionError):
            os.setgroups([])
    sock = socket.socket(fileno=os.dup(_CONTROL))
    os.close(_CONTROL)
    service = Service(sock, _PACKAGE)
    # What exists now lives as long as the process: collecting it again and again would only cost held calls time.
    gc.freeze()
    gc.enable()
    service.run()


if __name__ == "__main__":
    main()
