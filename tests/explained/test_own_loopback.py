"""A server of the host's that a cell can't reach at 127.0.0.1 is told of; a port where nobody listens is not."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from live_kernel import Notebook, notebook

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

CONNECT = "import socket\nsocket.create_connection({})"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder: Path = tmp_path_factory.mktemp("book")
    with notebook(folder, SENTINEL_PROFILE="datascience", SENTINEL_SPARE="off") as made:
        yield made


def test_a_server_of_the_host_is_said_to_be_outside(book: Notebook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = book.run(CONNECT.format(server.getsockname()))
    assert result.reply["ename"] == "ConnectionRefusedError"
    assert "outside the sandbox" in result.reply["evalue"]
    [record] = result.bundles(VIOLATION_TYPE)
    assert (record["cause"], record["line"], record["values"]["does"]) == (
        "network_unreachable",
        2,
        "loopback",
    )
    assert record["subject"]["text"] == f"127.0.0.1:{port}"


def test_a_port_where_nobody_listens_is_the_programs_own_mistake(book: Notebook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody else takes it meanwhile
        swallowed = f"try: {CONNECT.splitlines()[1].format(server.getsockname())}\nexcept OSError: pass\n"
        for code in (
            CONNECT.format(bound.getsockname()),
            f"import socket\n{swallowed}{CONNECT.splitlines()[1].format(bound.getsockname())}",
            "raise ConnectionRefusedError(111, 'Connection refused')",
        ):
            result = book.run(code)
            assert result.reply["evalue"] == "[Errno 111] Connection refused"
            assert result.bundles(VIOLATION_TYPE) == []
