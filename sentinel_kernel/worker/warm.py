"""Everything that a worker has imported when its first cell begins: as much as plain ipykernel, and no more."""

from __future__ import annotations

import contextlib
import importlib
import sys

from sentinel_kernel.worker import late_dates, late_module

# Imported by ipykernel on the way, so that there, say, `import importlib` is enough for `importlib.metadata`.
_BY_THE_WAY = {
    "email": ("header", "message", "parser", "utils"),
    "http": ("client", "server"),
    "importlib.metadata": (),
    "xml": ("parsers.expat",),
    "xmlrpc": ("client", "server"),
}
# Imported by asyncio, urllib and others at their start, and used by what most notebooks never do.
_SELDOM = ("asyncio.sslproto", "ipaddress", "ssl")
# What ipykernel imports between its start and its first reply; most of it inside of functions.
_NEEDED = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.magics",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "comm.base_comm",
    "faulthandler",
    "importlib.abc",
    "ipykernel.displayhook",
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "pdb",
    "sqlite3",
    "tornado.platform.asyncio",
)


def import_all() -> None:
    """Import what every worker needs. Raises ImportError where ipykernel is not installed."""
    late_module.install("jupyter_client", sources={"write_connection_file": "jupyter_client.connect"})
    for name in _SELDOM:
        late_module.install(name)
    late_dates.install()
    for name, companions in _BY_THE_WAY.items():
        late_module.install(name, companions=companions)
    from sentinel_kernel.worker import late_debugger  # noqa: PLC0415 - imports asyncio, which the stand-ins go before

    importlib.import_module("ipykernel")
    late_dates.finish()
    for name in _SELDOM:
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
    late_debugger.install()
    for name in _NEEDED:
        # Gone in a newer version, or without sqlite: a worker finds that out by itself.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
