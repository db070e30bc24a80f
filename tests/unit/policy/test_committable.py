"""Which names may reach the host by themselves, and which need a question of their own."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.committable import (
    CONFIGURATION,
    LOADED,
    VERSION_CONTROL,
    Surroundings,
    by_itself,
    why_asked,
)

_NOTHING = Surroundings()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/hooks/post-commit", VERSION_CONTROL),
        (".GIT/config", VERSION_CONTROL),
        ("a/.git. /config", VERSION_CONTROL),
        ("a/git~1/config", VERSION_CONTROL),
        (".g\u200cit/config", VERSION_CONTROL),
        ("mirror.git/hooks/update", VERSION_CONTROL),
        ("hooks/pre-push", VERSION_CONTROL),
        (".envrc", CONFIGURATION),
        (".vscode/tasks.json", CONFIGURATION),
        (".ssh/authorized_keys", CONFIGURATION),
        (".BashRC", CONFIGURATION),
        ("jupyter_server_config.py", CONFIGURATION),
        (".venv/bin/python", LOADED),
        ("lib/python3.11/site-packages/x.py", LOADED),
        ("m.pth", LOADED),
        ("__pycache__/m.cpython-311.pyc", LOADED),
        ("results.csv", ""),
        ("src/module.py", ""),
        ("git/notes.txt", ""),
    ],
)
def test_what_the_host_obeys_needs_a_question_of_its_own(path: str, reason: str) -> None:
    assert why_asked("/home/x/work", path, _NOTHING) == reason


def test_folders_that_the_host_loads_from_need_one() -> None:
    inside = Surroundings(("/home/x/work/lib",))
    assert why_asked("/home/x/work", "lib/data.txt", inside) == LOADED
    assert why_asked("/home/x/work", "library/data.txt", inside) == ""
    assert why_asked("/home/x", "work", inside) == LOADED  # a folder around it
    # A layer within such a folder: what is loaded from there is code, results are not.
    around = Surroundings(("/home/x",))
    assert why_asked("/home/x/work", "m.py", around) == LOADED
    assert why_asked("/home/x/work", "m.csv", around) == ""


@pytest.mark.parametrize("path", ["a.csv", "d/e/Report 2.html", "numbers", "x.parquet", "é.png"])
def test_a_plain_result_is_committed_by_itself(path: str) -> None:
    assert by_itself(path)


@pytest.mark.parametrize(
    "path",
    [
        ".hidden",
        ".d/x.csv",
        "a.py",
        "A.PY",
        "a.py.",
        "b.sh",
        "Makefile",
        "n.ipynb",
        "-rf",
        "~",
        "AGENTS.md",
        "a\nb.csv",
    ],
)
def test_what_is_hidden_run_or_obeyed_is_held(path: str) -> None:
    assert not by_itself(path)
