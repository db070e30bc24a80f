"""Preflight in a real kernel: what is said before a cell runs, what waits for the violation, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from live_kernel import notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from live_kernel import Notebook, Result

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

VIOLATION = "application/vnd.sentinel.violation+json"
NOTICE = "application/vnd.sentinel.notice+json"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return the kernel that the module's tests share."""
    with notebook(tmp_path_factory.mktemp("preflight"), SENTINEL_PROFILE="strict") as book:
        yield book


@pytest.fixture
def book(shared: Notebook) -> Iterator[Notebook]:
    """Return the shared kernel as it is without any setting."""
    yield shared
    assert shared.run("%sentinel_preflight advise --dangerous off").reply["status"] == "ok"


def _advice(result: Result) -> list[tuple[int, str]]:
    """Return line and cause of what preflight itself said."""
    notices = [notice for notice in result.bundles(NOTICE) if "preflight" in notice]
    return [(notice["preflight"]["line"], notice["preflight"]["cause"]) for notice in notices]


def _shown(result: Result) -> dict[str, list[str]]:
    """Return for each display what it was: advice, then the violation that took its place."""
    displays: dict[str, list[str]] = {}
    for kind, content in result.outputs:
        if kind in ("display_data", "update_display_data"):
            data: dict[str, Any] = content["data"]
            what = (
                "violation"
                if VIOLATION in data
                else "advice"
                if "preflight" in data.get(NOTICE, {})
                else "other"
            )
            seen = displays.setdefault(content.get("transient", {}).get("display_id", ""), [])
            if seen[-1:] != [what]:
                seen.append(what)
    return displays


def _is_one_message(result: Result, line: int) -> None:
    """Check that the advice on ``line`` has become the violation, which can also be there before it was shown."""
    assert list(_shown(result).values()) in ([["advice", "violation"]], [["violation"]])
    assert set(_advice(result)) <= {(line, "call")}


def test_a_refusal_at_the_start_waits_for_its_violation(book: Notebook) -> None:
    result = book.run("import socket\nsocket.socket()")
    assert result.reply["ename"] == "PermissionError"
    assert list(_shown(result).values()) == [["violation"]]


def test_behind_effects_it_is_said_before_and_becomes_the_violation(book: Notebook) -> None:
    result = book.run("open('/tmp/made', 'w').write('1')\nimport socket\nsocket.socket()")
    assert result.reply["ename"] == "PermissionError"
    _is_one_message(result, 3)
    assert book.run("open('/tmp/made').read()").reply["status"] == "ok"


def test_names_of_earlier_cells_count(book: Notebook) -> None:
    assert book.run("import socket as plug\ndef dial():\n    return plug.socket()").outputs == []
    result = book.run("for _ in range(3):\n    pass\ndial()")
    _is_one_message(result, 3)


def test_what_is_handled_is_not_spoken_of(book: Notebook) -> None:
    code = "open('made', 'w')\nimport os\ntry:\n    os.chroot('/')\nexcept OSError:\n    print('handled')"
    result = book.run(code)
    assert result.text == "handled\n"
    assert _advice(result) == []


def test_a_shell_line_that_no_violation_tells_of_is_explained_at_the_end(book: Notebook) -> None:
    result = book.run("!sudo true\nprint('on')")
    assert result.reply["status"] == "ok"
    assert _advice(result) == [(1, "call")]
    assert result.text.endswith("on\n")
    assert result.kinds[-1] == "display_data"


def test_a_shell_line_with_a_violation_is_told_once(book: Notebook) -> None:
    result = book.run("!pip install --retries 0 --disable-pip-version-check no-such-package-at-all")
    assert _advice(result) == []
    assert ["violation"] in _shown(result).values()


def test_refuse_does_not_run_the_cell(book: Notebook) -> None:
    code = "%sentinel_preflight refuse\nran = 1\nimport socket\nsocket.socket()"
    result = book.run(code)
    assert result.kinds == ["display_data", "error"]
    assert "refuse: such a cell is not run" in result.bundles("text/plain")[0]
    assert result.reply["ename"] == "PreflightRefusal"
    for said in (result.reply, result.outputs[1][1]):
        assert "Line 4: socket.socket needs the network" in said["evalue"]
        assert "HINT → Download data" in said["evalue"]
        assert "`%sentinel_profile datascience`" in said["evalue"]
        assert said["traceback"][1] == "----> 4 socket.socket()"
    assert book.run("ran").reply["ename"] == "NameError"
    # What did not run has bound nothing, and what would run, runs.
    assert book.run("print('fine')\ndef later():\n    import socket\n    socket.socket()").text == "fine\n"
    assert book.run("later()").reply["ename"] == "PreflightRefusal"
    result = book.run("%pip install no-such-package-at-all")
    assert result.reply["ename"] == "PreflightRefusal"
    assert "pip install has to download packages" in result.reply["evalue"]


def test_the_profile_in_force_decides(book: Notebook) -> None:
    code = "import socket\nsocket.socket().close()\nprint('open')"
    assert book.run(f"%sentinel_preflight refuse\n{code}").reply["ename"] == "PreflightRefusal"
    assert book.run(f"%sentinel_profile datascience\n{code}").text == "open\n"
    assert book.run(f"%sentinel_profile strict\n{code}").reply["ename"] == "PreflightRefusal"


def test_off_says_nothing(book: Notebook) -> None:
    result = book.run("%sentinel_preflight off\nopen('made', 'w')\nimport socket\nsocket.socket()")
    assert result.reply["ename"] == "PermissionError"
    assert list(_shown(result).values()) == [["other"], ["violation"]]


def test_dangerous_code_is_advised_of_or_refused(book: Notebook) -> None:
    code = "text = '1 + 1'.strip()\neval(text)"
    assert book.run(code).kinds == ["execute_result"]
    advised = book.run(f"%sentinel_preflight --dangerous advise\n{code}")
    assert _advice(advised) == [(3, "code-from-data")]
    assert advised.kinds == ["display_data", "display_data", "execute_result"]
    refused = book.run(f"%sentinel_preflight --dangerous refuse\n{code}")
    assert refused.reply["ename"] == "PreflightRefusal"
    assert "Rewrite it: ast.literal_eval" in refused.reply["evalue"]


def test_a_clear_shows_advice_and_violation_again(book: Notebook) -> None:
    code = (
        "open('made', 'w')\nfrom IPython.display import clear_output\nimport os\n"
        "clear_output()\nprint('on')\nos.chroot('/')"
    )
    result = book.run(code)
    assert "display_data" in result.kinds[result.kinds.index("clear_output") :]
    _is_one_message(result, 6)


def test_what_is_not_understood_is_said(book: Notebook) -> None:
    for line in ("perhaps", "advise refuse", "--dangerous", "--dangerous maybe"):
        result = book.run(f"%sentinel_preflight {line}")
        assert result.reply["ename"] == "UsageError"
        assert "[off|advise|refuse] [--dangerous off|advise|refuse]" in result.reply["evalue"]


def test_a_kernel_that_was_started_to_refuse_goes_on_refusing(tmp_path: Any) -> None:
    arguments = ["--SentinelKernel.preflight=refuse"]
    with notebook(tmp_path, extra_arguments=arguments, SENTINEL_DANGEROUS="refuse") as strict:
        for line in ("off", "advise", "--dangerous off", "refuse --dangerous advise"):
            result = strict.run(f"%sentinel_preflight {line}\nprint('no')")
            assert result.reply["ename"] == "UsageError"
            assert result.text == ""
        assert strict.run("import os\nos.chroot('/')").reply["ename"] == "PreflightRefusal"
        assert strict.run("x = input\neval(x.__name__)").reply["ename"] == "PreflightRefusal"
        assert strict.run("print(1)").text == "1\n"


def test_what_ends_the_sandbox_is_said_before(book: Notebook) -> None:
    result = book.run("import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)")
    assert result.reply["ename"] == "SandboxDied"
    _is_one_message(result, 2)
    # The next worker has none of the names of the last one.
    assert book.run("try:\n    dial()\nexcept NameError:\n    print('gone')").text == "gone\n"
