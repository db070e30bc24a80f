"""The documents say what the code does: names, lists and commands in them are compared with the tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from sentinel_kernel import cli
from sentinel_kernel.boot.sequence import step_names
from sentinel_kernel.policy.profile import list_profiles
from sentinel_kernel.supervisor import files, protocol

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "SECURITY.md", "SPECIFICATION.md"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
)


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_there_and_its_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text(name)):
        if not target.startswith("https://"):
            assert (ROOT / target).exists(), target


def test_the_readme_names_both_commands_and_the_makefile_has_them() -> None:
    makefile = text("Makefile")
    for target in ("install", "run", "demo", "test", "bench", "soak", "fuzz"):
        assert re.search(rf"^{target}: ", makefile, re.MULTILINE), target
    assert "    make run\n" in text("README.md")
    assert "    make test\n" in text("README.md")
    assert "--MultiKernelManager.default_kernel_name=sentinel" in text("Makefile")


def test_the_readme_names_every_shipped_profile_and_every_magic() -> None:
    readme = text("README.md")
    own = [name for name in list_profiles([]) if "/" not in name]
    assert own
    for name in own:
        assert f"| `{name}`" in readme, name
    for magic in protocol.HOST_MAGICS:
        assert f"| `%{magic}" in readme, magic


def test_the_readme_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    commands = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert set(commands) >= {"install", "doctor", "profiles", "explain"}
    for command in commands:
        assert f"sentinel-kernel {command}" in text("README.md"), command


def test_the_architecture_lists_the_boot_steps_in_their_order() -> None:
    section = text("ARCHITECTURE.md").partition("## Boot order")[2].partition("\n## ")[0]
    child = section.partition("Child:")[2]
    assert tuple(re.findall(r"`(\w+)`", child)) == step_names()


def test_the_architecture_names_every_room() -> None:
    rooms = {path.parent.name for path in (ROOT / "sentinel_kernel").glob("*/__init__.py")}
    table = text("ARCHITECTURE.md").partition("## Rooms")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)/`", table, re.MULTILINE)) == rooms


def test_the_architecture_gives_a_reason_for_every_dependency() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    wanted = {re.split(r"[<>=\[ ]", line)[0] for line in project["dependencies"]}
    table = text("ARCHITECTURE.md").partition("## Dependencies")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == wanted


def test_the_architecture_says_how_long_the_files_process_rests() -> None:
    said = "forked from the supervisor when a cell has changed any and let go after an idle second:"
    assert said in " ".join(text("ARCHITECTURE.md").split())
    assert files._IDLE_SECONDS == 1.0


def test_the_changelog_keeps_its_form() -> None:
    changelog = text("CHANGELOG.md")
    assert re.search(r"^## \[Unreleased\]$", changelog, re.MULTILINE)
    kinds = set(re.findall(r"^### (.*)$", changelog, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_script_of_the_makefile_exists() -> None:
    for path in re.findall(r"\bpython (\S+\.py)", text("Makefile")):
        assert (ROOT / path).exists(), path
