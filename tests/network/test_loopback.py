"""Loopback inside the sandbox: programs that speak with themselves work, and nobody else is there to be spoken to."""

from __future__ import annotations

import errno
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from network_notebook import PROFILE, World, world
from test_network import NEAR_4

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

PROGRAMS = {
    "a web server and its client": """
import http.server, socket, threading
from urllib.request import urlopen
class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
for kind, host in ((http.server.ThreadingHTTPServer, '127.0.0.1'), (Six, '::1')):
    served = kind((host, 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    shown = f'[{host}]' if ':' in host else 'localhost'
    assert urlopen(f'http://{shown}:{served.server_port}/').status == 200
    served.shutdown()
    served.server_close()
print('works')
""",
    "asyncio": """
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readline())
    writer.close()
server = await asyncio.start_server(echo, '127.0.0.1', 0)
reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
writer.write(b'works\\n')
print((await reader.read()).decode())
writer.close()
server.close()
""",
    "a manager of multiprocessing over TCP": """
import multiprocessing.managers as managers
class Shared(managers.BaseManager):
    pass
store = {'said': 'works'}
Shared.register('store', callable=lambda: store, proxytype=managers.DictProxy)
manager = Shared(('127.0.0.1', 0), b'key')
manager.start()
print(manager.store().get('said'))
manager.shutdown()
""",
    "joblib": """
from joblib import Parallel, delayed
assert Parallel(n_jobs=2)(delayed(abs)(-n) for n in range(4)) == [0, 1, 2, 3]
from joblib.externals.loky import get_reusable_executor
get_reusable_executor().shutdown(wait=True)
print('works')
""",
    "dask.distributed": """
from dask.distributed import Client, LocalCluster
with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
    assert client.submit(sum, [40, 2]).result(timeout=120) == 42
print('works')
""",
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("w")) as made:
        yield made


SLOW = ("joblib", "dask.distributed")
CASES = [
    pytest.param(kernel, program, marks=[pytest.mark.soak] if program in SLOW and kernel == "free" else [])
    for kernel in ("free", "held")
    for program in PROGRAMS
]
"""Slow programs run by default where they have most to go wrong."""


@pytest.fixture(scope="module")
def free(outside: World) -> Iterator[Notebook]:
    """Yield a kernel whose calls of connect go on by themselves."""
    with outside.notebook("datascience") as made:
        yield made


@pytest.fixture(scope="module")
def held(outside: World) -> Iterator[Notebook]:
    """Yield a kernel whose calls of connect are held, as it may reach hosts."""
    with outside.notebook(PROFILE) as made:
        yield made


@pytest.fixture(params=["free", "held"])
def book(request: pytest.FixtureRequest) -> Notebook:
    made: Notebook = request.getfixturevalue(request.param)
    return made


@pytest.mark.parametrize(("kernel", "program"), CASES)
def test_programs_speak_with_themselves(request: pytest.FixtureRequest, kernel: str, program: str) -> None:
    result = request.getfixturevalue(kernel).run(PROGRAMS[program])
    assert "works" in result.text, "\n".join([result.text, *result.reply.get("traceback", [])])
    assert result.bundles(VIOLATION_TYPE) == []


def test_nobody_outside_reaches_a_server_inside_and_no_other_sandbox_does(
    outside: World, book: Notebook
) -> None:
    serve = (
        "import socket, threading\nserver = socket.create_server(('0.0.0.0', 0))\n"
        "port = server.getsockname()[1]\nassert socket.create_connection(('127.0.0.1', port)).close() is None\n"
        "server.accept()[0].close()\nprint(port)"
    )
    port = int(book.run(serve).text)
    probe = "import socket, sys\nprint(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"
    for address in ("127.0.0.1", NEAR_4):
        found = subprocess.run(
            [*outside.hosts.prefix(), sys.executable, "-c", probe, address, str(port)],
            capture_output=True,
            check=True,
            text=True,
        )
        assert int(found.stdout) == errno.ECONNREFUSED
    with outside.notebook("datascience") as other:  # nobody else is on its loopback
        told = other.run(f"import socket\nprint(socket.socket().connect_ex(('127.0.0.1', {port})))")
        assert int(told.text) == errno.ECONNREFUSED


def test_a_server_of_this_machine_is_not_reached(outside: World, book: Notebook) -> None:
    code = (
        "import socket, sys, time\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\nsys.stdin.read()"
    )
    own = subprocess.Popen(
        [*outside.hosts.prefix(), sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert own.stdout is not None
        port = int(own.stdout.readline())
        # The positive control: who is in that network reaches it.
        probe = f"import socket\nprint(socket.socket().connect_ex(('127.0.0.1', {port})))"
        found = subprocess.run(
            [*outside.hosts.prefix(), sys.executable, "-c", probe], capture_output=True, check=True, text=True
        )
        assert int(found.stdout) == 0
        assert int(book.run(probe).text) == errno.ECONNREFUSED
    finally:
        own.communicate()
