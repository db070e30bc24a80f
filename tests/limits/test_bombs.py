"""Programs that take all they can get: each is contained and explained, and nothing of it is left at the end."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_kernel import notebook
from waiting import wait_until

if TYPE_CHECKING:
    from ordinary_user import Identity

sys.path.insert(0, str(Path(__file__).parent))
from cases import CASES

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

RUN = Path(__file__).parent / "run.py"
BOMBS = [case.name for case in CASES if case.bomb]
# An error whose words were imported before costs each of the children less: first what ends with one.
FIRST = ["cpu_burner", "sleeper"]
ORDER = [*FIRST, *(name for name in BOMBS if name not in FIRST)]
GENTLE = [case.name for case in CASES if not case.bomb]


def run_suite(
    identity: Identity, names: list[str], seconds: float = 280, **options: Any
) -> dict[str, dict[str, Any]]:
    """Run cases in one kernel as ``identity``; return what each came to, with all problems of one that ran again."""
    folder = Path(tempfile.mkdtemp(prefix="sentinel-tests-limits-", dir=identity.home.parent))
    folder.chmod(0o755)
    try:
        # An ordinary user does not read a checkout in root's home.
        suite = folder / "limits"
        shutil.copytree(RUN.parent, suite, ignore=shutil.ignore_patterns("__pycache__", "test_*"))
        environment = identity.environment() | {"LANG": "C", "SENTINEL_AUDIT": "off"}
        done = identity.run(
            identity.python,
            str(suite / RUN.name),
            *names,
            env=environment,
            timeout=seconds,
            check=False,
            **options,
        )
    finally:
        shutil.rmtree(folder)
    lines = list(map(json.loads, filter(_is_object, done.stdout.splitlines())))
    assert [line["case"] for line in lines] == names, done.stdout + done.stderr
    told: dict[str, dict[str, Any]] = {}
    for line in lines:
        line["problems"] = told.get(line["case"], line)["problems"] + line["problems"] * (
            line["case"] in told
        )
        told[line["case"]] = line
    return told


def _is_object(line: str) -> bool:
    return line.startswith("{")


def test_each_bomb_is_contained_and_explained_and_nothing_is_left(own_user: Identity) -> None:
    told = run_suite(own_user, ORDER)
    assert {name: one["problems"] for name, one in told.items() if one["problems"]} == {}


SOME = [*FIRST, *(name for number, name in enumerate(ORDER[len(FIRST) :]) if number % 3 == 0)]
"""An ordinary user's sandbox has the same limits by the same means; all of them are in the long form."""


@pytest.mark.parametrize("names", [SOME, pytest.param(ORDER, marks=pytest.mark.soak)], ids=["some", "all"])
def test_bombs_of_an_ordinary_user_are_contained_as_well(ordinary_user: Identity, names: list[str]) -> None:
    told = run_suite(ordinary_user, names)
    assert {name: one["problems"] for name, one in told.items() if one["problems"]} == {}


@pytest.mark.soak
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("who", ["own_user", "ordinary_user"])
def test_twenty_fork_bombs_in_a_row_leave_nothing(who: str, request: pytest.FixtureRequest) -> None:
    told = run_suite(request.getfixturevalue(who), ["fork_bomb"] * 20, 1200)
    assert told["fork_bomb"]["problems"] == []


def test_every_other_limit_is_hit_and_named(own_user: Identity) -> None:
    told = run_suite(own_user, GENTLE)
    assert {name: one["problems"] for name, one in told.items() if one["problems"]} == {}


@pytest.mark.soak
def test_every_limit_as_an_ordinary_user_too(ordinary_user: Identity) -> None:
    told = run_suite(ordinary_user, GENTLE)
    assert {name: one["problems"] for name, one in told.items() if one["problems"]} == {}


def test_kernel_beside_a_bomb_answers(tmp_path: Path) -> None:
    for name in ("bomb", "beside"):
        (tmp_path / name).mkdir()
    program = (RUN.parent / "programs" / "cpu_burner.py").read_text()
    with notebook(tmp_path / "bomb", SENTINEL_SPARE="off") as bomb, notebook(tmp_path / "beside") as beside:
        running = bomb.send(f"print('on', flush=True)\n{program}")
        while bomb.client.get_iopub_msg(timeout=60)["content"].get("text") != "on\n":
            pass
        for number in range(20):
            assert beside.run(f"print({number} + 1)").text == f"{number + 1}\n"
        bomb.manager.interrupt_kernel()
        assert bomb.collect(running)[0].reply["ename"] == "KeyboardInterrupt"


def test_nothing_survives_the_end_of_a_kernel_with_a_daemon_in_it(tmp_path: Path) -> None:
    with notebook(tmp_path, SENTINEL_SPARE="off") as book:
        program = (RUN.parent / "programs" / "daemon.py").read_text()
        results = [book.run(program.replace('"600"', f'"{600 + os.getpid()}"')), book.run("print(1)")]
        # Of a cell that took long in that cell, else in the next one.
        told = [text for result in results for text in result.bundles("text/plain")]
        assert [text for text in told if "left a process behind" in text], told
        wait_until(lambda: _asleep() == 1, "the daemon sleeps")
    assert _asleep() == 0


def _asleep() -> int:
    """Return how many processes sleep for the number of seconds that is this test's own."""
    wanted = f"sleep\0{600 + os.getpid()}\0".encode()
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found += (entry / "cmdline").read_bytes() == wanted
            except OSError:
                continue
    return found
