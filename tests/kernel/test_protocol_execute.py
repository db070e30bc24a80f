"""Cells as the protocol has them: options, order, displays, input; the same assertions on both kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conversation import Conversation
    from live_kernel import Notebook

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

MIB = 1024 * 1024


def test_busy_is_first_and_idle_last_and_all_name_their_request(talk: Conversation) -> None:
    cell = talk.run("import sys\nprint('out')\nsys.stdout.flush()\nprint('err', file=sys.stderr)\n'result'")
    assert cell.kinds == ["busy", "execute_input", "stream", "stream", "execute_result", "idle"]
    for message in [*cell.published, cell.reply]:
        assert message["parent_header"]["msg_id"] == cell.msg_id
        assert message["parent_header"]["session"] == talk.client.session.session
        assert message["parent_header"]["msg_type"] == "execute_request"
    assert len({message["header"]["msg_id"] for message in [*cell.published, cell.reply]}) == 7
    count = cell.content["execution_count"]
    assert cell.contents("execute_input") == [{"code": cell_source(cell), "execution_count": count}]
    assert cell.contents("execute_result")[0]["execution_count"] == count
    assert {"status", "execution_count", "user_expressions", "payload"} <= cell.content.keys()


def cell_source(cell: Any) -> str:
    [source] = [content["code"] for content in cell.contents("execute_input")]
    return str(source)


def test_a_silent_cell_shows_nothing_and_does_not_count(talk: Conversation) -> None:
    before = talk.run("pass").content["execution_count"]
    silent = talk.run("silent_value = 7; 'no result'", silent=True, store_history=False)
    assert silent.kinds == ["busy", "idle"]
    assert silent.content["status"] == "ok"
    after = talk.run("print(silent_value)")
    assert after.text == "7\n"
    assert after.content["execution_count"] == before + 1


def test_a_cell_that_is_not_stored_is_not_in_the_history(talk: Conversation) -> None:
    before = talk.run("pass").content["execution_count"]
    hidden = talk.run("hidden_value = 1", store_history=False)
    assert hidden.kinds == ["busy", "execute_input", "idle"]
    assert talk.run("pass").content["execution_count"] == before + 1
    history = talk.ask("history_request", {"hist_access_type": "tail", "n": 3, "output": False, "raw": True})
    assert "hidden_value = 1" not in [entry[2] for entry in history.content["history"]]


def test_user_expressions_are_evaluated_behind_the_cell_and_fail_one_by_one(talk: Conversation) -> None:
    cell = talk.run("base = 20", user_expressions={"good": "base + 1", "bad": "1/0"})
    good, bad = cell.content["user_expressions"]["good"], cell.content["user_expressions"]["bad"]
    assert (good["status"], good["data"]["text/plain"]) == ("ok", "21")
    assert (bad["status"], bad["ename"]) == ("error", "ZeroDivisionError")
    assert cell.content["status"] == "ok"


def test_an_error_aborts_the_cells_behind_it_and_only_those(talk: Conversation) -> None:
    slow = "import time\nprint('on')\ntime.sleep(0.3)\n1/0"
    failing = talk.execute(slow)
    talk.wait_for_output(failing, "stream")
    waiting, question = talk.execute("print('never')"), talk.send("kernel_info_request")
    for exchange in (failing, waiting, question):
        talk.finish(exchange)
    assert failing.content["ename"] == "ZeroDivisionError"
    assert failing.contents("error")[0]["traceback"] == failing.content["traceback"]
    assert waiting.content["status"] == "aborted"
    assert waiting.kinds == ["busy", "idle"]
    assert question.content["status"] == "ok"
    assert talk.run("print('again')").text == "again\n"


def test_without_stop_on_error_the_cells_behind_it_run(talk: Conversation) -> None:
    failing = talk.execute("import time; time.sleep(0.1); 1/0", stop_on_error=False)
    waiting = talk.execute("print('all the same')")
    assert talk.finish(failing).content["status"] == "error"
    assert talk.finish(waiting).text == "all the same\n"


@pytest.mark.parametrize("code", ["input('Name? ')", "import getpass; getpass.getpass()"])
def test_nobody_is_asked_who_does_not_allow_it(talk: Conversation, code: str) -> None:
    cell = talk.run(code, allow_stdin=False)
    assert cell.content["ename"] == "StdinNotImplementedError"


@pytest.mark.parametrize(
    ("code", "hidden"),
    [("answer = input('Name? ')", False), ("import getpass; answer = getpass.getpass('Name? ')", True)],
)
def test_input_is_asked_and_answered(talk: Conversation, code: str, hidden: bool) -> None:
    cell = talk.execute(code, allow_stdin=True)
    prompt = talk.wait_for_prompt()
    assert prompt["content"] == {"prompt": "Name? ", "password": hidden}
    assert prompt["parent_header"]["msg_id"] == cell.msg_id
    talk.client.input("Ada Løvelace")
    assert talk.finish(cell).content["status"] == "ok"
    assert talk.run("print(answer)").text == "Ada Løvelace\n"


def test_input_twice_in_a_cell(talk: Conversation) -> None:
    cell = talk.execute("answers = [input(), input()]", allow_stdin=True)
    for answer in ("one", "two"):
        talk.wait_for_prompt()
        talk.client.input(answer)
    talk.finish(cell)
    assert talk.run("print(answers)").text == "['one', 'two']\n"


def test_clear_output_now_and_with_the_next(talk: Conversation) -> None:
    code = (
        "from IPython.display import clear_output, display\n"
        "print('a'); clear_output(); clear_output(wait=True); print('b')"
    )
    cell = talk.run(code)
    assert cell.kinds[2:-1] == ["stream", "clear_output", "clear_output", "stream"]
    assert [content["wait"] for content in cell.contents("clear_output")] == [False, True]


def test_a_display_is_updated_from_a_later_cell(talk: Conversation) -> None:
    shown = talk.run("handle = display('first', display_id='shared')").contents("display_data")[0]
    assert shown["transient"] == {"display_id": "shared"}
    update = talk.run("handle.update('second')").contents("update_display_data")[0]
    assert update["transient"] == {"display_id": "shared"}
    assert update["data"]["text/plain"] == "'second'"
    again = talk.run("display('third', display_id='shared', update=True);")
    assert again.kinds[2:-1] == ["update_display_data"]


def test_payloads_come_with_the_reply(talk: Conversation) -> None:
    page = talk.run("zip?").content["payload"]
    assert [payload["source"] for payload in page] == ["page"]
    assert "zip" in page[0]["data"]["text/plain"]
    [following] = talk.run("get_ipython().set_next_input('x = 1')").content["payload"]
    assert (following["source"], following["text"]) == ("set_next_input", "x = 1")


def test_output_of_a_thread_belongs_to_the_cell_that_runs_or_started_it(talk: Conversation) -> None:
    code = (
        "import threading\n"
        "go, gone = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait()\n    print('from the thread', flush=True)\n    gone.set()\n"
        "threading.Thread(target=late).start()\n"
    )
    first = talk.run(code)
    second = talk.run("go.set(); gone.wait(); print('second')")
    assert (first.text + second.text).splitlines() == ["from the thread", "second"]


def test_top_level_await(talk: Conversation) -> None:
    cell = talk.run("import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, result='awaited')")
    assert cell.contents("execute_result")[0]["data"]["text/plain"] == "'awaited'"


@pytest.mark.parametrize(
    "text", ["naïve Ω 漢字 🎈", "\u2028\u2029\x85", "a\tb\r\n\x1b[31mred\x1b[0m", "\ufeffbom", "\x00nul"]
)
def test_every_character_passes_both_ways(talk: Conversation, text: str) -> None:
    cell = talk.run(f"value = {text!r}\nprint(value, end='')\nvalue")
    assert cell.text == text
    assert cell.contents("execute_result")[0]["data"]["text/plain"] == repr(text)
    typed = talk.run("typed = '''" + text.replace("\r\n", "\n").replace("\x00", "") + "'''")
    assert typed.content["status"] == "ok"


@pytest.mark.parametrize("character", ["\\ud800", "\\udcff"])
def test_a_lone_surrogate_is_no_reason_to_lose_a_reply_or_an_output(
    ours: Conversation, character: str
) -> None:
    assert ours.run(f"value = '<{character}>'\nprint(value)").text == "<?>\n"
    failed = ours.run("raise ValueError(value)", user_expressions={"value": "value"})
    assert failed.content["evalue"] == "<?>"
    assert failed.contents("error")[0]["evalue"] == "<?>"
    shown = ours.run("display({'text/plain': value}, raw=True)")
    assert shown.contents("display_data")[0]["data"]["text/plain"] == "<?>"


def test_large_messages_pass_both_ways(talk: Conversation) -> None:
    source = f"big = {'x' * (4 * MIB)!r}\nprint(len(big))"
    assert talk.run(source).text == f"{4 * MIB}\n"
    shown = talk.run("from IPython.display import display\ndisplay({'text/plain': big * 4}, raw=True)")
    assert len(shown.contents("display_data")[0]["data"]["text/plain"]) == 16 * MIB
    printed = talk.run("print(big * 2)")
    assert len(printed.text) == 8 * MIB + 1


def test_what_the_kernel_sees_of_the_client_is_the_client_alone(both: Notebook, talk: Conversation) -> None:
    session = both.client.session
    cell = talk.run("kernel = get_ipython().kernel; print(kernel._parent_ident['shell'])")
    assert cell.text == f"[{session.bsession!r}]\n"
    parent = talk.run("header = kernel.get_parent('shell')['header']; print(header['session'])")
    assert parent.text == f"{session.session}\n"


def test_metadata_of_a_cell_comes_back_in_its_parent_header_and_times_in_the_reply(
    talk: Conversation,
) -> None:
    exchange = talk.send(
        "execute_request", {"code": "pass", "silent": False}, metadata={"cellId": "c1", "deletedCells": []}
    )
    talk.finish(exchange)
    assert {"started", "dependencies_met", "engine", "status"} <= exchange.reply["metadata"].keys()
