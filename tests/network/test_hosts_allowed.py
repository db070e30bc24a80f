"""Hosts that the person allows, what was tried, and profiles that are changed while connections are open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from audit_rows import looked_into
from live_kernel import SECONDS
from network_notebook import World, world

from sentinel_kernel.kernel.output_rule import VIOLATION_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from live_kernel import Notebook, Result

pytestmark = [
    pytest.mark.requires("root"),  # who alone can make a network
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

FETCH = (
    "import socket\n"
    "def fetch(host):\n"
    "    with socket.create_connection((host, 80), 20) as made:\n"
    "        made.sendall(b'GET /hello.txt HTTP/1.0\\r\\n\\r\\n')\n"
    "        return made.makefile('rb').read().decode().partition(' ')[2][:3]\n"
)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("a")) as made:
        yield made


@pytest.fixture(scope="module")
def book(outside: World) -> Iterator[Notebook]:
    profile = {
        "extends": "datascience",
        "network": {"allow": True, "allow_dns": True, "hosts": ["web.example.org:80"]},
    }
    with outside.notebook(profile, SENTINEL_CEILING="listed") as made:
        made.run(FETCH)
        yield made


def answered(book: Notebook, code: str, answer: str) -> tuple[str, Result]:
    """Run a cell whose magic asks, and answer; return the question and what came of the cell."""
    msg_id = book.send(code, allow_stdin=True)
    prompt = book.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"]
    book.client.input(answer)
    return prompt, book.collect(msg_id)[0]


def tried(book: Notebook) -> dict[str, Any]:
    """Return what `%sentinel_net --json` shows."""
    data: dict[str, Any] = book.run("%sentinel_net --json").bundles("application/json")[0]
    return data


def test_a_host_is_reached_once_the_person_agrees(book: Notebook) -> None:
    refused = book.run("fetch('other.example.org')")
    assert refused.reply["ename"] == "gaierror"
    prompt, declined = answered(book, "%sentinel_allow other.example.org:80\n1", "n")
    assert "other.example.org:80" in prompt
    assert declined.reply["ename"] == "NetworkError"
    assert book.run("fetch('other.example.org')").reply["ename"] == "gaierror"
    _, allowed = answered(
        book, "%sentinel_allow Other.example.org:80\nprint(fetch('other.example.org'))", "y"
    )
    assert allowed.text == "200\n"
    assert tried(book)["granted"] == ["other.example.org:80"]
    # What is allowed is not asked about again.
    assert book.run("%sentinel_allow other.example.org:80\nprint(fetch('other.example.org'))").text == "200\n"


def test_what_opens_more_than_a_host_is_asked_with_a_warning(book: Notebook) -> None:
    prompt, declined = answered(book, "%sentinel_allow 0.0.0.0/0", "n")
    assert "WARNING: this is every host of the internet" in prompt
    assert declined.reply["ename"] == "NetworkError"
    prompt, _ = answered(book, "%sentinel_allow 169.254.169.254", "n")
    assert "WARNING: there a cloud gives out this machine's credentials" in prompt


def test_nobody_to_ask_is_a_no(book: Notebook) -> None:
    refused = book.run("%sentinel_allow db.example.org:80", allow_stdin=False)
    assert refused.reply["ename"] == "NetworkError"
    assert "HINT" in refused.reply["evalue"]


@pytest.mark.parametrize(
    "line", ["", "*", "127.0.0.1", "localhost:22", "http://a.org/", "a.org b.org", "a.org:0"]
)
def test_what_is_no_host_is_said_at_once(book: Notebook, line: str) -> None:
    assert book.run(f"%sentinel_allow {line}").reply["ename"] == "UsageError"


def test_the_page_tells_what_was_tried(book: Notebook) -> None:
    book.run("fetch('web.example.org')")
    rows = tried(book)["connections"]
    done = [one for one in rows if one["host"] == "web.example.org" and one["ended_ms"]]
    assert done
    assert done[-1]["verdict"] == "allowed"
    assert done[-1]["bytes_out"] == len("GET /hello.txt HTTP/1.0\r\n\r\n")
    assert done[-1]["bytes_in"] > 0
    assert any(one["verdict"] == "refused" and one["host"] == "other.example.org" for one in rows)
    page = book.run("%sentinel_net")
    assert "web.example.org" in page.bundles("text/html")[0]
    assert "web.example.org" in page.bundles("text/plain")[0]


def test_a_change_of_the_profile_closes_and_opens_the_way_out(book: Notebook) -> None:
    book.run("open_one = socket.create_connection(('web.example.org', 80), 20); kept = 7")
    closed = book.run("%sentinel_profile strict\nprint(kept, open_one.recv(9))")
    assert closed.text == "7 b''\n", "what strict does not allow has ended"
    refused = book.run("socket.create_connection(('web.example.org', 80), 20)")
    assert refused.reply["status"] == "error"
    again = book.run("%sentinel_profile listed\nprint(kept, fetch('web.example.org'))")
    assert again.text == "7 200\n"
    science = book.run("%sentinel_profile datascience\nfetch('web.example.org')")
    assert science.reply["ename"] == "gaierror"
    inside = (
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "with socket.create_connection(server.getsockname(), 20): print('inside')"
    )
    assert book.run(inside).text == "inside\n"


def test_an_interrupt_ends_a_connection_that_takes_long(book: Notebook) -> None:
    answered(book, "%sentinel_profile listed\n%sentinel_allow 203.0.113.250:80\n1", "y")
    msg_id = book.send("print('begun', flush=True)\nsocket.create_connection(('203.0.113.250', 80))")
    while book.client.get_iopub_msg(timeout=SECONDS)["msg_type"] != "stream":
        pass
    book.manager.interrupt_kernel()
    assert book.collect(msg_id)[0].reply["ename"] == "KeyboardInterrupt"


def test_a_sandbox_without_a_way_out_is_given_one_with_the_persons_yes(
    outside: World, tmp_path: Path
) -> None:
    with outside.notebook("datascience", SENTINEL_AUDIT=str(tmp_path / "audit" / "a.db")) as plain:
        page = plain.run("%sentinel_net").bundles("text/plain")[0]
        assert "no way out" in page
        assert "%sentinel_allow HOST:PORT" in page
        plain.run(f"{FETCH}kept = 7; left = (one for one in 'ab')")
        refused = plain.run("fetch('web.example.org')")
        assert refused.reply["ename"] == "gaierror"
        line = "%sentinel_allow web.example.org"
        assert f"HINT: Put `{line}` at the top of the cell" in refused.reply["evalue"]

        plain.run(
            "import os\nos.makedirs('deep', exist_ok=True)\nos.chdir('deep')\nopen('held.py', 'w').close()"
        )
        prompt, declined = answered(plain, f"{line}\n1", "n")
        assert "web.example.org" in prompt
        assert all(word in prompt for word in ("fresh", "[c]", "[f]", "[n]"))
        # What goes with the old sandbox is said before the answer.
        assert "held do not come along" in prompt or "held does not come along" in prompt
        assert prompt.index("start in the notebook's folder again") < prompt.index("[c]")
        assert declined.reply["ename"] == "NetworkError"
        assert "was not allowed: the answer was no. Nothing was sent" in declined.reply["evalue"]
        assert "HINT → Run the cell again and answer c or f" in declined.reply["evalue"]
        assert plain.run("print(kept, os.path.basename(os.getcwd()))").text == "7 deep\n"
        assert plain.run(f"{line} --carry", allow_stdin=False).reply["ename"] == "NetworkError"
        assert plain.run("print(kept)").text == "7\n"

        # A way out that is typed with what becomes of the variables still takes a yes.
        prompt, allowed = answered(
            plain, f"{line} --carry\nprint(kept, fetch('web.example.org'), 'left' in dir())", "y"
        )
        assert "[c]" not in prompt
        assert "web.example.org" in prompt
        assert allowed.text == "7 200 False\n"
        gone = plain.run(
            "import os\nprint(os.path.basename(os.getcwd()) == 'deep', os.path.exists('deep/held.py'))"
        )
        assert gone.text == "False False\n"  # as was said
        assert tried(plain)["granted"] == ["web.example.org"]
        assert plain.run("fetch('other.example.org')").reply["ename"] == "gaierror"
        assert answered(plain, "%sentinel_allow other.example.org:80\nprint(kept)", "y")[1].text == "7\n"
        # Every sandbox after it has the same way out.
        assert plain.run(f"%sentinel_reset\n{FETCH}print(fetch('other.example.org'))").text == "200\n"
    with looked_into(tmp_path / "audit" / "a.db") as database:
        rows = database.execute(
            "SELECT host, address, port, verdict, bytes_out, bytes_in > 0, end_ts >= ts, exec_id IS NOT NULL "
            "FROM connections"
        ).fetchall()
        allowed_rows = database.execute("SELECT count(*) FROM session_events WHERE kind = 'allow'").fetchone()
    request = len("GET /hello.txt HTTP/1.0\r\n\r\n")
    done = [row for row in rows if row[3] == "allowed"]
    assert {row[0] for row in done} == {"web.example.org", "other.example.org"}
    assert {row[2:] for row in done} == {(80, "allowed", request, 1, 1, 1)}
    assert ("other.example.org", "refused") in {(row[0], row[3]) for row in rows}
    assert allowed_rows == (2,)


def test_a_profile_without_a_network_says_what_else_it_takes(book: Notebook) -> None:
    refused = book.run("%sentinel_profile strict\n%sentinel_allow db.example.org:80", allow_stdin=True)
    assert refused.reply["ename"] == "NetworkError"
    assert "%sentinel_profile datascience" in refused.reply["evalue"]
    book.run("%sentinel_profile listed")


def test_a_dry_run_reaches_no_host_and_tells_which_it_would_have(book: Notebook) -> None:
    numeric = "import socket\nsocket.create_connection(('192.0.2.10', 80), 20)"
    assert book.run("print(fetch('web.example.org'))").text == "200\n"
    named = book.run("%%sentinel_dry_run\nfetch('web.example.org')")
    assert named.reply["status"] == "error"
    assert any("web.example.org" in page for page in named.bundles("text/plain"))
    plain = book.run(f"%%sentinel_dry_run\n{numeric}")
    assert plain.reply["ename"] == "OSError"
    assert any(
        "192.0.2.10:80" in page or "web.example.org:80" in page for page in plain.bundles("text/plain")
    )
    assert not named.bundles("application/vnd.sentinel.violation+json")
    # With a connection open, what goes through it could not be told apart.
    book.run("made = socket.create_connection(('web.example.org', 80), 20)")
    refused = book.run(f"%%sentinel_dry_run\n{numeric}")
    assert refused.reply["ename"] == "DryRunError"
    assert "connection to a host is open" in refused.reply["evalue"]
    book.run("made.close()")
    assert book.run("print(fetch('web.example.org'))").text == "200\n"


HIDE = (
    "import array, os, socket\n"
    "ours, theirs = socket.socketpair()\n"
    "made = socket.create_connection(('web.example.org', 80), 20)\n"
    "ours.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [made.fileno()]))])\n"
    "made.close()\n"
)
RECEIVE = (
    "_, rights, _, _ = theirs.recvmsg(1, 64)\n"
    "again = socket.socket(fileno=array.array('i', rights[0][2])[0])\n"
    "again.settimeout(20)\n"
    "again.sendall(b'GET /hello.txt HTTP/1.0\\r\\n\\r\\n')\n"
    "print(kept, again.makefile('rb').read()[:12])"
)


def test_a_connection_in_a_message_between_two_programs_is_ended_as_well(book: Notebook) -> None:
    book.run(f"kept = 8\n{HIDE}")
    received = book.run(RECEIVE)
    assert received.text == "8 b'HTTP/1.1 200'\n", (
        f"the positive control: it goes on where nothing changes; {received.reply}"
    )
    book.run(HIDE)
    ended = book.run(f"%sentinel_profile strict\n{RECEIVE}")
    assert ended.reply.get("ename") in ("ConnectionAbortedError", "BrokenPipeError"), (
        ended.reply,
        ended.text,
    )
    assert book.run("%sentinel_profile listed\nprint(kept)").text == "8\n"


def test_an_allowed_host_that_fails_by_itself_is_not_blamed_on_the_sandbox(book: Notebook) -> None:
    refused = book.run("import socket\nsocket.create_connection(('web.example.org', 80 + 1), 20)")
    assert "%sentinel_allow web.example.org:81" in refused.reply["evalue"], "that port is not allowed"
    answered(book, "%sentinel_allow web.example.org:81\n1", "y")
    plain = book.run("socket.create_connection(('web.example.org', 81), 20)")
    assert (plain.reply["ename"], plain.reply["evalue"]) == (
        "ConnectionRefusedError",
        "[Errno 111] Connection refused",
    )
    assert plain.bundles(VIOLATION_TYPE) == []
    answered(book, "%sentinel_allow nowhere.example.org\n1", "y")
    unknown = book.run("socket.create_connection(('nowhere.example.org', 80), 20)")
    assert unknown.reply["ename"] == "gaierror"
    [told] = unknown.bundles(VIOLATION_TYPE)
    assert told["cause"] == "name_lookup"
    assert told["subject"]["text"] == "nowhere.example.org"
    assert told["remedies"] == []
    for words in (unknown.reply["evalue"], told["message"]["en"] + told["hint"]["en"]):
        assert "could not be looked up outside the sandbox either" in words
        assert "The sandbox has refused nothing" in words
        assert "%sentinel" not in words
    assert "在沙箱外也无法解析" in told["message"]["zh"]


def test_what_a_program_watches_before_it_connects_is_watched_after(book: Notebook) -> None:
    """As programs of Boost.Asio do, by a call that waits or one that does not; and beyond the bounds it is said."""
    watch = (
        "import select, socket\n"
        "def watched(blocking, more=0):\n"
        "    with socket.socket() as made, select.epoll() as waits:\n"
        "        waits.register(made, select.EPOLLOUT)\n"
        "        extra = [select.epoll() for _ in range(more)]\n"
        "        for one in extra:\n"
        "            one.register(made, select.EPOLLOUT)\n"
        "        made.setblocking(blocking)\n"
        "        error = made.connect_ex(where)\n"
        "        for one in extra:\n"
        "            one.close()\n"
        "        return error, waits.poll(0 if error == 105 else 20)[0][0] == made.fileno()\n"
        "where = socket.getaddrinfo('web.example.org', 80, socket.AF_INET)[0][4]\n"
    )
    met = book.run(f"{watch}print(watched(True), watched(False))")
    assert met.text == "(0, True) (115, True)\n"
    refused = book.run("print(watched(True, 40), watched(False, 40))")
    assert refused.text == "(105, True) (105, True)\n"
    told = [content["data"].get(VIOLATION_TYPE) for _, content in refused.outputs if "data" in content]
    violation = next(one for one in reversed(told) if one is not None)
    assert violation["rule"] == "network.hosts: unwatched"
    assert "it would have waited for ever" in violation["message"]["en"]
    assert violation["remedies"] == []
