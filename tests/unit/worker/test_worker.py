"""A worker is ipykernel as its users know it: what a cell sees and does is what it sees and does there."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from lacking import need_module

if TYPE_CHECKING:
    from pathlib import Path

    from warm_init import WarmInit, WorkerClient

pytestmark = pytest.mark.requires("user_namespaces")

# What a cell can ask about its interpreter. Both kernels must answer alike.
QUESTIONS = {
    "path": "sys.path",
    "flags": "tuple(sys.flags), sys.warnoptions, sys._xoptions",
    "argv": "os.path.basename(sys.argv[0]), sys.orig_argv[:3]",
    "main": "sorted(vars(sys.modules['__main__']).keys() - {'__session__'})",
    "main is the cell": "vars(sys.modules['__main__']) is globals(), __name__, '__file__' in globals()",
    "modules": "sorted(m for m in sys.modules if m.partition('.')[0] not in REPLACED)",
    "environment": "sorted(os.environ.keys() - {'JPY_PARENT_PID'})",
    "debugger variable": "os.environ['PYDEVD_USE_FRAME_EVAL'], os.environ['MPLBACKEND']",
    "streams": "[repr(s).partition(' object')[0] for s in (sys.stdout, sys.stderr)], sys.stdin.name",
    "real streams": "sys.__stdout__.fileno(), sys.__stderr__.fileno(), sys.stdout.isatty()",
    "signals": "[str(signal.getsignal(n)) for n in sorted(signal.Signals) if n < 32]",
    "mask": "signal.pthread_sigmask(signal.SIG_BLOCK, ())",
    "session": "os.getpid() == os.getpgid(0) == os.getsid(0)",
    "collector": "gc.isenabled(), gc.get_threshold()",
    "hooks": "sys.excepthook.__name__, type(sys.displayhook), sys.gettrace(), sys.breakpointhook()",
    "multiprocessing": "os.path.samefile(multiprocessing.process.ORIGINAL_DIR, '.'), "
    "multiprocessing.get_start_method()",
    "magics": "sorted(m for k in ('line', 'cell') for m in get_ipython().magics_manager.magics[k] "
    "if 'sentinel' not in m)",
    "shell": "type(get_ipython()), sorted(vars(get_ipython()))",
    "configurable": "sorted(type(c).__name__ for c in get_ipython().configurables)",
    "application": "type(get_ipython().parent.parent).__name__, 'IPKernelApp' in get_ipython().config",
    "extensions": "get_ipython().extension_manager.loaded",
    "namespace": "sorted(get_ipython().user_ns_hidden)",
    "history": "os.path.basename(get_ipython().history_manager.hist_file)",
    "loop": "type(asyncio.get_event_loop()), type(asyncio.get_event_loop_policy())",
    "faulthandler": "faulthandler.is_enabled(), faulthandler.enable.__module__",
    "debugger": "ipykernel.debugger._is_debugpy_available",
    "mask of files": "oct(os.umask(0o22)), os.getcwd() == os.path.realpath('.')",
    "precision": "len(contextvars.copy_context()), locale.getlocale()",
}
ASK = """
import asyncio, contextvars, faulthandler, gc, json, locale, multiprocessing, os, signal, sys, ipykernel.debugger
REPLACED = ("sentinel_kernel", "runpy", "jupyter_client", "debugpy", "pydevd")
print(json.dumps({name: str(eval(question)) for name, question in json.loads(QUESTIONS).items()}))
"""


def plain_answers(folder: Path, cell: str) -> dict[str, str]:
    """Run one cell on plain ipykernel, through its own command line."""
    script = (
        "import sys, jupyter_client\n"
        "from jupyter_client.kernelspec import KernelSpec\n"
        "from ipykernel.kernelspec import make_ipkernel_cmd\n"
        "manager = jupyter_client.KernelManager(transport='ipc')\n"
        "manager._kernel_spec = KernelSpec(argv=make_ipkernel_cmd(), display_name='', language='python')\n"
        "manager.start_kernel()\n"
        "client = manager.blocking_client()\n"
        "client.start_channels()\n"
        "client.wait_for_ready(60)\n"
        "client.execute_interactive(sys.stdin.read(), timeout=60,\n"
        "    output_hook=lambda m: print(m['content'].get('text') or m['content'].get('traceback') or '', end=''))\n"
        "client.stop_channels()\n"
        "manager.shutdown_kernel(now=True)\n"
    )
    home = folder / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        input=cell,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={"HOME": str(home), "LANG": "C.UTF-8", "PATH": os.environ["PATH"], "TMPDIR": str(folder)},
        timeout=120,
    )
    answers: dict[str, str] = json.loads(done.stdout)
    return answers


def test_a_cell_can_not_tell_a_worker_from_ipykernel(tmp_path: Path, init: WarmInit) -> None:
    cell = ASK.replace("QUESTIONS", repr(json.dumps(QUESTIONS)))
    plain = plain_answers(tmp_path, cell)
    ours = json.loads(init.start_worker().run(cell))
    assert set(ast.literal_eval(ours.pop("modules"))) <= set(ast.literal_eval(plain.pop("modules")))
    for name, answer in plain.items():
        assert ours[name] == answer, name


def test_kernel_info_is_ipykernels_own_and_messages_are_unsigned(worker: WorkerClient) -> None:
    info = worker.request("kernel_info_request", {}, "control")
    assert info["implementation"] == "ipython"
    assert info["supported_features"] == ["kernel subshells", "debugger"]
    _, outputs = worker.execute("1")
    assert {message["signature"] for message in outputs} == {b""}
    assert [message["type"] for message in outputs] == ["status", "execute_input", "execute_result", "status"]


def test_the_count_goes_on_where_it_is_told_to(shared_init: WarmInit) -> None:
    other = shared_init.start_worker("--SentinelKernel.first_execution_count=41")
    assert other.execute("1")[0]["execution_count"] == 41
    assert other.execute("2")[0]["execution_count"] == 42
    assert other.run("print(Out[42], In[42], _i41)") == "2 2 1"
    assert other.run("%history 42") == "2"


def test_arguments_reach_ipython(shared_init: WarmInit) -> None:
    other = shared_init.start_worker("--HistoryManager.hist_file=:memory:")
    assert other.run("print(get_ipython().history_manager.hist_file)") == ":memory:"
    assert other.run("import sys; print(sys.argv[1:])") == "['--HistoryManager.hist_file=:memory:']"


def test_options_that_need_a_parser_get_one(shared_init: WarmInit) -> None:
    other = shared_init.start_worker(
        "--quiet", "--InteractiveShellApp.exec_lines=a=1", "--InteractiveShellApp.exec_lines=b=2"
    )
    assert other.run("print(a + b, get_ipython().parent.parent.log_level)") == "3 50"


def test_history_is_kept_in_home(worker: WorkerClient) -> None:
    worker.run("'a line to find again'")
    content = {"hist_access_type": "search", "pattern": "*find again*", "output": False, "raw": True, "n": 1}
    history = worker.request("history_request", content)["history"]
    assert history[0][2] == "'a line to find again'"
    assert worker.run("import os; print(os.path.exists(os.path.expanduser('~/.ipython')))") == "True"


def test_the_session_name_is_known_and_nothing_of_ours_is(shared_init: WarmInit) -> None:
    worker = shared_init.start_worker()
    assert worker.run("%whos") == "Interactive namespace is empty."
    assert worker.run("print(__session__)") == "/home/ada/notes.ipynb"
    assert worker.run("print([name for name in globals() if 'sentinel' in name.lower()])") == "[]"
    assert worker.run("import sys; print([p for p in sys.path if 'lib/sentinel' in p])") == "[]"


# --- magics of the host ------------------------------------------------------------------------------------------


def test_leading_magics_do_nothing(worker: WorkerClient) -> None:
    assert worker.run("# a\n%sentinel_status\n\n%sentinel_profile \\\nweb # c\nprint(1)") == "1"
    assert worker.run("  %sentinel_status\n  print(2)") == "2"
    assert worker.run("%sentinel_help") == ""
    assert worker.run("%sentinel_status\n%%capture held\nprint(3)") == ""
    assert worker.run("print(held.stdout)") == "3"
    _, outputs = worker.execute("%sentinel_status\nget_ipython().history_manager.input_hist_raw[-1]")
    assert "%sentinel_status" in outputs[2]["content"]["data"]["text/plain"]


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\n%sentinel_status",
        "%%time\n%sentinel_status",
        "sentinel_status",
        ">>> %sentinel_status",
        "%sentinel_reset\nget_ipython().run_line_magic('sentinel_reset', '')",
        "%sentinel_reset\nget_ipython().run_line_magic('sentinel_status', '')",
        "if True:\n    %sentinel_status",
        "x = %sentinel_status",
    ],
)
def test_a_magic_further_down_is_an_explained_error(worker: WorkerClient, code: str) -> None:
    reply, outputs = worker.execute(code)
    said = str([reply, *(message["content"] for message in outputs)])
    assert "UsageError" in said
    assert "must be one of the first lines of a cell" in said


@pytest.mark.parametrize("above", ["x = 1\n", "%%time\n", "if True:\n    "])
def test_a_dry_run_further_down_is_an_explained_error(worker: WorkerClient, above: str) -> None:
    reply, outputs = worker.execute(f"{above}%%sentinel_dry_run\nprint(2)")
    said = str([reply, *(message["content"] for message in outputs)])
    assert "UsageError" in said
    assert "%%sentinel_dry_run stands alone on the first line of a cell" in said
    assert "not found" not in said


def test_help_on_a_magic_says_whose_it_is(worker: WorkerClient) -> None:
    reply, _ = worker.execute("%sentinel_status?")
    assert "Sentinel's host" in reply["payload"][0]["data"]["text/plain"]
    reply, _ = worker.execute("%sentinel_profile?")
    shown = reply["payload"][0]["data"]["text/plain"]
    assert "%sentinel_profile [NAME [--carry|--fresh]]" in shown
    assert "For example: %sentinel_profile datascience" in shown
    completions = worker.request("complete_request", {"code": "%sentinel_st", "cursor_pos": 12})
    assert "%sentinel_status" in completions["matches"]


@pytest.mark.parametrize("magic", ["pip", "uv pip"])
def test_a_magic_that_installs_takes_names_as_its_cell_has_them(worker: WorkerClient, magic: str) -> None:
    shown = worker.run(
        "def installs():\n"
        "    line = run = magic_name = 'rivers'\n"
        f"    %{magic} install {{line}} {{run}} $magic_name\n"
        "get_ipython().system = lambda command: print(command.partition(' install ')[2])\n"
        "try:\n    installs()\nfinally:\n    del get_ipython().system"
    )
    assert shown == "rivers rivers rivers"


# --- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_runs_functions_from_the_workspace(
    worker: WorkerClient, shared_init: WarmInit, method: str
) -> None:
    (shared_init.workspace / "square.py").write_text("def square(x):\n    return x * x\n")
    assert (
        worker.run(
            "import multiprocessing, square\n"
            f"with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
            "    print(pool.map(square.square, range(4)))"
        )
        == "[0, 1, 4, 9]"
    )


def test_what_a_cell_defines_can_be_pickled(worker: WorkerClient) -> None:
    worker.run("class Point:\n    def __init__(self, x): self.x = x\ndef double(p): return p.x * 2")
    assert worker.run("import pickle; print(pickle.loads(pickle.dumps(Point(3))).x, Point.__module__)") == (
        "3 __main__"
    )
    assert worker.run(
        "import multiprocessing\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool: print(pool.map(double, [Point(4)]))"
    ) == ("[8]")


def test_forked_children_print_into_the_cell(worker: WorkerClient) -> None:
    text = worker.run(
        "import os, sys, multiprocessing\n"
        "process = multiprocessing.get_context('fork').Process(target=print, args=('from a child',))\n"
        "process.start(); process.join()\n"
        "import time; time.sleep(0.3)"
    )
    assert text == "from a child"


def test_descriptors_and_commands_print_into_the_cell(worker: WorkerClient) -> None:
    text = worker.run(
        "import os, subprocess, sys\n"
        "subprocess.run(['echo', 'a command'])\n"
        "os.write(1, b'a descriptor\\n')\n"
        "!echo a shell\n"
        "import time; time.sleep(0.3)"
    )
    assert set(text.split("\n")) >= {"a command", "a descriptor"}
    assert "a shell" in text


def test_an_interrupt_from_outside_reaches_the_cell_and_its_children(worker: WorkerClient) -> None:
    pid = int(worker.run("import os, subprocess, time; print(os.getpid())"))
    assert pid > 1
    message_id = worker.begin(
        "child = subprocess.Popen(['sleep', '1000'])\nprint('sleeping', flush=True)\ntime.sleep(1000)"
    )
    # The control thread does here what the supervisor does outside: SIGINT for the whole process group.
    worker.outputs_until(message_id, "stream")
    assert worker.request("interrupt_request", {}, "control")["status"] == "ok"
    assert worker.reply(message_id)["ename"] == "KeyboardInterrupt"
    worker.outputs(message_id)
    assert worker.run("print(child.wait(10))") == str(-signal.SIGINT)


def test_a_cell_reads_from_stdin(worker: WorkerClient) -> None:
    message_id = worker.begin("print(input('name? ') + '!')", allow_stdin=True)
    assert worker.receive("stdin")["content"]["prompt"] == "name? "
    worker.send("input_reply", {"value": "Ada"}, "stdin")
    texts = [m["content"]["text"] for m in worker.outputs(message_id) if m["type"] == "stream"]
    assert "".join(texts) == "Ada!\n"


def test_a_subshell_runs_beside_a_cell(worker: WorkerClient) -> None:
    subshell = worker.request("create_subshell_request", {}, "control")["subshell_id"]
    blocked = worker.begin("import threading; gate = threading.Event(); gate.wait(60)")
    other = worker.begin(
        "%sentinel_status\nwhile 'gate' not in globals(): pass\ngate.set()", subshell_id=subshell
    )
    assert worker.replies(blocked, other) == ["ok", "ok"]
    worker.request("delete_subshell_request", {"subshell_id": subshell}, "control")


def test_plots_are_shown_inline(worker: WorkerClient) -> None:
    need_module("matplotlib")
    _, outputs = worker.execute("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    shown = [m["content"]["data"] for m in outputs if m["type"] == "display_data"]
    assert "image/png" in shown[0]


def test_coroutines_run_in_the_kernels_loop(worker: WorkerClient) -> None:
    assert worker.run(
        "import asyncio\n"
        "process = await asyncio.create_subprocess_exec('echo', 'a', stdout=asyncio.subprocess.PIPE)\n"
        "print((await process.communicate())[0].decode().strip(), await asyncio.sleep(0, 'b'))"
    ) == ("a b")


# --- what is loaded late ------------------------------------------------------------------------------------------


def test_the_debugger_is_loaded_by_the_first_request(shared_init: WarmInit) -> None:
    (shared_init.workspace / "queue.py").write_text("raise RuntimeError('not the standard library')\n")
    (shared_init.workspace / "xmlrpc.py").write_text("raise RuntimeError('not the standard library')\n")
    other = shared_init.start_worker()
    assert other.run("import sys; print('debugpy' in sys.modules)") == "False"
    assert other.run("breakpoint(); print('on')") == "on"
    request = {"type": "request", "seq": 1, "command": "debugInfo"}
    info = other.request("debug_request", request, "control")
    assert (info["success"], info["body"]["isStarted"]) == (True, False)
    assert (
        other.run("print('debugpy' in sys.modules, get_ipython().kernel.debugger.is_started)") == "True False"
    )
    assert other.run("breakpoint(); print(sys.breakpointhook.__name__)") == "debugpy_breakpointhook"
    (shared_init.workspace / "queue.py").unlink()
    (shared_init.workspace / "xmlrpc.py").unlink()


def test_a_hook_of_the_users_own_survives_the_debuggers_coming(shared_init: WarmInit) -> None:
    other = shared_init.start_worker()
    other.run("import sys; sys.breakpointhook = lambda: print('mine')")
    other.request("debug_request", {"type": "request", "seq": 1, "command": "debugInfo"}, "control")
    assert other.run("breakpoint()") == "mine"


def test_modules_loaded_late_are_the_real_ones(worker: WorkerClient) -> None:
    assert worker.run(
        "import importlib, jupyter_client, http, email\n"
        "print(importlib.metadata.version('ipykernel') == __import__('ipykernel').__version__,\n"
        "      jupyter_client.KernelManager.__name__, jupyter_client.session.Session.__name__,\n"
        "      http.client.responses[200], email.utils.quote('\"'), 'BlockingKernelClient' in dir(jupyter_client))"
    ) == ('True KernelManager Session OK \\" True')


# --- outputs ------------------------------------------------------------------------------------------------------


def test_outputs_keep_their_order_and_come_before_idle(worker: WorkerClient) -> None:
    for round_number in range(30):
        _, outputs = worker.execute(
            "from IPython.display import display\n"
            "import sys\n"
            "for n in range(5):\n"
            f"    print('out', {round_number}, n)\n"
            "    display(n)\n"
            "    print('err', n, file=sys.stderr)\n"
            "print('last', end='')"
        )
        displays = [m["content"]["data"]["text/plain"] for m in outputs if m["type"] == "display_data"]
        assert displays == ["0", "1", "2", "3", "4"]
        written = ""
        for message in outputs:
            if message["type"] == "stream" and message["content"]["name"] == "stdout":
                written += message["content"]["text"]
            if message["type"] == "display_data":
                assert written.count("\n") == int(message["content"]["data"]["text/plain"]) + 1
        text = "".join(m["content"]["text"] for m in outputs if m["type"] == "stream")
        assert text.count("\n") == 10
        assert "last" in text


def test_no_output_is_lost_to_a_reader_that_lags(worker: WorkerClient) -> None:
    _, outputs = worker.execute(
        "from IPython.display import display\nfor n in range(3000): display({'n': n}, raw=False)"
    )
    assert sum(message["type"] == "display_data" for message in outputs) == 3000


def test_text_written_in_a_thread_is_not_held_back(worker: WorkerClient) -> None:
    text = worker.run(
        "import sys, threading\n"
        "def write():\n"
        "    for n in range(200): sys.stdout.write(f'{n}\\n')\n"
        "threads = [threading.Thread(target=write) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()"
    )
    assert sorted(map(int, text.split())) == sorted(list(range(200)) * 4)


def test_interrupts_amid_output_leave_the_output_working(worker: WorkerClient) -> None:
    for _ in range(10):
        message_id = worker.begin("while True: print('x', flush=True)")
        worker.outputs_until(message_id, "stream")
        worker.request("interrupt_request", {}, "control")
        assert worker.reply(message_id)["ename"] == "KeyboardInterrupt"
        worker.outputs(message_id)
        assert worker.run("print('still here')") == "still here"


def test_a_cell_is_transformed_once(shared_init: WarmInit) -> None:
    other = shared_init.start_worker()
    other.run(
        "calls = []\nget_ipython().input_transformers_cleanup.append(lambda lines: calls.append(1) or lines)"
    )
    assert other.run("x = 1") == ""
    assert other.run("print(len(calls))") == "2"
    assert other.run(
        "ip = get_ipython(); print(ip.transform_cell('%ls') == ip.transform_cell('%ls'), len(calls))"
    ) == ("True 5")
    reply, _ = other.execute("x = ]")
    assert reply["ename"] == "SyntaxError"
