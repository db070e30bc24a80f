"""What preflight does for one cell has a bound, whatever the cell says; what was not read is said."""

from __future__ import annotations

import pytest
from growing import grows_evenly

from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.dangerous import DangerousNotebook, check_dangerous
from sentinel_kernel.policy.preflight import Notebook, check
from sentinel_kernel.policy.preflight_cell import read_cell, unread_line
from sentinel_kernel.policy.preflight_finding import Facts
from sentinel_kernel.policy.preflight_unread import unread
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.typed_installs import typed_install


def facts_of(looked: list[str]) -> Facts:
    """Return facts of a machine that notes in ``looked`` which packages are looked up, and has all of them."""

    def installed(name: str) -> str:
        looked.append(name)
        return "1.0"

    policy = compile_policy(load_profile("datascience"), "x86_64")
    return Facts(policy=policy, writable=("/tmp",), installed=installed)


def test_a_package_is_looked_up_once_and_a_cell_has_so_many_looked_up_and_no_more() -> None:
    looked: list[str] = []
    facts = facts_of(looked)
    assert not check("!pip install numpy numpy numpy\n!pip install numpy", facts)
    assert looked == ["numpy"]
    looked.clear()
    many = "\n".join(
        f"!pip install {' '.join(f'p{line}x{number}' for number in range(200))}" for line in range(20)
    )
    found = check(many, facts)
    assert len(looked) == 64
    assert found
    assert {finding.confidence for finding in found} == {"likely"}  # what was not looked up may be there


def test_a_line_that_installs_more_than_a_person_types_is_not_one_to_type_outside() -> None:
    assert typed_install("!pip install " + "numpy " * 64, 1) is not None
    assert typed_install("!pip install " + "numpy " * 65, 1) is None


def test_cell_magics_above_one_another_are_read_so_deep_and_the_line_that_is_one_too_many_is_told() -> None:
    def cell(count: int) -> str:
        return "%%time\n" * count + "import os\nos.system('rm -rf /')"

    assert [finding.line for finding in check_dangerous(cell(16))] == [18]
    assert read_cell(cell(16)) is not None
    assert read_cell(cell(17)) is None
    assert unread_line(cell(8500)) == 17
    assert not check_dangerous(cell(8500))


@pytest.mark.parametrize(
    "cell",
    [
        "import os\ncommand = '" + "b" * 4000 + "'\n" + "os.system(command)\n" * 8000,
        "%%bash\n" + "echo a\n" * 12_000,
    ],
)
def test_of_more_commands_than_are_read_it_is_said_that_not_all_was_checked(cell: str) -> None:
    read: list[int] = []
    for notebook in (Notebook(facts_of([])), DangerousNotebook()):
        notebook.read("import os\nos.system('echo a')")
        assert not notebook.skipped
        notebook.read(cell)
        read.append(notebook.skipped)
    assert any(read)
    assert unread(cell, skipped=True) is not None


@pytest.mark.parametrize(
    "part",
    [
        "a= ",
        "env ",
        "a \\\n",
        "if a\n",
        "a;",
        "a && ",
        "> a ",
        "pip install a ",
        "#",
        "'a' ",
        "a=b c;",
        "$a ",
        "|| ",
    ],
)
def test_a_script_is_judged_in_a_time_that_grows_with_its_length(part: str) -> None:
    for head in ("!", "%%bash\n", "!pip install "):
        notebook = Notebook(facts_of([]))
        assert grows_evenly(notebook.read, lambda count, head=head: head + part * count), head
