"""A kernel in a network of the test's own: hosts with names, what they serve, and a profile that lists some."""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

import leaks
from jupyter_client.manager import KernelManager
from live_kernel import Notebook, kernelspecs
from served_hosts import PageServer, PostgreSQL, make_site
from test_network import Hosts, network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = {
    "web.example.org": ["192.0.2.10", "192.0.2.11", "2001:db8:9::10"],
    "six.example.org": ["2001:db8:9::20"],
    "dead.example.org": ["192.0.2.99", "192.0.2.12"],
    "index.example.org": ["192.0.2.30"],
    "git.example.org": ["192.0.2.31"],
    "db.example.org": ["192.0.2.40"],
    "api.example.org": ["192.0.2.60"],
    "other.example.org": ["192.0.2.50"],
    "inside.example.org": ["10.7.7.7"],
}
"""``dead`` has an address at which nobody answers on port 80, and one at which somebody does."""

SERVED = tuple(
    address
    for name, addresses in NAMES.items()
    for address in addresses
    if name != "db.example.org" and address != "192.0.2.99"
)

PROFILE: dict[str, Any] = {
    "extends": "datascience",
    "network": {
        "allow": True,
        "allow_dns": True,
        "hosts": [
            "web.example.org:80",
            "six.example.org:80",
            "dead.example.org:80",
            "index.example.org:80",
            "git.example.org:80",
            "db.example.org:5432",
        ],
        "index": "http://index.example.org/simple",
    },
}


class World:
    """The hosts, and kernels beside them."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._number = 0
        site = folder / "site"
        site.mkdir()
        server = PageServer(hosts.far_prefix(), make_site(site), SERVED)
        self._stack.callback(server.close)

    def database(self) -> None:
        """Start a PostgreSQL at db.example.org."""
        server = PostgreSQL(self.hosts.far_prefix(), NAMES["db.example.org"][0])
        self._stack.callback(server.close)

    @contextlib.contextmanager
    def notebook(
        self, profile: str | dict[str, Any] = "datascience", kernel: str = "sentinel", **environment: str
    ) -> Iterator[Notebook]:
        """Start a kernel on a machine of that network; ``profile`` may be a document."""
        self._number += 1
        folder = self._folder / f"k{self._number}"
        work = folder / "work"
        profiles = folder / "config" / "sentinel-kernel" / "profiles"
        for made in (work, profiles):
            made.mkdir(parents=True)
        name = profile if isinstance(profile, str) else "listed"
        if not isinstance(profile, str):
            (profiles / "listed.json").write_text(json.dumps(profile))
        specs = kernelspecs(folder)
        place = folder / "kernels" / kernel / "kernel.json"
        spec = json.loads(place.read_text())
        spec["argv"] = [*self.hosts.prefix(work), *spec["argv"]]
        place.write_text(json.dumps(spec))
        manager = KernelManager(kernel_name=kernel, kernel_spec_manager=specs, transport="ipc")
        manager.connection_file = str(folder / "c.json")
        with (folder / "kernel.log").open("wb") as log:
            manager.start_kernel(
                cwd=str(work),
                env={
                    **os.environ,
                    "SENTINEL_LANG": "en",
                    "SENTINEL_PROFILE": name,
                    "SENTINEL_SPARE": "off",
                    "XDG_CONFIG_HOME": str(folder / "config"),
                    "XDG_CACHE_HOME": str(folder / "cache"),
                    **environment,
                },
                stderr=log,
                stdout=log,
            )
            try:
                book = Notebook(manager)
                yield book
                book.client.stop_channels()
                book.client.context.destroy(linger=0)
            finally:
                if manager.is_alive():
                    manager.shutdown_kernel()
                manager.cleanup_resources()

    def close(self) -> None:
        """End what was started."""
        self._stack.close()


@contextlib.contextmanager
def world(folder: Path) -> Iterator[World]:
    """Make the network below ``folder``, with a server of pages at every address but the database's.

    What kernels leave behind is looked for at the end: between tests they keep processes that look names up.
    """
    before = leaks.traces()
    with network(folder / "network", NAMES) as hosts:
        made = World(hosts, folder)
        try:
            yield made
        finally:
            made.close()
    leaks.wait_clean(before)
