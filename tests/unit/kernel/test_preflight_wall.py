"""No cell's text ends the kernel: what the rules or the words make of it stays behind a wall."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.kernel.advice import MOST_SHOWN
from sentinel_kernel.kernel.preflight import Preflight
from sentinel_kernel.kernel.violation_words import ViolationWords
from sentinel_kernel.policy import dangerous, preflight
from sentinel_kernel.policy.dangerous import check_dangerous
from sentinel_kernel.policy.preflight import Notebook

if TYPE_CHECKING:
    from collections.abc import Callable

HUGE = "0x" + "f" * 3700
"""A number with more digits than Python turns into text."""


class Broken(Exception):
    """What a rule raises that nobody has thought of."""


def broken(*_arguments: object, **_named: object) -> Any:
    """Stand in for a rule."""
    raise Broken


def host(mode: str = "advise", rules: str = "off") -> Any:
    """Return as much of a host as preflight asks for."""
    settings = SimpleNamespace(
        preflight=mode, dangerous=rules, language="en", profile_directories=(), workspace="", python=""
    )
    lifecycle = SimpleNamespace(inner=None, profile="strict", ready={})
    loop = SimpleNamespace(call_later=lambda *_: None)
    execution = SimpleNamespace(running=None, waiting=[])
    return SimpleNamespace(settings=settings, lifecycle=lifecycle, loop=loop, execution=execution)


def cell(code: str) -> Any:
    """Return as much of a cell as preflight asks for."""
    return SimpleNamespace(code=code, silent=True, advice=None, client_answers=True)


@pytest.mark.parametrize("handler", [HUGE, f"(OSError, {HUGE})", f"a[{HUGE}].b", f"-{HUGE}", "a().b"])
def test_a_handler_that_names_no_exception_is_read(handler: str, notebook: Callable[[], Notebook]) -> None:
    """A number too long to be written out is no name; the line in the try is still told of."""
    code = f"import socket\nsocket.socket()\ntry:\n    socket.socket()\nexcept {handler}:\n    0"
    assert [finding.line for finding in notebook().read(code)][:1] == [2]
    assert check_dangerous(code) == ()
    preflight_of_host = Preflight(host("refuse", "refuse"))
    assert preflight_of_host.examine(cell(code))["ename"] == "PreflightRefusal"


@pytest.fixture
def notebook() -> Callable[[], Notebook]:
    """Return what makes an empty notebook under the strictest profile."""
    from sentinel_kernel.kernel.preflight_facts import gather

    facts = gather("strict", (), "/tmp")
    return lambda: Notebook(facts)


def test_reading_is_total_whatever_a_rule_raises(
    monkeypatch: pytest.MonkeyPatch, notebook: Callable[[], Notebook]
) -> None:
    """Of a cell that a rule stumbles over nothing is said, and the next one is read as ever."""
    code = "import socket\nsocket.socket()\neval(input())"
    read = notebook()
    with monkeypatch.context() as patch:
        patch.setattr(preflight.Walk, "run", broken)
        patch.setattr(dangerous.DangerousCode, "visit_Call", broken)
        assert read.read(code) == ()
        assert check_dangerous(code) == ()
    assert read.read(code)
    assert check_dangerous(code)


@pytest.mark.parametrize("stage", ["_may_matter", "_findings", "_under_profile", "_refuses"])
def test_the_host_outlives_whatever_looking_at_a_cell_raises(
    monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """The cell is run without advice."""
    examiner = Preflight(host())
    monkeypatch.setattr(examiner, stage, broken)
    assert examiner.examine(cell("import socket\nsocket.socket()")) == {}
    examiner._warm()


def test_the_host_outlives_whatever_words_and_remedies_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding stays as it was; the violation has plain words."""
    examiner = Preflight(host())
    monkeypatch.setattr(examiner, "_under_profile", broken)
    finding: Any = object()
    assert examiner._with_remedies(finding, cell("")) is finding
    words = ViolationWords(host().settings, dict, SimpleNamespace)
    monkeypatch.setattr(words, "_complete", broken)
    assert "socket" in words.complete({"syscall": "socket"})["message"]["en"]


def test_what_helps_is_found_out_for_those_findings_alone_that_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes its time for each, and the kernel does nothing else meanwhile."""
    examiner, asked = Preflight(host("refuse")), []
    monkeypatch.setattr(examiner, "_with_remedies", lambda finding, _: asked.append(finding) or finding)
    code = "".join(f"open('/etc/{n}', 'w')\n" for n in range(50))
    assert examiner.examine(cell(code))["ename"] == "PreflightRefusal"
    assert len(asked) == MOST_SHOWN


UNFOLLOWED = [
    "import socket\ny = 1" + "+1" * 900 + "\nsocket.socket()",
    "import socket\ny = " + "-" * 3000 + "1\nsocket.socket()",
    "import socket\nsocket.socket()\n#" + "x" * 70_000,
    "import socket\nsocket.socket()\nif",
]


@pytest.mark.parametrize("code", [*UNFOLLOWED, "eval(input())\ny = 1" + "+1" * 900])
@pytest.mark.parametrize("modes", [("refuse", "off"), ("off", "refuse"), ("refuse", "refuse")])
def test_what_can_not_be_read_is_not_run_where_cells_are_refused(code: str, modes: tuple[str, str]) -> None:
    """Depth and padding are no way past the rules; where they only advise, the cell runs."""
    code += "\neval(input())" * (modes[0] == "off" and "eval" not in code)
    code += "\nimport os\nos.chroot('/')" * (modes[1] == "off" and "socket" not in code)
    assert Preflight(host(*modes)).examine(cell(code))["ename"] == "PreflightRefusal"
    advised = ["advise" if mode == "refuse" else mode for mode in modes]
    assert Preflight(host(*advised)).examine(cell(code)) == {}


def test_a_long_line_of_a_shell_is_not_run_where_dangerous_code_is_refused() -> None:
    """It is searched only so far."""
    code = "%%bash\necho " + "x" * 3000 + "; rm -rf /"
    assert Preflight(host("off", "refuse")).examine(cell(code))["ename"] == "PreflightRefusal"


def test_guesses_do_not_crowd_out_what_is_certain() -> None:
    """Only so many findings are kept of a cell."""
    code = (
        "import os\ndef f():\n    os.chroot('/')\n" + "if x:\n    os.chroot('/')\n" * 150 + "os.chroot('/')"
    )
    assert Preflight(host("refuse")).examine(cell(code))["ename"] == "PreflightRefusal"


def test_honest_cells_run_where_cells_are_refused() -> None:
    """Also long ones, which the rules have nothing to say of, and IPython's own lines."""
    for code in ("x = 1\n" * 20_000, "import socket\nsocket?", "import os\nprint(os.getcwd())\n!ls"):
        assert Preflight(host("refuse", "refuse")).examine(cell(code)) == {}


@pytest.mark.parametrize("stage", ["_may_matter", "_findings", "_under_profile", "_refuses"])
def test_what_fails_while_a_cell_is_looked_at_refuses_it(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """Where it was asked that cells be refused, the kernel fails closed."""
    examiner = Preflight(host("refuse"))
    monkeypatch.setattr(examiner, stage, broken)
    assert examiner.examine(cell("import socket\nsocket.socket()"))["ename"] == "PreflightRefusal"
