"""Requests by rules of HTTP go through the sandbox's proxy, which adds secrets that no cell ever sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from live_kernel import SECONDS
from network_notebook import World, world

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook
    from ordinary_user import Identity

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

RUN_CELLS = Path(__file__).parents[1] / "kernel" / "drivers" / "run_cells.py"
SECRET, KEPT = "k3y-of-the-host-alone", "k3pt-in-a-keyring"
TLS_SERVER = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
listening = socket.create_server(("192.0.2.10", 443), backlog=9)
print("ready", flush=True)
while True:
    made, _ = listening.accept()
    with made, context.wrap_socket(made, server_side=True) as read:
        asked = b""
        while b"\\r\\n\\r\\n" not in asked:
            asked += read.recv(4096)
        token = asked.partition(b"X-Token: ")[2].partition(b"\\r")[0]
        body = b"over TLS " + token
        read.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % len(body) + body)
"""
PROFILE: dict[str, Any] = {
    "extends": "datascience",
    "network": {
        "http": [
            {"method": "GET", "scheme": "http", "host": "api.example.org", "path": "/asked*"},
            {"method": "CONNECT", "host": "web.example.org:80"},
            {"method": "CONNECT", "host": "web.example.org:443"},
            {"method": "GET", "scheme": "http", "host": "api.example.org:8081"},
            {"method": "GET", "scheme": "http", "host": "index.example.org"},
            {"method": "GET", "scheme": "http", "host": "inside.example.org"},
        ],
        "secrets": [
            {"host": "api.example.org", "header": "X-Token", "from": "env:NP_SERVICE_TOKEN"},
            {"host": "index.example.org", "header": "X-Token", "from": "keyring:a-service/somebody"},
        ],
    },
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("w")) as made:
        yield made


@pytest.fixture(scope="module")
def book(outside: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    kept = tmp_path_factory.mktemp("keyring")
    back_end = {"PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring", "XDG_DATA_HOME": str(kept)}
    put = "import keyring, sys; keyring.set_password('a-service', 'somebody', sys.argv[1])"
    subprocess.run([sys.executable, "-c", put, KEPT], env=os.environ | back_end, check=True, timeout=60)
    with outside.notebook(PROFILE, NP_SERVICE_TOKEN=SECRET, **back_end) as made:
        made.run(
            "import requests\nrequests.get('http://api.example.org/asked')"
        )  # the proxy is there from here on
        yield made


def test_a_secret_of_a_keyring_goes_to_its_host_alone(book: Notebook) -> None:
    result = book.run("import requests\nprint(requests.get('http://index.example.org/asked').text)")
    assert json.loads(result.text)["token"] == KEPT


def test_https_goes_through_a_tunnel_that_nobody_looks_into(
    outside: World, book: Notebook, tmp_path: Path
) -> None:
    authority = trustme.CA()
    chain = tmp_path / "chain.pem"
    authority.issue_cert("web.example.org").private_key_and_cert_chain_pem.write_to_path(chain)
    server = subprocess.Popen(
        [*outside.hosts.far_prefix(), sys.executable, "-c", TLS_SERVER, str(chain)],
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        ask = (
            f"open('ca.pem', 'w').write({authority.cert_pem.bytes().decode()!r})\nimport requests\n"
            "answer = requests.get('https://HOST/', verify='ca.pem', headers={'X-Token': 'mine'}, timeout=30)\n"
            "print(answer.text)"
        )
        assert book.run(ask.replace("HOST", "web.example.org")).text == "over TLS mine\n"
        refused = book.run(ask.replace("HOST", "other.example.org"))
        assert "403" in refused.reply["evalue"]
        shown = [content["data"].get(VIOLATION_TYPE) for _, content in refused.outputs if "data" in content]
        assert {one["subject"]["text"] for one in shown if one is not None} == {"other.example.org:443"}
    finally:
        server.kill()
        server.communicate()


def test_a_proxy_that_is_killed_during_a_request_is_told_and_the_next_one_serves(
    outside: World, book: Notebook
) -> None:
    with outside.hosts.listen("192.0.2.60", 8081) as listening:
        listening.settimeout(SECONDS)
        msg_id = book.send("import requests\nrequests.get('http://api.example.org:8081/slow', timeout=60)")
        with listening.accept()[0] as made:
            made.settimeout(SECONDS)
            assert made.recv(4) == b"GET "
            os.kill(_connected_to(book, made.getpeername()[1]), signal.SIGKILL)
            [result] = book.collect(msg_id)
    assert result.reply["ename"] in ("ProxyError", "ConnectionError"), result.reply
    [told] = result.bundles(VIOLATION_TYPE)
    assert told["rule"] == "the sandbox's proxy has ended"
    assert told["outcome"] == "ended"
    assert "in the middle of its work" in told["message"]["en"]
    assert "run the cell again" in told["hint"]["en"]
    assert told["remedies"] == []
    again = book.run("print(requests.get('http://api.example.org/asked', timeout=60).status_code)")
    assert again.text == "200\n"
    assert again.bundles(VIOLATION_TYPE) == []


def _connected_to(book: Notebook, port: int) -> int:
    """Return the process of the supervisor's that has the connection from ``port``."""
    supervisor = int(_supervisor(book).name)
    lines = (Path(f"/proc/{supervisor}/net/tcp").read_text().splitlines())[1:]
    inode = next(line.split()[9] for line in lines if line.split()[1].endswith(f":{port:04X}"))
    for path in Path("/proc").glob("[0-9]*/stat"):
        if _is_child(path, supervisor):
            links = [os.readlink(link) for link in (path.parent / "fd").iterdir()]
            if f"socket:[{inode}]" in links:
                return int(path.parent.name)
    raise AssertionError(f"nobody has {inode}")


def test_a_request_by_rule_is_passed_on_with_the_secret(book: Notebook) -> None:
    result = book.run(
        "import requests\nanswer = requests.get('http://api.example.org/asked?x=1', headers={'X-Token': 'mine'})\n"
        "print(answer.status_code, answer.text)"
    )
    status, _, body = result.text.partition(" ")
    assert status == "200", result.text
    assert json.loads(body) == {"path": "/asked?x=1", "host": "api.example.org", "token": SECRET}
    assert result.bundles(VIOLATION_TYPE) == []


def test_the_secret_is_nowhere_inside_and_in_no_process_but_the_proxys(book: Notebook) -> None:
    seen = book.run(
        "import os, subprocess\nprint(dict(os.environ))\n"
        "print(subprocess.run('cat /proc/*/environ /proc/1/cmdline', shell=True, capture_output=True).stdout)"
    )
    assert SECRET not in seen.text
    assert "http://127.0.0.1:3128" in seen.text
    assert KEPT not in seen.text
    assert SECRET.encode() not in (_supervisor(book) / "environ").read_bytes()


def _supervisor(book: Notebook) -> Path:
    return next(
        path.parent
        for path in Path("/proc").glob("[0-9]*/stat")
        if _is_child(path, book.host_pid) and b"supervisor" in (path.parent / "cmdline").read_bytes()
    )


def _is_child(stat: Path, parent: int) -> bool:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1]) == parent
    except OSError:
        return False


@pytest.mark.parametrize(
    ("call", "host", "remedy"),
    [
        ("requests.get('http://api.example.org/hello.txt')", "api.example.org", ""),
        ("requests.post('http://api.example.org/asked')", "api.example.org", ""),
        (
            "requests.get('http://other.example.org/hello.txt')",
            "other.example.org",
            "%sentinel_allow other.example.org:80",
        ),
        (
            "requests.get('http://inside.example.org/hello.txt')",
            "inside.example.org",
            "%sentinel_allow 10.7.7.7:80",
        ),
        ("requests.get('http://169.254.169.254/')", "169.254.169.254", ""),
    ],
)
def test_what_no_rule_passes_on_is_refused_and_told(
    book: Notebook, call: str, host: str, remedy: str
) -> None:
    result = book.run(f"import requests\nanswer = {call}\nprint(answer.status_code, answer.text)")
    assert result.text.startswith("403 Sentinel Kernel: ")
    [told] = result.bundles(VIOLATION_TYPE)
    assert told["cause"] == "host_refused"
    assert told["subject"]["text"] == f"{host}:80"
    assert [remedy["text"] for remedy in told["remedies"]] == ([remedy] if remedy else [])


def test_a_tunnel_opens_to_a_host_of_a_rule_and_to_no_other(book: Notebook) -> None:
    code = (
        "import http.client\nway = http.client.HTTPConnection('127.0.0.1', 3128)\nway.set_tunnel('HOST', 80)\n"
        "way.request('GET', '/hello.txt')\nprint(way.getresponse().read())"
    )
    assert "hello from outside" in book.run(code.replace("HOST", "web.example.org")).text
    refused = book.run(code.replace("HOST", "other.example.org"))
    assert "403" in refused.reply["evalue"]
    assert [told["subject"]["text"] for told in refused.bundles(VIOLATION_TYPE)] == ["other.example.org:80"]


def test_past_the_proxy_nothing_is_reached(book: Notebook) -> None:
    result = book.run("import socket\nsocket.create_connection(('192.0.2.60', 80), timeout=5)")
    assert result.reply["status"] == "error"


def test_the_page_of_the_network_tells_of_requests_and_not_of_secrets(book: Notebook) -> None:
    result = book.run("%sentinel_net")
    shown = json.dumps([content for _, content in result.outputs])
    assert "refused" in shown
    assert "api.example.org" in shown
    assert "other.example.org" in shown
    assert SECRET not in shown
    assert "x=1" not in shown
    # No host is listed, and what reaches some all the same is said.
    assert "Hosts that can be reached directly: none." in shown
    assert "proxy passes on: GET api.example.org/asked*; CONNECT web.example.org:80; CONNECT" in shown
    assert "inside.example.org" in shown


def test_a_host_that_the_person_allows_is_reached_through_the_proxy_too(book: Notebook) -> None:
    ask = "import requests\nprint(requests.get('http://other.example.org/hello.txt').status_code)"
    assert book.run(ask).text == "403\n"
    msg_id = book.send(f"%sentinel_allow other.example.org:80\n{ask}", allow_stdin=True)
    assert "other.example.org:80" in book.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"]
    book.client.input("y")
    [result] = book.collect(msg_id)
    assert result.text == "200\n"
    assert book.run(ask).text == "200\n"


def test_an_ordinary_users_sandbox_has_the_same(outside: World, ordinary_user: Identity) -> None:
    home = ordinary_user.home
    profiles = home / ".config" / "sentinel-kernel" / "profiles"
    ordinary_user.run("mkdir", "-p", str(profiles), str(home / "book"))
    (profiles / "listed.json").write_text(json.dumps(PROFILE))
    ordinary_user.run(
        ordinary_user.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(home / "prefix")
    )
    fetch = (
        "from urllib.request import urlopen\n"
        "try:\n    print(urlopen('http://HOST', timeout=30).read().decode())\n"
        "except OSError as error:\n    print(error)"
    )
    hosts = ("api.example.org/asked", "other.example.org/hello.txt")
    done = subprocess.run(
        [
            *outside.hosts.prefix(home / "book"),
            *ordinary_user.prefix,
            ordinary_user.python,
            str(RUN_CELLS),
            "sentinel",
        ],
        input=json.dumps([fetch.replace("HOST", host) for host in hosts]),
        env={
            **ordinary_user.environment(),
            "JUPYTER_PATH": str(home / "prefix" / "share" / "jupyter"),
            "NP_SERVICE_TOKEN": SECRET,
            "SENTINEL_PROFILE": "listed",
            "SENTINEL_SPARE": "off",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    passed, refused = json.loads(done.stdout)
    assert json.loads(passed["text"])["token"] == SECRET
    assert "403" in refused["text"]
    assert any("not one that the profile 'listed' lets cells reach" in text for text in refused["results"])
