"""Real programs reach the hosts that are allowed, and are told of host, line and remedy where one is not."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from network_notebook import PROFILE, World, world
from served_hosts import PACKAGES

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook, Result

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

ALLOWED, REFUSED = "web.example.org", "other.example.org"

PROGRAMS = {
    "requests": "import requests\nprint(requests.get('http://HOST/hello.txt', timeout=20).text)",
    "httpx": "import httpx\nprint(httpx.get('http://HOST/hello.txt', timeout=20).text)",
    "httpx_async": (
        "import httpx\nasync with httpx.AsyncClient() as client:\n"
        "    print((await client.get('http://HOST/hello.txt', timeout=20)).text)"
    ),
    "urllib3": "import urllib3\nprint(urllib3.request('GET', 'http://HOST/hello.txt', retries=False).data.decode())",
    "aiohttp": (
        "import aiohttp\nasync with aiohttp.ClientSession() as session:\n"
        "    async with session.get('http://HOST/hello.txt') as answer:\n        print(await answer.text())"
    ),
    "urllib": "from urllib.request import urlopen\nprint(urlopen('http://HOST/hello.txt', timeout=20).read().decode())",
    "asyncio": (
        "import asyncio\nreader, writer = await asyncio.open_connection('HOST', 80)\n"
        "writer.write(b'GET /hello.txt HTTP/1.0\\r\\n\\r\\n')\nprint((await reader.read()).decode())\nwriter.close()"
    ),
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("w")) as made:
        yield made


@pytest.fixture(scope="module")
def book(outside: World) -> Iterator[Notebook]:
    with outside.notebook(PROFILE) as made:
        yield made


def violations(result: Result) -> list[dict[str, Any]]:
    """Return the last state of each violation."""
    return list(
        {
            content["data"][VIOLATION_TYPE]["id"]: content["data"][VIOLATION_TYPE]
            for kind, content in result.outputs
            if kind in ("display_data", "update_display_data") and VIOLATION_TYPE in content["data"]
        }.values()
    )


def text_of(result: Result) -> str:
    return "\n".join([result.text, *result.reply.get("traceback", [])])


def test_without_the_sandbox_every_host_is_reached(outside: World) -> None:
    with outside.notebook(kernel="python3") as plain:
        for program in ("requests", "asyncio"):
            for host in (ALLOWED, REFUSED, "six.example.org", "dead.example.org"):
                result = plain.run(PROGRAMS[program].replace("HOST", host))
                assert "hello from outside" in result.text, text_of(result)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("host", [ALLOWED, "six.example.org"])
def test_an_allowed_host_is_reached(book: Notebook, program: str, host: str) -> None:
    result = book.run(PROGRAMS[program].replace("HOST", host))
    assert "hello from outside" in result.text, text_of(result)
    assert violations(result) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_host_that_is_not_allowed_is_refused_by_name_line_and_remedy(book: Notebook, program: str) -> None:
    code = PROGRAMS[program].replace("HOST", REFUSED)
    result = book.run(code)
    assert result.reply["status"] == "error"
    _told(result, REFUSED, _line_of(code))
    # The error itself says so, for who sees nothing else.
    assert f"%sentinel_allow {REFUSED}" in "\n".join(result.reply["traceback"])


def _line_of(code: str) -> int:
    """Return the line that calls out."""
    return next(
        number for number, line in enumerate(code.split("\n"), 1) if "HOST" in line or REFUSED in line
    )


def _told(result: Result, host: str, line: int) -> None:
    """Check that the refusal of ``host`` is told, with its line and with what to do."""
    told = [one for one in violations(result) if one["values"]["host"] == host]
    assert told, text_of(result)
    assert told[-1]["cause"] == "host_refused"
    assert told[-1]["line"] == line or told[-1]["started_line"] == line
    assert f"%sentinel_allow {host}" in told[-1]["hint"]["en"]
    assert f"%sentinel_allow {host}" in told[-1]["hint"]["zh"]


def test_the_next_address_is_tried_where_one_does_not_answer(book: Notebook) -> None:
    result = book.run(PROGRAMS["requests"].replace("HOST", "dead.example.org"))
    assert "hello from outside" in result.text, text_of(result)


def test_a_redirect_to_a_host_that_is_not_allowed_or_private_is_refused(book: Notebook) -> None:
    for target in (f"http%3A//{REFUSED}/hello.txt", "http%3A//10.7.7.7/hello.txt"):
        code = f"import requests\nrequests.get('http://{ALLOWED}/redirect/{target}', timeout=20)"
        result = book.run(code)
        assert result.reply["status"] == "error"
        assert violations(result)
        assert "hello" not in result.text


def test_packages_come_from_the_index_into_the_sandbox_alone(book: Notebook) -> None:
    commands = ("%pip install -q", "!pip install -q", "%uv pip install -q")
    for command, package in zip(commands, PACKAGES, strict=True):
        result = book.run(f"{command} {package}")
        assert violations(result) == [], text_of(result)
        assert "restart the kernel" not in result.text
        assert ("goes with the sandbox" in result.text) is command.startswith("%")
    checked = book.run(f"import {', '.join(PACKAGES)}\nprint({PACKAGES[0]}.answer)")
    assert checked.text == "42\n", text_of(checked)
    assert list(Path(sysconfig.get_path("purelib")).glob("sentinel_one*")) == []


def test_an_index_that_is_not_listed_is_refused(book: Notebook) -> None:
    result = book.run(
        f"%pip install -q --index-url http://{REFUSED}/simple --trusted-host {REFUSED} absent_one"
    )
    assert "No matching distribution" in result.text
    assert "Note:" not in result.text
    _told(result, REFUSED, 1)


def test_git_clones_over_http(book: Notebook) -> None:
    result = book.run(
        "!git clone -q http://git.example.org/repository.git cloned && git -C cloned log --format=%s"
    )
    assert "first" in result.text, text_of(result)
    refused = book.run(f"!git clone -q http://{REFUSED}/repository.git refused")
    assert "fatal" in refused.text
    _told(refused, REFUSED, 1)


def test_a_database_answers(outside: World, book: Notebook) -> None:
    outside.database()
    connect = "import psycopg\nwith psycopg.connect('host=HOST user=tester dbname=postgres connect_timeout=20') as c:\n"
    ask = connect + "    print(c.execute('select 6 * 7').fetchone())"
    result = book.run(ask.replace("HOST", "db.example.org"))
    assert "(42,)" in result.text, text_of(result)
    refused = book.run(ask.replace("HOST", REFUSED))
    assert refused.reply["status"] == "error"
    _told(refused, REFUSED, 2)
    other_port = book.run(ask.replace("HOST", "web.example.org"))
    assert other_port.reply["status"] == "error"
    assert "%sentinel_allow web.example.org:5432" in violations(other_port)[-1]["hint"]["en"]
