"""Limits of one's own, by `%sentinel_limit`: read, bounded, kept; and the clocks of a cell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live_kernel import Notebook, notebook

from sentinel_kernel.kernel.limit_magic import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.requires("user_namespaces", "overlay")]
OWN = pytest.mark.sandbox
"""For tests with a notebook of their own; the shared one outlives its tests."""

PROFILES = Path(__file__).parent / "profiles"
NOTICE = "application/vnd.sentinel.notice+json"
SIZES = (
    "import os, resource\n"
    "print(*[resource.getrlimit(what)[0] for what in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE)],"
    " [os.statvfs(place).f_blocks * os.statvfs(place).f_frsize >> 20 for place in ('/tmp', '/dev/shm', '.')],"
    " len(os.sched_getaffinity(0)))"
)


def hasty(folder: Path, **resources: object) -> dict[str, str]:
    """Return the variables of a kernel whose profile is hasty's with other resources."""
    place = folder / "config" / "sentinel-kernel" / "profiles"
    place.mkdir(parents=True)
    profile = json.loads((PROFILES / "hasty.json").read_text())
    profile["resources"] |= resources
    (place / "hasty.json").write_text(json.dumps(profile))
    return {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "SENTINEL_PROFILE": "hasty",
        "SENTINEL_SPARE": "off",
    }


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return one notebook for the whole module."""
    folder = tmp_path_factory.mktemp("limits")
    with notebook(folder, **hasty(folder)) as running:
        yield running


def pages(result: object) -> str:
    """Return the text of every display of a cell."""
    return "\n".join(result.bundles("text/plain"))  # type: ignore[attr-defined]


def limits(result: object) -> list[tuple[str, str]]:
    """Return (limit, stage) of each card about a limit."""
    cards = [card.get("limit") for card in result.bundles(NOTICE)]  # type: ignore[attr-defined]
    return [(limit["name"], limit["stage"]) for limit in cards if limit]


def test_page_lists_every_limit_with_what_is_used_and_how_far_it_goes(book: Notebook) -> None:
    page = pages(book.run("%sentinel_limit"))
    for name in NAMES:
        assert re.search(rf"^  {name}( \(.*\))? +\S", page, re.MULTILINE), name
    assert re.search(r"pids .* 128 .*in use; can be set up to 4096", page)
    assert re.search(r"kept by +(fallback|cgroup|systemd)", page)


def test_speed_of_a_disk_is_held_or_it_is_said_who_could(book: Notebook) -> None:
    page = pages(book.run("%sentinel_limit"))
    told = book.run("%sentinel_limit io_write=50M")
    try:
        if "not held here" in page:
            said = "not changed: io_write can only be held by a control group with the io controller"
            assert said in told.reply["evalue"]
        else:
            assert re.search(r"writing to disk.*→ 50 MiB", pages(told))
    finally:
        book.run("%sentinel_limit io_write=profile")


def test_limits_change_in_place_up_to_the_ceiling_and_back(book: Notebook) -> None:
    before = book.run("value = {'a': 1}\n" + SIZES).text
    result = book.run(
        f"%sentinel_limit pids=200 tmp=32M shm=16M disk=64M open_files=500 cpu=2\nprint(value)\n{SIZES}"
    )
    value, after = result.text.splitlines()
    assert value == "{'a': 1}"
    assert re.search(r"/tmp, and the home folder +256 MiB → 32 MiB", pages(result))
    tasks, files, sizes, processors = re.fullmatch(r"(\d+) (\d+) (\[.*\]) (\d+)", after).groups()  # type: ignore[union-attr]
    assert int(tasks) - int(before.split()[0]) == 200 - 128
    assert (files, sizes) == ("500", "[32, 16, 64]")
    assert int(processors) >= 1
    assert "200 " in pages(book.run("%sentinel_limit"))
    back = (
        "%sentinel_limit pids=profile tmp=profile shm=profile disk=profile open_files=profile cpu=profile\n"
    )
    assert book.run(back + SIZES).text == before


def test_former_versions_take_nothing_of_what_cells_may_write(book: Notebook) -> None:
    free = "status = os.statvfs('.')\nprint(status.f_bavail * status.f_frsize)"
    try:
        empty = int(book.run(f"%sentinel_limit disk=64M\nimport os\n{free}").text)
        book.run("with open('levels.bin', 'wb') as file:\n    file.write(os.urandom(9_000_000))")
        held = int(book.run(free).text)  # a copy is kept, for an undo
        assert 9_000_000 <= empty - held < 9_100_000
        book.run("os.remove('levels.bin')")
        assert int(book.run(free).text) == empty
        told = book.run("%sentinel_limit disk=4M")
        assert "keeps its size" not in pages(told)
        assert (3 << 20) < int(book.run(free).text) <= (4 << 20)
        failed = book.run("with open('levels.bin', 'wb') as file:\n    file.write(os.urandom(9_000_000))")
        assert limits(failed) == [("disk", "refused")]
    finally:
        book.run("%sentinel_limit disk=profile\nif os.path.exists('levels.bin'): os.remove('levels.bin')")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("memroy=3G", "Did you mean memory?"),
        ("memory=3x", "memory=3x is not understood. Write it like memory=4G"),
        ("memory = 3G", "without blanks around the equals sign"),
        ("wall", "write wall=VALUE"),
        ("pids=1.5", "pids=1.5 is not understood"),
        ("cpu=nan", "cpu=nan is not understood"),
        ("wall=-1", "wall=-1 is too little"),
        ("memory=1M", "too little for a kernel to go on with. The least is 128 MiB"),
        ("pids=100000", "pids: 100000 asked for, 4096 at most; ceiling: datascience"),
    ],
)
def test_what_is_mistyped_or_too_much_is_said_and_runs_nothing(book: Notebook, line: str, told: str) -> None:
    result = book.run(f"%sentinel_limit {line}\nran = True", allow_stdin=False)
    assert result.reply["ename"] == "UsageError"
    assert told in result.reply["evalue"]
    assert book.run("print('ran' in dir())").text == "False\n"


def test_off_goes_as_far_as_the_ceiling(book: Notebook) -> None:
    assert book.run("%sentinel_limit pids=off\n" + SIZES).text.startswith(str(4096 + 48))
    assert book.run("%sentinel_limit pids=profile").reply["status"] == "ok"


def test_code_in_a_cell_sets_nothing(book: Notebook) -> None:
    before = book.run(SIZES).text
    for code in (
        "get_ipython().run_line_magic('sentinel_limit', 'tmp=1M')",
        "get_ipython().run_cell('%sentinel_limit tmp=1M')",
        "x = 1\n%sentinel_limit tmp=1M",
    ):
        book.run(code)
        assert book.run(SIZES).text == before


_NO_ROOM_TO_SHOW = """
ip = get_ipython()
def none(*_arguments, **_named):
    raise MemoryError
ip.InteractiveTB.structured_traceback = none
raise MemoryError("of the cell's own")
"""
_NO_ROOM_TO_BEGIN = """
del ip.InteractiveTB.structured_traceback
ip.history_manager.store_inputs = none
"""


def test_cell_is_answered_where_ipython_itself_has_no_memory(book: Notebook) -> None:
    shown = book.run(_NO_ROOM_TO_SHOW)
    assert (shown.kinds.count("error"), shown.reply["evalue"]) == (1, "of the cell's own")
    assert book.run(_NO_ROOM_TO_BEGIN).reply["status"] == "ok"
    begun = book.run("print(1)")
    assert (begun.kinds.count("error"), begun.reply["ename"]) == (1, "MemoryError")
    # The worker lives, and what is wrong can be put right from where IPython notes no input.
    assert book.run("del ip.history_manager.store_inputs", store_history=False).reply["status"] == "ok"
    assert book.run("print(2)").text == "2\n"


@OWN
def test_time_that_the_person_takes_is_not_the_cells(tmp_path: Path) -> None:
    code = (
        "%sentinel_limit wall=1\nimport threading\n"
        "threading.Timer(2, print, ('late enough',), {'flush': True}).start()\nprint(input())"
    )
    with notebook(tmp_path, **hasty(tmp_path)) as book:
        asking = book.send(code, allow_stdin=True)
        assert book.client.get_stdin_msg(timeout=60)["msg_type"] == "input_request"
        while book.client.get_iopub_msg(timeout=60)["content"].get("text") != "late enough\n":
            pass
        book.client.input("an answer")
        result = book.collect(asking)[0]
        assert (result.reply["status"], result.text) == ("ok", "an answer\n")


@OWN
def test_cell_that_only_pretends_to_ask_gains_nothing(tmp_path: Path) -> None:
    with notebook(tmp_path, **hasty(tmp_path)) as book:
        code = (
            "%sentinel_limit wall=1\nimport threading\n"
            "kernel = get_ipython().kernel\nkernel.session.send(kernel.stdin_socket, 'input_request', "
            "{'prompt': '', 'password': False}, kernel.get_parent('shell'), ident=kernel._shell_parent_ident.get() "
            "if hasattr(kernel, '_shell_parent_ident') else kernel._parent_ident['shell'])\n"
            "while True:\n    pass"
        )
        pretending = book.send(code, allow_stdin=True)
        assert book.client.get_stdin_msg(timeout=60)["msg_type"] == "input_request"
        result = book.collect(pretending)[0]
        assert result.reply["ename"] == "KeyboardInterrupt", result.reply
        assert ("wall_seconds", "interrupt") in limits(result)


@OWN
def test_own_limits_stay_through_a_change_of_profile_a_death_and_a_reset(tmp_path: Path) -> None:
    with notebook(tmp_path, **hasty(tmp_path)) as book:
        book.run("%sentinel_limit tmp=32M wall=600")
        for cell in ("%sentinel_profile datascience\npass", "import os; os._exit(3)", "%sentinel_reset"):
            book.run(cell)
            assert "[32, " in book.run(SIZES).text, cell
        assert re.search(r"wall .*600 seconds.*set here", pages(book.run("%sentinel_limit")))


@OWN
def test_seconds_of_a_profile_hold_and_can_not_be_raised_by_a_cell(tmp_path: Path) -> None:
    settings = hasty(tmp_path, wall_seconds=1, output_bytes=20_000)
    with notebook(tmp_path, SENTINEL_CEILING="hasty", **settings) as book:
        for line in ("wall=60", "output=1M"):
            told = book.run(f"%sentinel_limit {line}", allow_stdin=False)
            assert told.reply["ename"] == "UsageError"
        assert book.run("%sentinel_limit wall=off").reply["status"] == "ok"
        result = book.run("import time\nprint('x' * 30_000)\ntime.sleep(600)")
        assert result.reply["ename"] == "KeyboardInterrupt"
        assert limits(result) == [("output", "refused"), ("wall_seconds", "interrupt")]
        assert "profile hasty" in pages(result)


@OWN
def test_cards_are_in_the_persons_language(tmp_path: Path) -> None:
    with notebook(tmp_path, **hasty(tmp_path), SENTINEL_LANG="zh") as book:
        result = book.run("%sentinel_limit tmp=2M\nopen('/tmp/x', 'wb').write(bytes(4 << 20))")
        assert "文件夹 /tmp 已满：2 MiB" in pages(result)
        assert "提示" not in result.reply["ename"]


@OWN
def test_share_of_a_processor_is_kept_and_an_interrupt_gets_through(tmp_path: Path) -> None:
    burn = (
        "import time\nbefore, started = time.process_time(), time.monotonic()\n"
        "while time.process_time() - before < 0.5:\n    pass\nprint(time.monotonic() - started)"
    )
    with notebook(tmp_path, **hasty(tmp_path)) as book:
        # Half a second of processor time takes two, less what is saved up.
        assert float(book.run(f"%sentinel_limit cpu=0.25\n{burn}").text) > 1.2
        running = book.send("print('on', flush=True)\nwhile True:\n    pass")
        while book.client.get_iopub_msg(timeout=60)["content"].get("text") != "on\n":
            pass
        book.manager.interrupt_kernel()
        assert book.collect(running)[0].reply["ename"] == "KeyboardInterrupt"


@OWN
def test_beyond_the_ceiling_the_person_is_asked(tmp_path: Path) -> None:
    settings = hasty(tmp_path) | {"SENTINEL_CEILING": "strict"}
    with notebook(tmp_path, **settings) as book:
        before = book.run("value = 41\n" + SIZES).text
        nobody = book.run("%sentinel_limit tmp=400M", allow_stdin=False)
        assert "more than a cell of this kernel may set" in nobody.reply["evalue"]
        for answer, ename in (("no", "UsageError"), ("yes", None)):
            asking = book.send(f"%sentinel_limit tmp=400M pids=300\n{SIZES}", allow_stdin=True)
            prompt = book.client.get_stdin_msg(timeout=60)["content"]["prompt"]
            assert "pids: 300 asked for, 128 at most; " in prompt
            assert "tmp: 400 MiB asked for, 256 MiB at most" in prompt
            book.client.input(answer)
            result = book.collect(asking)[0]
            assert result.reply.get("ename") == ename
            if answer == "no":
                assert book.run(SIZES).text == before
        # Processes are bounded by what the sandbox was made for; the next one has more.
        assert "[400, " in result.text
        assert result.text.split()[0] == before.split()[0]
        assert "pids: the running sandbox was made for the ceiling" in pages(result)
        assert book.run("print(value)").text == "41\n"
        fresh = book.run(f"%sentinel_reset\n{SIZES}").text
        assert "[400, " in fresh
        assert int(fresh.split()[0]) - int(before.split()[0]) == 300 - 128
