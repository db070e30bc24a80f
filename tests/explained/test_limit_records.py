"""Limits and deaths are violations: in their cell, as a record that the schema holds for, counted once each."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator
from live_kernel import Notebook, Result, notebook

import sentinel_kernel.policy
from sentinel_kernel.abi.architecture import architecture_of
from sentinel_kernel.kernel.output_rule import NOTICE_TYPE, VIOLATION_TYPE
from sentinel_kernel.policy.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

SCHEMA = json.loads(Path(sentinel_kernel.policy.__file__).with_name("violation.schema.json").read_text())


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Notebook]:
    """Start a kernel with a file of words that has a fault."""
    own = tmp_path / "words.json"
    own.write_text(
        json.dumps({"$schema_version": 1, "causes": [{"causes": ["tmp"], "en": "{who}", "zh": "x"}]})
    )
    variables = {"SENTINEL_MAPPINGS": str(own), "SENTINEL_LIMITS_BACKEND": "fallback"}
    with notebook(tmp_path, SENTINEL_SPARE="off", **variables) as running:
        yield running


def test_limits_and_deaths_are_violations_and_a_fault_in_words_of_ones_own_is_told(book: Notebook) -> None:
    first = book.run("pass")
    [notice] = first.bundles(NOTICE_TYPE)
    assert "$.causes[0].en" in notice["message"]["en"]
    assert "words.json" in notice["message"]["zh"]
    assert notice["hint"]["en"]

    full = book.run("%sentinel_limit tmp=2M\nopen('/tmp/x', 'wb').write(bytes(4 << 20))")
    assert full.reply["ename"] == "OSError"
    [notice], [record] = full.bundles(NOTICE_TYPE), full.bundles(VIOLATION_TYPE)[-1:]
    assert {"name": "tmp", "stage": "refused"}.items() <= notice["limit"].items()
    assert notice["message"] == record["message"]
    Draft202012Validator(SCHEMA).validate(record)
    assert Violation.from_json(record).cause == "tmp"
    assert (
        record["limit"] | {"name": "tmp", "allowed": 2 << 20, "unit": "bytes", "own": True} == record["limit"]
    )
    assert record["message"]["en"].startswith("The folder /tmp is full: 2 MiB")
    assert record["execution_count"] == full.reply["execution_count"]

    died = book.run("import ctypes\nctypes.string_at(0)")
    assert died.reply["ename"] == "SandboxDied"
    record = died.bundles(VIOLATION_TYPE)[-1]
    Draft202012Validator(SCHEMA).validate(record)
    assert (record["cause"], record["action"], record["outcome"]) == ("worker_crashed", "DEATH", "ended")
    assert record["values"]["signal"] == "SIGSEGV"
    assert record["message"]["en"] in died.reply["evalue"]

    [status] = book.run("%sentinel_status").bundles("text/plain")
    [line] = [line for line in status.splitlines() if "limits and failures so far" in line]
    assert line.split()[-1] == "2"


def limits_of(result: Result) -> list[str]:
    """Return the limits that a cell was told of."""
    return [record["limit"]["name"] for record in result.bundles(VIOLATION_TYPE) if record["limit"]]


def test_each_cell_that_meets_a_full_disk_is_told_by_itself_however_it_met_it(book: Notebook) -> None:
    fill = "try:\n    open('big', 'wb').write(bytes(4 << 20))\nexcept OSError as error:\n    print(error)"
    assert limits_of(book.run(f"%sentinel_limit disk=1M\n{fill}")) == ["disk"]
    copied = "import subprocess\nsubprocess.run(['cp', 'big', 'more'], check=True{})"
    for code in (
        fill,
        "!cp big more",
        "%%bash\ncp big more",
        copied.format(""),
        copied.format(", capture_output=True"),
    ):
        cell = book.run(code)
        assert limits_of(cell) == ["disk"], code
        if cell.reply["status"] == "error" and code != copied.format(
            ""
        ):  # whose words may come behind its error
            assert cell.reply["ename"] == "CalledProcessError"
            assert "[Sentinel: Probably: " in cell.reply["evalue"]
    # What fails for a reason of its own does so beside a full disk too.
    for code in (
        "import subprocess\nsubprocess.run(['false'], check=True)",
        "%%bash\nls /nowhere",
        "print('full')",
    ):
        cell = book.run(code)
        assert limits_of(cell) == [], code
        assert "[Sentinel" not in cell.reply.get("evalue", "")


def test_memory_that_a_program_was_refused_in_small_pieces_is_told_and_none_that_is_only_spoken_of(
    book: Notebook,
) -> None:
    assert limits_of(book.run("%sentinel_limit memory=600M\nprint('MemoryError')")) == []
    # It ends once a sample has seen what it holds: where one falls is the machine's to say.
    inner = (
        "kept = []\ndef free():\n    told = dict(line.split(':') for line in open('/proc/meminfo'))\n"
        "    return int(told['MemAvailable'].split()[0]) / int(told['MemTotal'].split()[0])\n"
        "try:\n    while len(kept) < 100:\n        kept.append(b'x' * 10**7)\nexcept MemoryError:\n"
        "    kept.pop()\n    while free() > 0.2:\n        pass\n    raise"
    )
    started = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}]{{}})"
    for more in ("", ", check=True, capture_output=True", ""):
        cell = book.run(started.format(more))
        assert limits_of(cell) == ["memory"], more
        assert ("[Sentinel: Probably: " in cell.reply.get("evalue", "")) == bool(more)
    # What was refused before says nothing about a program that fails later.
    ended = book.run("print('MemoryError')\nimport subprocess\nsubprocess.run(['false'], check=True)")
    assert limits_of(ended) == []
    assert "[Sentinel" not in ended.reply["evalue"]


def test_the_workers_threads_lie_where_the_filter_lets_them_start_and_its_programs_do_not(
    book: Notebook,
) -> None:
    top = architecture_of(platform.machine()).top_bit
    code = (
        "import ctypes, threading\n"
        f"tell = lambda: print(threading.get_ident() >> {top}, end=' ')\n"
        "tell()\n"
        "one = threading.Thread(target=tell)\n"
        "one.start()\n"
        "one.join()\n"
        "print(ctypes.CDLL(None).personality(0xFFFFFFFF))\n"
    )
    assert book.run(code).text.split() == ["0", "0", "0"]
    child = (
        f"import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', {code!r}], text=True))"
    )
    assert book.run(child).text.split() == ["1", "1", "0"]
