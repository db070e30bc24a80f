"""A change of profile in a running notebook: what stays, what changes at once, and when it takes a fresh sandbox."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conversation import Conversation
from live_kernel import SECONDS, Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

DRIVER = Path(__file__).parent / "drivers" / "run_cells.py"
OWN = pytest.mark.sandbox
"""For tests with a notebook of their own; the shared one outlives its tests."""

SIZES = (
    "import os, resource\n"
    # Memory in 256 MiB: the limit follows what the others in the sandbox leave.
    "print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 28,"
    " [resource.getrlimit(what)[0] for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)],"
    " len(os.sched_getaffinity(0)),"
    " [os.statvfs(place).f_blocks for place in ('/tmp', '/dev/shm', '.', os.path.expanduser('~'))])"
)
TRY = (
    "import socket\ntry:\n    socket.socket().close(); print('open')\n"
    "except OSError as error:\n    print(error.errno)"
)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return one notebook for the whole module, started under strict."""
    # A spare would come and go during tests that look for what is left of kernels of their own.
    with notebook(tmp_path_factory.mktemp("change"), SENTINEL_SPARE="off") as running:
        yield running


def test_everything_that_lives_goes_on_and_the_rules_change_at_once(book: Notebook) -> None:
    start = (
        "import threading, time\nvalue = {'a': 1}\nkept = open('/tmp/kept.txt', 'w+')\nkept.write('be')\n"
        "beats = 0\ndef beat():\n    global beats\n    while True:\n        beats += 1\n        time.sleep(0.001)\n"
        "thread = threading.Thread(target=beat, daemon=True)\nthread.start()"
    )
    assert book.run(start).reply["status"] == "ok"
    alive = (
        "seen = beats\nwhile beats == seen:\n    time.sleep(0.001)\n"
        "kept.write('.'); kept.seek(0)\nprint(value, thread.is_alive(), kept.read())\n"
    )
    assert book.run(TRY).text == "1\n"
    strict = book.run(SIZES).text
    wider = book.run(f"%sentinel_profile datascience\n{alive}{TRY}")
    assert wider.text == "{'a': 1} True be.\nopen\n"
    page = wider.bundles("text/plain")[0]
    assert re.search(r"variables +kept", page)
    assert re.search(r"memory +1 GiB → ", page)
    assert re.search(r"now allowed +.*socket", page)
    roomy = book.run(SIZES).text
    assert all(more > less for more, less in zip(_numbers(roomy), _numbers(strict), strict=True)), roomy
    back = book.run(f"%sentinel_profile strict\n{alive}{TRY}")
    assert back.text == "{'a': 1} True be..\n1\n"
    assert re.search(r"now refused +.*socket", back.bundles("text/plain")[0])
    assert book.run(SIZES).text == strict


def _numbers(text: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", text)))


def test_children_change_with_the_worker(book: Notebook) -> None:
    child = (
        "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-u', '-c', "
        "'import os, resource, sys\\nfor _ in sys.stdin:\\n    print(len(os.sched_getaffinity(0)), "
        "resource.getrlimit(resource.RLIMIT_NOFILE)[0])'], stdin=-1, stdout=-1, text=True)\n"
    )
    ask = "child.stdin.write('x\\n'); child.stdin.flush(); print(child.stdout.readline().strip())"
    assert book.run(child + ask).text == "1 4096\n"
    assert _numbers(book.run(f"%sentinel_profile datascience\n{ask}").text)[1] > 4096
    assert book.run(f"%sentinel_profile strict\n{ask}\nchild.kill(); _ = child.wait()").text == "1 4096\n"


TWO_LINES = "%sentinel_profile datascience\n%sentinel_allow pypi.org:443\nprint('ran')"


def test_no_line_acts_where_one_below_it_takes_an_answer_that_nobody_gives(book: Notebook) -> None:
    for code in (TWO_LINES, "%sentinel_profile datascience\n%sentinel_mount /opt"):
        refused = book.run(code, allow_stdin=False)
        assert refused.reply["ename"] in ("NetworkError", "MountError")
        assert "nobody can be asked" in refused.reply["evalue"]
        assert "taken effect" not in refused.reply["evalue"]
        assert book.run(TRY).text == "1\n"  # strict, as before


def test_a_no_below_a_change_says_that_the_change_stays(book: Notebook) -> None:
    msg_id = book.send(TWO_LINES, allow_stdin=True)
    assert "pypi.org:443" in book.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"]
    book.client.input("n")
    [declined] = book.collect(msg_id)
    said = declined.reply["evalue"]
    assert "was not allowed: the answer was no. Nothing was sent" in said
    assert "nothing has changed" not in said
    assert "But the line above it has taken effect, which stays: `%sentinel_profile datascience`." in said
    assert book.run(f"{TRY}\n").text == "open\n"
    assert book.run("%sentinel_profile strict").reply["status"] == "ok"


@pytest.mark.parametrize("most", [98, pytest.param(1000, marks=pytest.mark.soak)])
def test_answers_are_right_with_calls_in_flight_through_many_changes(book: Notebook, most: int) -> None:
    start = (
        "import collections, errno, socket, threading\nanswers, running = collections.Counter(), True\n"
        "def ask():\n    while running:\n        try:\n            socket.socket().close(); answers['open'] += 1\n"
        "        except OSError as error:\n            answers[error.errno] += 1\n"
        "askers = [threading.Thread(target=ask) for _ in range(2)]\nfor asker in askers:\n    asker.start()"
    )
    assert book.run(start).reply["status"] == "ok"
    changes = 0
    while changes < most:
        # Odd and even numbers of changes in a cell: each is tried as the last one, and as one on the way.
        names = [("datascience", "strict")[(changes + count) % 2] for count in range(49)]
        changes += len(names)
        lines = "".join(f"%sentinel_profile {name}\n" for name in names)
        wanted = "open\n" if names[-1] == "datascience" else "1\n"
        assert book.run(lines + TRY).text == wanted, changes
    ended = book.run(
        "running = False\nfor asker in askers:\n    asker.join()\nprint(sorted(map(str, answers)))"
    )
    assert ended.text == "['1', 'open']\n"
    assert book.run(f"%sentinel_profile strict\n{TRY}").text == "1\n"


def test_size_that_is_used_already_is_kept_and_said(book: Notebook) -> None:
    fill = "%sentinel_profile datascience\nopen('/dev/shm/full', 'wb').write(bytes(200 << 20)) and None"
    assert book.run(fill).reply["status"] == "ok"
    back = book.run("%sentinel_profile strict\nimport os; os.remove('/dev/shm/full')")
    assert "/dev/shm: holds more than the new profile allows" in back.bundles("text/plain")[0]
    assert book.run("%sentinel_profile strict").reply["status"] == "ok"


def test_alone_it_lists_what_each_profile_allows_and_how_a_cell_gets_it(book: Notebook) -> None:
    shown = book.run("%sentinel_profile")
    page = shown.bundles("text/plain")[0]
    assert re.search(r"profile +a cell gets it +memory +CPUs +processes +sockets", page)
    assert re.search(r"strict( \(in use\))? +freely +1 GiB +1 +\d+ +none +- +held +- ", page), page
    assert re.search(
        r"datascience( \(in use\))? +freely +50% of what is free +all +\d+ +within the sandbox", page
    ), page
    assert re.search(r"web +if you agree ", page), page
    html = shown.bundles("text/html")[0]
    assert html.count("<tr") == page.count("freely") + page.count("if you agree") + 1


@OWN
def test_worker_that_died_goes_on_under_the_profile_in_force(tmp_path: Path) -> None:
    with notebook(tmp_path) as book:
        book.run("%sentinel_profile datascience")
        assert book.run("import os; os._exit(3)").reply["ename"] == "SandboxDied"
        assert book.run(TRY).text == "open\n"
        assert book.run("%sentinel_reset\n" + TRY).text == "open\n"
        assert book.run("%sentinel_profile strict\n" + TRY).text == "1\n"


@OWN
def test_ordinary_users_kernel_changes_in_place_too(identity: Identity) -> None:
    prefix = identity.home / "prefix"
    identity.run(identity.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
    cells = (
        f"value = 1\n{TRY}\n{SIZES}",
        f"%sentinel_profile datascience\nprint(value)\n{TRY}\n{SIZES}",
        f"%sentinel_profile strict\nprint(value)\n{TRY}\n{SIZES}",
    )
    environment = identity.environment() | {"JUPYTER_PATH": str(prefix / "share" / "jupyter"), "LANG": "C"}
    done = identity.run(
        identity.python, str(DRIVER), "sentinel", env=environment, input=json.dumps(cells), timeout=200
    )
    strict, wider, back = (cell["text"].splitlines() for cell in json.loads(done.stdout))
    assert [strict[0], wider[:2], back[:2]] == ["1", ["1", "open"], ["1", "1"]]
    assert all(more > less for more, less in zip(_numbers(wider[2]), _numbers(strict[1]), strict=True))
    (memory, *others), (memory_before, *others_before) = _numbers(back[2]), _numbers(strict[1])
    assert others == others_before
    assert abs(memory - memory_before) <= 1  # what others leave of it is written at the meter's next look


FILL = (
    "import math, threading\nimport os.path as paths\nvalue = {'a': [1, 2]}\nnumbers = list(range(1000))\n"
    "def twice(x):\n    return 2 * x * value['a'][0]\nclass Thing:\n    pass\nthing = Thing()\n"
    "lock = threading.Lock()\nclass Bad:\n    def __reduce__(self):\n        raise ValueError('not me')\nbad = Bad()\n"
)
HAS_CLOUDPICKLE = importlib.util.find_spec("cloudpickle") is not None
LOOK = "print([name in globals() for name in ('value', 'numbers', 'math', 'paths', 'lock', 'bad', 'twice', 'thing')])"


@pytest.fixture
def folder_book(tmp_path: Path) -> Iterator[Notebook]:
    """Return a notebook that may change to a profile with another folder, and what is in it."""
    profiles = tmp_path / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("a")
    mounts = {"filesystem": {"mounts": [{"path": str(data), "mode": "ro"}]}}
    (profiles / "folder.json").write_text(json.dumps({"extends": "strict", **mounts}))
    with notebook(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "config"), SENTINEL_CEILING="folder") as book:
        book.data = str(data / "a.txt")
        assert book.run(FILL).reply["status"] == "ok"
        yield book


@OWN
def test_folders_can_not_change_in_place_so_nothing_happens_before_it_was_chosen(
    folder_book: Notebook,
) -> None:
    refused = folder_book.run("%sentinel_profile folder\n1", allow_stdin=False)
    assert refused.reply["ename"] == "UsageError"
    for words in ("it shows other folders", "--carry", "--fresh", "HINT →"):
        assert words in refused.reply["evalue"]
    assert folder_book.run("print(value, twice(2), thing)").text.startswith("{'a': [1, 2]} 4 <__main__.Thing")
    fresh = folder_book.run(
        f"%sentinel_profile folder --fresh\n{LOOK}\nprint(open({folder_book.data!r}).read())"
    )
    assert fresh.text == f"{[False] * 8}\na\n"
    assert re.search(r"variables +A fresh sandbox was started", fresh.bundles("text/plain")[0])
    assert "it shows other folders" in fresh.bundles("text/plain")[0]


@OWN
@pytest.mark.parametrize("how", ["", " --carry", " --fresh"])
def test_profile_whose_folder_is_not_there_costs_no_variable(folder_book: Notebook, how: str) -> None:
    data = Path(folder_book.data)
    moved = data.parent.rename(data.parent.with_name("elsewhere"))
    asked = folder_book.run(f"%sentinel_profile folder{how}", allow_stdin=False)
    assert asked.reply["ename"] == "UsageError"
    for words in (
        f"The folder {data.parent}: No such file or directory",
        "was kept",
        "HINT → Make it, or take",
    ):
        assert words in asked.reply["evalue"]
    kept = folder_book.run("%sentinel_profile\nprint(value, lock.locked())")
    assert kept.text == "{'a': [1, 2]} False\n"
    moved.rename(data.parent)  # positive control: nothing else was in the way
    assert folder_book.run("%sentinel_profile folder --carry\nprint(value)").text == "{'a': [1, 2]}\n"
    # A reset, too, ends nothing that it can't replace.
    data.parent.rename(moved)
    reset = folder_book.run("%sentinel_reset", allow_stdin=False)
    assert "No such file or directory" in reset.reply["evalue"]
    assert folder_book.run("print(value)").text == "{'a': [1, 2]}\n"


@OWN
@pytest.mark.parametrize("answer", ["c", "f"])
def test_folder_that_goes_while_the_person_is_asked_costs_no_variable(
    folder_book: Notebook, answer: str
) -> None:
    talk = Conversation(folder_book.client)
    cell = talk.execute("%sentinel_profile folder\nprint(1)", allow_stdin=True)
    talk.wait_for_prompt()
    folder = Path(folder_book.data).parent
    folder.rename(folder.with_name("elsewhere"))
    talk.client.input(answer)
    if answer == "c":  # what is left behind is asked about before
        talk.wait_for_prompt()
        talk.client.input("y")
    assert talk.finish(cell).content["ename"] == "UsageError"
    assert "No such file or directory" in cell.content["evalue"]
    assert talk.run("print(value, lock.locked())").text == "{'a': [1, 2]} False\n"


@OWN
def test_files_that_were_held_stay_the_persons_under_a_profile_that_saves_new_ones(tmp_path: Path) -> None:
    work, places = tmp_path / "work", {"XDG_DATA_HOME": str(tmp_path / "data"), "SENTINEL_SPARE": "off"}
    with notebook(tmp_path, **places) as book:
        book.run(
            "def behind(comm, message):\n    with open('behind.csv', 'w') as file:\n        file.write('strict')\n"
            "get_ipython().kernel.comm_manager.register_target('behind', behind)\n"
            "open('early.csv', 'w').write('strict')"
        )
        # What is written behind a cell's end, which nobody has looked at yet, is of the old rule too.
        opening = {"comm_id": "1", "target_name": "behind", "data": {}}
        message = book.client.session.msg("comm_open", opening)
        book.client.shell_channel.send(message)
        idle = {"execution_state": "idle"}
        while (told := book.client.get_iopub_msg(timeout=SECONDS))["content"] != idle or (
            told["parent_header"]["msg_id"] != message["header"]["msg_id"]
        ):
            pass
        changed = book.run("%sentinel_profile datascience\nopen('late.csv', 'w').write('datascience')")
        page = " ".join(changed.bundles("text/plain")[0].split())
        assert "new files data files are saved by themselves" in page
        assert "held files 1 file that is held stays so until %sentinel_commit" in page
        assert book.run("1").reply["status"] == "ok"
        assert {path.name for path in work.iterdir()} == {"late.csv"}
        listed = book.run("%sentinel_files").bundles("text/plain")[0]
        assert "early.csv" in listed
        assert "behind.csv" in listed
        back = book.run("%sentinel_profile strict\nopen('strict.csv', 'w').write('x')")
        assert "held in the sandbox until %sentinel_commit" in " ".join(back.bundles("text/plain")[0].split())
        assert book.run("%sentinel_profile datascience\n1").reply["status"] == "ok"
        # Positive control: what is written from here on is saved, and so is what the person commits.
        assert book.run("open('early.csv', 'a').write(', and more')").reply["status"] == "ok"
        assert book.run("1").reply["status"] == "ok"
        assert {path.name for path in work.iterdir()} == {"late.csv", "early.csv"}
        commit = book.send("%sentinel_commit strict.csv", allow_stdin=True)
        assert "strict.csv" in book.client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"]
        book.client.input("y")
        assert book.collect(commit)[0].reply["status"] == "ok"
        assert (work / "strict.csv").read_text() == "x"
        assert not (work / "behind.csv").exists()
        # What an undo of that brings back is as it was held.
        assert book.run("%sentinel_undo").reply["status"] == "ok"
        assert book.run("print(open('strict.csv').read(), end='')").text == "x"
        assert book.run("1").reply["status"] == "ok"
        assert {path.name for path in work.iterdir()} == {"late.csv", "early.csv"}


@OWN
def test_less_memory_than_is_in_use_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    profiles = tmp_path / "config" / "sentinel-kernel" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "small.json").write_text(
        json.dumps({"extends": "strict", "resources": {"memory_bytes": 200 << 20}})
    )
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "SENTINEL_SPARE": "off"}
    with notebook(tmp_path, **environment) as book:
        assert book.run("large, small = bytearray(250_000_000), 7").reply["status"] == "ok"
        # What runs below a limit counts on it: as with every line that is refused, the cell fails.
        limits = book.run("%sentinel_limit memory=200M pids=100\nprint(small)")
        assert (limits.text, limits.reply["ename"]) == ("", "UsageError")
        why = limits.reply["evalue"]
        assert re.search(r"not changed: \d+ MiB are in use; delete what is no longer needed", why), why
        log = (tmp_path / "kernel.log").read_text()
        assert "MiB are in use" in log
        assert "no sandbox runs" not in log
        refused = book.run("%sentinel_profile small\n1", allow_stdin=False)
        assert refused.reply["ename"] == "UsageError"
        assert re.search(r"allows 200 MiB of memory, and \d+ MiB are in use", refused.reply["evalue"])
        limits = book.run("%sentinel_limit").bundles("text/plain")[0]
        assert "(profile strict)" in limits
        assert "set here" not in limits
        # Positive controls: what fits is set, and what was deleted is in nobody's way.
        fits = book.run("%sentinel_limit memory=500M\nlarge = None; print(small)")
        assert fits.text == "7\n"
        assert "1 GiB → 500 MiB" in fits.bundles("text/plain")[0]
        changed = book.run("%sentinel_limit memory=profile\n%sentinel_profile small\nprint(small)")
        assert changed.text == "7\n"
        assert "1 GiB → 200 MiB" in changed.bundles("text/plain")[1]


@OWN
def test_variables_are_carried_over_and_those_left_behind_are_named(folder_book: Notebook) -> None:
    carried = folder_book.run(
        f"%sentinel_profile folder --carry\n{LOOK}\nprint(value, sum(numbers), paths.join('x', 'y'), math.pi)\n"
        f"print(open({folder_book.data!r}).read())"
    )
    came = [True, True, True, True, False, False, HAS_CLOUDPICKLE, HAS_CLOUDPICKLE]
    assert carried.text == f"{came}\n{{'a': [1, 2]}} 499500 x/y 3.141592653589793\na\n"
    page = carried.bundles("text/plain")[-1]
    assert re.search(r"left behind +lock: .*pickle", page)
    assert re.search(r"left behind +bad: it could not be saved or loaded: ValueError\n", page)
    assert re.search(r"carried over +.*value.*numbers", page)
    if HAS_CLOUDPICKLE:
        assert (
            folder_book.run("value['a'][0] = 10\nprint(twice(1), type(thing) is Thing)").text == "20 True\n"
        )


@OWN
def test_person_chooses_after_hearing_what_stays_behind(folder_book: Notebook) -> None:
    talk = Conversation(folder_book.client)
    for answers, wanted in (
        (("n",), "error"),
        (("c", "n"), "error"),
        (("c", "y"), "ok"),
    ):
        cell = talk.execute("%sentinel_profile folder\nprint(value)", allow_stdin=True)
        for answer in answers:
            prompt = talk.wait_for_prompt()["content"]["prompt"]
            assert prompt.startswith("Sentinel asks: ")
            talk.client.input(answer)
        assert talk.finish(cell).content["status"] == wanted
        if "n" in answers:
            assert "No variable was touched" in cell.content["evalue"]
            assert talk.run("print(lock.locked())").text == "False\n"
    assert "lock (" in prompt
    assert cell.text == "{'a': [1, 2]}\n"
    assert talk.run("print('lock' in dir())").text == "False\n"


@OWN
def test_variable_that_never_finishes_costs_nothing(folder_book: Notebook) -> None:
    """An interrupt ends it: the old sandbox is there as it was."""
    folder_book.run(
        "class Slow:\n    def __reduce__(self):\n        print('busy', flush=True)\n"
        "        while True:\n            pass\nslow = Slow()"
    )
    talk = Conversation(folder_book.client)
    cell = talk.execute("%sentinel_profile folder --carry\n1")
    talk.wait_for(
        lambda: any(message["msg_type"] == "stream" for message in talk.others), "it is being saved"
    )
    folder_book.manager.interrupt_kernel()
    assert talk.finish(cell).content["ename"] == "UsageError"
    assert "was interrupted" in cell.content["evalue"]
    assert talk.run("print(value)").text == "{'a': [1, 2]}\n"


@OWN
def test_profile_beyond_the_ceiling_is_the_persons_to_allow(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_CEILING="strict", SENTINEL_SPARE="off") as book:
        talk = Conversation(book.client)
        talk.run("value = 7")
        assert talk.run("%sentinel_profile datascience\n1").content["ename"] == "UsageError"
        for answer, wanted in (("n", "UsageError"), ("", "UsageError"), ("y", "")):
            cell = talk.execute(
                f"%sentinel_profile datascience --carry\n{TRY}\nprint(value)", allow_stdin=True
            )
            prompt = talk.wait_for_prompt()["content"]["prompt"]
            assert prompt.startswith("Sentinel asks: this cell wants the profile 'datascience'")
            talk.client.input(answer)
            assert talk.finish(cell).content.get("ename", "") == wanted
        assert cell.text == "open\n7\n"
        assert talk.run("%sentinel_profile strict --carry\nprint(value)").text == "7\n"


@OWN
def test_nobody_is_asked_where_asking_is_turned_off(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_CEILING="strict", SENTINEL_ASK="never", SENTINEL_SPARE="off") as book:
        refused = book.run("%sentinel_profile datascience\n1", allow_stdin=True)
        assert refused.reply["ename"] == "UsageError"
        assert "nobody can be asked" in refused.reply["evalue"]


@OWN
def test_kernel_whose_ceiling_is_its_profile_holds_no_call_for_another(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_CEILING="strict") as book:
        refused = book.run("%sentinel_profile datascience\n1", allow_stdin=False)
        assert refused.reply["ename"] == "UsageError"
        assert book.run(TRY).text == "1\n"
