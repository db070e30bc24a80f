"""Each refusal, limit and death names its line: in threads, children, libraries, under magics; or says it guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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

EARLIER = """\
import asyncio, ctypes, multiprocessing, os, signal, socket, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor

def earlier(family=socket.AF_INET):
    try:
        socket.socket(family)
    except OSError:
        pass

libc = ctypes.CDLL(None, use_errno=True)
child = "import socket\\ntry: socket.socket()\\nexcept OSError: pass"
"""
EARLIER_LINE = 6


class Place(NamedTuple):
    """What a violation has to tell of its place."""

    line: int | None
    function: str | None = "<module>"
    library: str | None = "socket.py"
    thread: str | None = None
    started_line: int | None = None
    confidence: str = "certain"


EXECUTED = Place(None, None, None)
REFUSED = {
    "the top level": ("x = 1\ntry: socket.socket()\nexcept OSError: pass", Place(2)),
    "a function": ("def f():\n    try: socket.socket()\n    except OSError: pass\nf()", Place(2, "f")),
    "a function of an earlier cell": ("x = 1\nearlier()", Place(2)),
    "an error that nobody catches": ("\n\nx = 1\nsocket.socket()", Place(4)),
    "a comprehension": (
        "try:\n    [socket.socket() for _ in range(1)]\nexcept OSError: pass",
        Place(2, "<listcomp>"),
    ),
    "a generator": (
        "def g():\n    yield socket.socket()\ntry:\n    list(g())\nexcept OSError: pass",
        Place(2, "g"),
    ),
    "a decorated function": (
        (
            "import functools\ndef d(f):\n    @functools.wraps(f)\n    def w(): return f()\n    return w\n@d\n"
            "def f():\n    earlier()\nf()"
        ),
        Place(8, "f"),
    ),
    "a class": (
        "class A:\n    def __init__(self):\n        earlier()\nA()",
        Place(3, "__init__"),
    ),
    "a finalizer": (
        "class A:\n    def __del__(self):\n        earlier()\na = A()\ndel a",
        Place(3, "__del__"),
    ),
    "a deep recursion": (
        "def f(n):\n    if n: f(n - 1)\n    else: earlier()\nf(200)",
        Place(3, "f"),
    ),
    "a string that is executed": ("x = 1\nexec('earlier()')", Place(2)),
    "an expression that is evaluated": ("x = 1\ny = eval('earlier()')", Place(2)),
    "a library": (
        (
            "import http.client\ntry:\n    http.client.HTTPConnection('127.0.0.1', 9).request('GET', '/')\n"
            "except OSError: pass"
        ),
        Place(3),
    ),
    "a call into C": ("x = 1\nlibc.socket(2, 1, 0)", Place(2, library=None)),
    "a file that is run": (
        "open('m.py', 'w').write('import socket\\ntry: socket.socket()\\nexcept OSError: pass')\n%run m.py",
        Place(2),
    ),
    "a module of one's own": (
        (
            "open('own.py', 'w').write('import socket\\ndef f():\\n  try: socket.socket()\\n  except OSError: pass')\n"
            "import own\nown.f()"
        ),
        Place(3),
    ),
    "below a magic": ("%precision 3\n\nearlier()", Place(3)),
    "a line that is timed": ("\n\n%time earlier()", Place(3)),
    "a cell that is timed": ("%%time\nx = 1\nearlier()", Place(3)),
    "a cell that is measured": ("%%timeit -n1 -r1\nx = 1\nearlier()", Place(3)),
    "a cell that is captured": ("\n%%capture\nx = 1\nearlier()", Place(4)),
    "below a command of several lines": ("!true \\\n  x\nearlier()", Place(3, confidence="likely")),
    "an awaited coroutine": (
        "async def f():\n    await asyncio.sleep(0)\n    earlier()\nawait f()",
        Place(3, "f"),
    ),
    "a task": (
        "async def f():\n    earlier()\nawait asyncio.gather(asyncio.create_task(f()))",
        Place(2, "f"),
    ),
    "a thread": (
        "def f():\n    earlier()\nt = threading.Thread(target=f, name='downloader')\nt.start()\nt.join()",
        Place(2, "f", thread="downloader"),
    ),
    "a thread without threading": (
        (
            "import _thread\nlock = threading.Lock()\nlock.acquire()\ndef f():\n    earlier()\n    lock.release()\n"
            "_thread.start_new_thread(f, ())\nlock.acquire()"
        ),
        Place(5, "f"),
    ),
    "a pool of threads": (
        "with ThreadPoolExecutor(1, 'pool') as pool:\n    pool.submit(lambda:\n        earlier()).result()",
        Place(3, "<lambda>", thread="pool_0"),
    ),
    "a thread of asyncio": (
        "def f():\n    earlier()\nawait asyncio.to_thread(f)",
        Place(2, "f", thread="asyncio_0"),
    ),
    "a thread with none of the cell's code": (
        (
            "t = threading.Thread(target=socket.socket, name='t')\nthreading.excepthook = print\n"
            "t.start(); t.join()\nthreading.excepthook = threading.__excepthook__"
        ),
        Place(3, thread="t", confidence="likely"),
    ),
    "a pool that runs none of the cell's code": (
        "with ThreadPoolExecutor(1, 'pool') as pool:\n    x = 1\n    failed = pool.submit(socket.socket).exception()",
        Place(3, thread="pool_0", confidence="likely"),
    ),
    "a thread of a long cell": (
        "x = '''"
        + "abc\n" * 10000
        + "'''\ndef f():\n    earlier()\nt = threading.Thread(target=f, name='t')\nt.start()\nt.join()",
        Place(10003, "f", thread="t"),
    ),
    "a forked child": (
        "pid = os.fork()\nif pid == 0:\n    earlier()\n    os._exit(0)\ndone = os.waitpid(pid, 0)",
        Place(3, started_line=1),
    ),
    "a forked grandchild": (
        (
            "pid = os.fork()\nif pid == 0:\n    pid = os.fork()\n    if pid == 0:\n        earlier(); os._exit(0)\n"
            "    os.waitpid(pid, 0)\n    os._exit(0)\ndone = os.waitpid(pid, 0)"
        ),
        Place(5, started_line=3),
    ),
    "a process of multiprocessing": (
        "def f():\n    earlier()\np = multiprocessing.get_context('fork').Process(target=f)\np.start()\np.join()",
        Place(2, "f", started_line=4),
    ),
    "an executed child": (
        "p = subprocess.Popen([sys.executable, '-c', child])\nx = 1\ndone = p.wait()",
        EXECUTED._replace(started_line=1),
    ),
    "a child of a shell": (
        (
            "x = 1\nsubprocess.run(f'true; {sys.executable} -c \"import socket; socket.socket()\"; true', shell=True,\n"
            "    stderr=subprocess.DEVNULL)"
        ),
        EXECUTED._replace(started_line=2),
    ),
    "an orphan": (
        (
            "x = 1\nsubprocess.run(f'(sleep 0.2; {sys.executable} -c \"import socket; socket.socket()\"; >over) &',\n"
            "    shell=True, stderr=subprocess.DEVNULL, start_new_session=True)\n"
            "import time\nwhile not os.path.exists('over'): time.sleep(0.01)"
        ),
        EXECUTED._replace(started_line=2, confidence="likely"),
    ),
    "a child of asyncio": (
        "p = await asyncio.create_subprocess_exec(sys.executable, '-c', child)\ndone = await p.wait()",
        EXECUTED._replace(started_line=1),
    ),
    "a command": (
        "x = 1\n!python -c 'import socket; socket.socket()' 2> /dev/null",
        EXECUTED._replace(started_line=2),
    ),
    "a child of the C library": (
        "x = 1\ndone = os.system(\"python -c 'import socket; socket.socket()' 2> /dev/null\")",
        EXECUTED._replace(started_line=2, confidence="likely"),
    ),
}

KILL = "libc.ptrace(0, 0, 0, 0)"
DIED = {
    "a segmentation fault": ("x = 1\ndef f():\n    libc.strlen(0)\nf()", Place(3, "f", None)),
    "an abort in a thread": (
        "def f():\n    os.abort()\nt = threading.Thread(target=f)\nt.start()\nt.join()",
        Place(2, "f", None),
    ),
    "a fault after faulthandler was used": (
        (
            "import faulthandler\nassert not faulthandler.is_enabled()\nfaulthandler.enable()\n"
            "assert faulthandler.is_enabled()\nfaulthandler.disable()\nassert not faulthandler.is_enabled()\n"
            "os.kill(os.getpid(), signal.SIGBUS)"
        ),
        Place(7, "<module>", None),
    ),
    "a rule that kills": (f"def f():\n    {KILL}\nf()", Place(2, "f", None)),
    "a rule that kills what was started": (
        "x = 1\ndone = os.system(f'{sys.executable} -c \"import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)\"')",
        EXECUTED._replace(started_line=2),
    ),
    "a rule that kills a thread": (
        f"def f():\n    {KILL}\nt = threading.Thread(target=f, name='t')\nt.start()\nt.join()",
        Place(2, "f", None, "t"),
    ),
}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with notebook(tmp_path_factory.mktemp("place"), SENTINEL_SPARE="off") as book:
        book.run(EARLIER)
        yield book


def violations(book: Notebook, code: str) -> list[dict[str, Any]]:
    """Run a cell and return its violations as they are shown in the end."""
    shown = {}
    for kind, content in book.run(code).outputs:
        if kind in ("display_data", "update_display_data") and VIOLATION_TYPE in content["data"]:
            violation = content["data"][VIOLATION_TYPE]
            shown[violation["id"]] = violation
    return list(shown.values())


def place(violation: dict[str, Any]) -> Place:
    """Return what a violation tells of its place."""
    library = violation["library"]
    return Place(
        violation["line"],
        violation["function"],
        library and library["file"],
        violation["thread"],
        violation["started_line"],
        violation["confidence"],
    )


def test_a_refusal_names_its_line(book: Notebook) -> None:
    wrong = {}
    for name, (code, expected) in REFUSED.items():
        told = violations(book, code)
        found = [(place(one), one["source"], one["process"]["is_worker"]) for one in told]
        line = expected.line or expected.started_line
        source = None if line is None else code.split("\n")[line - 1].strip()
        if found != [(expected, source, expected.started_line is None)]:
            wrong[name] = found
    assert not wrong
    print(f"{len(REFUSED)} refusals: all name their line")


def test_a_thread_of_an_earlier_cell_names_that_cell(book: Notebook) -> None:
    begun = book.run(
        "go = threading.Event()\ndef late():\n    go.wait()\n    earlier()\n"
        "thread = threading.Thread(target=late, name='late')\nthread.start()"
    )
    (violation,) = violations(book, "x = 1\ngo.set()\nthread.join()")
    assert place(violation) == Place(4, "late", thread="late")
    assert (violation["execution_count"], violation["source"]) == (
        begun.reply["execution_count"],
        "earlier()",
    )


def test_each_line_has_its_own_record_and_count(book: Notebook) -> None:
    told = violations(book, "for _ in range(3): earlier()\nearlier()\nearlier(socket.AF_PACKET)\nearlier()")
    found = [(one["line"], one["arguments"][0]["text"], one["count"]) for one in told]
    assert sorted(found) == [
        (1, "AF_INET", 3),
        (2, "AF_INET", 1),
        (3, "AF_PACKET", 1),
        (4, "AF_INET", 1),
    ]


def test_threads_at_the_same_moment_each_get_their_line(book: Notebook) -> None:
    families = ("AF_INET", "AF_PACKET", "AF_VSOCK", "AF_CAN", "AF_ALG")
    functions = "".join(f"def f{n}():\n    earlier(socket.{name})\n" for n, name in enumerate(families))
    told = violations(
        book,
        f"{functions}wall = threading.Barrier({len(families)})\n"
        f"fs = [{', '.join(f'f{n}' for n in range(len(families)))}]\n"
        "ts = [threading.Thread(target=lambda f=f: (wall.wait(), f())) for f in fs]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()",
    )
    lines = {one["arguments"][0]["text"]: (one["line"], one["function"]) for one in told}
    assert lines == {name: (2 * n + 2, f"f{n}") for n, name in enumerate(families)}


def test_a_flood_is_one_record_with_an_exact_count(book: Notebook) -> None:
    (violation,) = violations(book, "for _ in range(3000):\n    earlier()")
    assert (violation["line"], violation["count"]) == (2, 3000)


def test_a_death_names_its_line_and_says_that_it_may_be_forged(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_SPARE="off") as book:
        for name, (code, expected) in DIED.items():
            book.run(EARLIER)
            told = violations(book, code)
            assert [place(one) for one in told] == [expected._replace(confidence="likely")], name
            line = expected.line or expected.started_line or 0
            assert told[0]["source"] == code.split("\n")[line - 1].strip()


def test_limits_name_the_line_that_they_were_reached_in(book: Notebook) -> None:
    book.run(EARLIER)
    told = violations(book, "%sentinel_limit wall=1\nimport time\ndef f():\n    time.sleep(60)\nf()")
    assert [place(one) for one in told] == [Place(4, "f", None)]
    code = "%sentinel_limit wall=off memory=400M\nheld = []\nwhile True:\n    held.append(bytearray(1 << 24))"
    told = violations(book, code)
    assert [(one["line"], one["cause"]) for one in told] == [(4, "memory")]
    book.run("%sentinel_limit memory=profile wall=profile\nheld.clear()")


FORGED = """\
import glob
pipes = [int(path.rpartition('/')[2]) for path in glob.glob('/proc/self/fd/*')
    if os.path.exists(path) and os.readlink(path).startswith('pipe:')]
name = (lambda: 0).__code__.co_filename
def write(text):
    for pipe in pipes:
        try: os.write(pipe, text)
        except OSError: pass
stop = threading.Event()
def forge(text):
    while not stop.is_set(): write(text)
"""
FORGERIES = (
    "b'Stack (most recent call first):\\n  File \"%s\", line 3 in f\\n' % name.encode()",
    "b'Stack (most recent call first):\\n  File \"' + b'x' * (1 << 20)",
    "b'  File \"/tmp/ipykernel_1/1.py\", line 999999 in <module>\\n' * 1000",
    "b'\\xff\"\\n' * 9 + b'Fatal Python error: \\n (most recent call first):\\n  File \"\", line 1 in ' + b'z' * 9999",
)


def test_forged_stacks_are_a_wrong_line_at_most(book: Notebook) -> None:
    book.run(EARLIER)
    book.run(FORGED)
    for text in FORGERIES:
        told = violations(
            book,
            f"stop.clear()\nt = threading.Thread(target=forge, args=({text},))\nt.start()\nearlier()\n"
            "libc.socket(17, 3, 0)\nstop.set()\nt.join()",
        )
        assert sorted(one["arguments"][0]["text"] for one in told) == ["AF_INET", "AF_PACKET"], told
        for one in told:
            assert one["line"] is None or 0 < one["line"] <= 7 or one["cell"]
            assert len(one["function"] or "") <= 100
    book.run("for pipe in pipes: os.close(pipe)")
    assert len(violations(book, "x = 1\nearlier()")) == 1
    assert book.run("print('alive')").text == "alive\n"
