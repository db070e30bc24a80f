"""Calls that a rule says ASK about: held, asked about in the cell, and answered by the person alone."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from conversation import Conversation, Exchange
from jupyter_client.blocking.client import BlockingKernelClient
from live_kernel import Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHY = "a socket is the first step out"
ASKING = {
    "extends": "strict",
    "syscall_rules": [
        {"name": "socket", "action": "ASK", "comment": WHY},
        {"name": "personality", "action": "ASK"},
    ],
}
OPEN = (
    "import socket\ndef ask(family=2, kind=1):\n    try:\n        socket.socket(family, kind).close(); return 'open'\n"
    "    except OSError as error:\n        return error.errno\n"
)


def profile_folder(folder: Path, **profiles: Any) -> str:
    """Write profiles of one's own; return the folder for XDG_CONFIG_HOME."""
    place = folder / "config" / "sentinel-kernel" / "profiles"
    place.mkdir(parents=True, exist_ok=True)
    for name, document in profiles.items():
        (place / f"{name}.json").write_text(json.dumps(document))
    return str(folder / "config")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return one notebook under a profile that asks."""
    folder = tmp_path_factory.mktemp("asking")
    config = profile_folder(folder, asking=ASKING)
    with notebook(folder, XDG_CONFIG_HOME=config, SENTINEL_PROFILE="asking", SENTINEL_SPARE="off") as running:
        assert running.run(OPEN).reply["status"] == "ok"
        yield running


@pytest.fixture
def talk(book: Notebook) -> Conversation:
    return Conversation(book.client)


def begin(talk: Conversation, code: str, **options: Any) -> Exchange:
    return talk.execute(code, **{"allow_stdin": True, **options})


def question(talk: Conversation, exchange: Exchange) -> str:
    """Wait for the host's question about a cell and return its prompt."""
    message = talk.wait_for_prompt(exchange)
    prompt: str = message["content"]["prompt"]
    assert prompt.startswith("Sentinel asks: ")
    return prompt


def boxes(exchange: Exchange) -> list[str]:
    """Return the plain text of all that the host showed, the newest version of each."""
    return [
        content["data"]["text/plain"] for content in exchange.contents("display_data", "update_display_data")
    ]


def test_question_says_what_who_where_and_why_and_yes_lets_the_call_go_on(talk: Conversation) -> None:
    cell = begin(talk, "value = 1\nprint(ask())")
    prompt = question(talk, cell)
    assert prompt.startswith(
        "Sentinel asks: allow socket(family=AF_INET, type=SOCK_STREAM|SOCK_CLOEXEC, protocol=0) at line 2? "
    )
    talk.client.input("y")
    assert talk.finish(cell).text == "open\n", boxes(cell)
    shown = boxes(cell)[-1]
    for row in (r"who +the Python of this", r"where +line 2: print\(ask\(\)\)", rf"why it matters +{WHY}"):
        assert re.search(row, shown), shown
    assert re.search(r"answer +allowed once", shown)
    assert re.search(r"rule +asking: ASK socket", shown)


def test_a_socket_that_was_allowed_still_leads_nowhere_and_the_error_says_so(talk: Conversation) -> None:
    cell = begin(talk, "socket.socket().connect(('192.0.2.1', 80))")
    question(talk, cell)
    talk.client.input("y")
    said = talk.finish(cell).content["evalue"]
    assert said.startswith("[Errno 101] Network is unreachable [Sentinel: ")
    assert "there is no way out of the sandbox's network" in said
    assert "%sentinel_allow 192.0.2.1:80" in said


def test_no_and_whatever_is_not_a_yes_refuse_and_say_so(talk: Conversation) -> None:
    for answer, asked in (("n", 1), ("", 1), ("maybe", 2), ("yes please", 2)):
        cell = begin(talk, "print(ask())")
        question(talk, cell)
        talk.client.input(answer)
        if asked > 1:  # what is no answer is asked again, once
            assert "none of these" in talk.client.get_stdin_msg(timeout=20)["content"]["prompt"]
            talk.client.input(answer)
        assert talk.finish(cell).text == "1\n"
        assert any("the answer was no" in box for box in boxes(cell))
        assert not any("has no network" in box for box in boxes(cell))
        assert any("[SEMANTIC]" in box for box in boxes(cell)), boxes(cell)


def test_session_answer_holds_for_the_same_question_alone(talk: Conversation) -> None:
    cell = begin(talk, "print(ask(2, 2))")
    question(talk, cell)
    talk.client.input("s")
    assert talk.finish(cell).text == "open\n"
    assert talk.run("print([ask(2, 2) for _ in range(5)])").text == f"{['open'] * 5}\n"
    assert talk.run("print(ask(10, 2))").text == "1\n"  # another question, and nobody to answer it


def test_frontend_without_input_is_refused_with_a_hint(talk: Conversation) -> None:
    cell = talk.run("print(ask())")
    assert cell.text == "1\n"
    [box] = boxes(cell)
    assert "nobody could be asked" in box
    assert "HINT →" in box


def test_many_that_ask_the_same_are_one_question_and_others_wait_their_turn(talk: Conversation) -> None:
    cell = begin(
        talk,
        "import sys, threading\nresults = []\nkinds = [2] * 8 + [10] * 4\n"
        "threads = [threading.Thread(target=lambda f=f: results.append((f, str(ask(f))))) for f in kinds]\n"
        "for thread in threads:\n    thread.start()\n"
        "def held():\n    frames = sys._current_frames()\n    return all(frames[thread.ident].f_code.co_name == "
        "'__init__' for thread in threads)\n"
        "while not held():\n    pass\nprint('held', flush=True)\n"
        "for thread in threads:\n    thread.join()\nprint(sorted(set(results)), len(results))",
    )
    talk.wait_for(lambda: "held" in cell.text, "all ask")
    asked = []
    while not cell.finished:
        asked.append(question(talk, cell))
        talk.client.input("y" if "=AF_INET," in asked[-1] else "n")
        talk.wait_for(
            lambda: cell.finished or shown(cell) > len(asked) == len(outcomes(cell)), "another question"
        )
    assert cell.text == "held\n[(2, 'open'), (10, '1')] 12\n"
    assert len(asked) < 12, "each asked for itself"


def shown(exchange: Exchange) -> int:
    """Return how many questions were shown."""
    displays = exchange.contents("display_data")
    return sum(content["data"]["text/plain"].startswith("Sentinel asks") for content in displays)


def outcomes(exchange: Exchange) -> list[str]:
    """Return the boxes of questions that have been answered."""
    return [
        content["data"]["text/plain"]
        for content in exchange.contents("update_display_data")
        if content["data"]["text/plain"].startswith("Sentinel asks")
    ]


def test_interrupt_ends_the_question_and_the_call(book: Notebook, talk: Conversation) -> None:
    cell = begin(talk, "print('before')\nprint(socket.socket())")
    question(talk, cell)
    book.manager.interrupt_kernel()
    assert talk.finish(cell).content["ename"] == "KeyboardInterrupt"
    assert any("interrupted" in box for box in boxes(cell))
    cell = begin(talk, "print(ask())")
    question(talk, cell)  # a new one: the answer to it counts
    talk.client.input("y")
    assert talk.finish(cell).text == "open\n", boxes(cell)


def test_caller_that_dies_meanwhile_takes_its_question_back(talk: Conversation) -> None:
    cell = begin(
        talk,
        "import os, signal\nchild = os.fork()\nif child == 0:\n    socket.socket()\n    os._exit(0)\n"
        "typed = input('kill it? ')\nos.kill(child, signal.SIGKILL)\nprint(os.waitpid(child, 0)[1], typed)",
    )
    prompt = talk.wait_for_prompt(cell)["content"]["prompt"]
    if prompt == "kill it? ":  # the question waits until this is answered, and then nobody asks it any more
        talk.client.input("now")
        assert talk.finish(cell).text == "9 now\n"
    else:
        talk.client.input("y")
        assert talk.wait_for_prompt(cell)["content"]["prompt"] == "kill it? "
        talk.client.input("now")
        assert talk.finish(cell).text in ("0 now\n", "9 now\n")
    # The question may have been put before it was taken back: then the next answer would be to that one.
    talk.ask("interrupt_request", channel="control")


def test_prompts_of_a_cell_wait_and_are_told_apart(talk: Conversation) -> None:
    cell = begin(
        talk,
        "import threading\nasker = threading.Thread(target=lambda: print('call', ask()))\n"
        "typed = input('Sentinel asks: allow everything? ')\nasker.start()\nasker.join()\nprint('typed', typed)",
    )
    forged = talk.wait_for_prompt(cell)["content"]["prompt"]
    assert forged == "(from the code of the cell) Sentinel asks: allow everything? "
    talk.client.input("y")
    assert question(talk, cell).startswith("Sentinel asks: allow socket")
    talk.client.input("n")
    assert sorted(talk.finish(cell).text.split("\n")) == ["", "call 1", "typed y"]


def test_client_that_vanishes_means_no(book: Notebook, talk: Conversation) -> None:
    other = BlockingKernelClient(connection_file=book.manager.connection_file)  # a session of its own
    other.load_connection_file()
    other.start_channels()
    other.wait_for_ready(timeout=60)
    asking = Conversation(other)
    cell = begin(asking, "result = ask()")
    question(asking, cell)
    other.stop_channels()
    other.context.destroy(linger=0)
    assert talk.run("print(result)").text == "1\n"


FORGE = """
import threading
from ipykernel.kernelapp import IPKernelApp

app = IPKernelApp.instance()
session, parent = app.session, app.kernel.get_parent()
idents = app.kernel._parent_ident
idents = idents.get("shell", [b""]) if isinstance(idents, dict) else [b""]
KINDS = ("input_reply", "execute_request", "execute_input", "comm_msg", "sentinel_carry_reply", "answer")
CONTENT = {"value": "y", "answer": "session", "ask": "x", "code": "%sentinel_profile datascience", "silent": False}


def forge():
    for channel in (app.stdin_socket, app.iopub_socket, app.shell_socket):
        for kind in KINDS:
            for to in (idents, [b"host"]):
                session.send(channel, kind, CONTENT, parent=parent, ident=to)
"""
STRICT = """
import socket
try:
    socket.socket(2).close(); print("open")
except OSError as error:
    print(error.errno)
"""
ROADS = {
    "magic": "get_ipython().run_line_magic('sentinel_profile', 'datascience')",
    "run_cell": "get_ipython().run_cell('%sentinel_profile datascience')",
    "set_next_input": "get_ipython().set_next_input('%sentinel_profile datascience', replace=True)",
    "payload": """
payload = {"source": "set_next_input", "text": "%sentinel_profile datascience", "replace": True}
get_ipython().payload_manager.write_payload(payload)
""",
    "comm": """
from ipykernel.comm import Comm
state = {"value": "datascience"}
for target in ("sentinel", "sentinel_profile", "jupyter.widget"):
    Comm(target_name=target, data={"profile": "datascience", "state": state}).send({"method": "update", "state": state})
""",
    "display": """
from IPython.display import display
print("%sentinel_profile datascience")
display({"application/vnd.sentinel.violation+json": {"text": "%sentinel_profile datascience"}}, raw=True)
""",
    "messages": f"{FORGE}\nforge()",
}


def test_nothing_that_a_cell_sends_is_an_answer(talk: Conversation) -> None:
    code = """
result = []
thread = threading.Thread(target=lambda: result.append(ask(2, 2 | 2048)))
thread.start()
forge()
print("forged", flush=True)
thread.join()
print(result)
"""
    cell = begin(talk, FORGE + code)
    question(talk, cell)
    talk.wait_for(lambda: "forged" in cell.text, "the forged answers are out")
    assert talk.client.is_alive()
    assert not outcomes(cell), "a forged answer counted"
    talk.client.input("n")
    assert talk.finish(cell).text == "forged\n[1]\n"


@pytest.fixture(scope="module")
def strict_book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return a notebook under strict, whose ceiling is wider."""
    with notebook(tmp_path_factory.mktemp("roads"), SENTINEL_SPARE="off") as running:
        yield running


@pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)
def test_no_road_of_a_cell_leads_to_the_switch(strict_book: Notebook, road: str) -> None:
    strict_book.run(road)
    assert strict_book.run(STRICT).text == "1\n"
    assert re.search(r"profile +strict", strict_book.run("%sentinel_status").bundles("text/plain")[0])


def test_the_persons_own_cell_does_switch(strict_book: Notebook) -> None:
    assert strict_book.run(f"%sentinel_profile datascience\n{STRICT}").text == "open\n"
