"""Each fuzz target for a moment: the same inputs each time, what is in the corpus among them (tests/fuzz/run.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "fuzz_short.py"
CORPUS = Path(__file__).parent / "corpus"
TARGETS = (
    *("profile", "mapping", "messages", "requests", "zmtp", "packets", "notifications", "addresses"),
    *("stack_dump", "report", "dns", "http", "audit_export"),
)


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], str]]:
    """Return what became of each target, and all that was said."""
    folder = tmp_path_factory.mktemp("fuzz")
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[0]: (line[1:], done.stderr[-8000:]) for line in lines if line and line[0] in TARGETS}


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_gets_out_of_a_target(tried: dict[str, tuple[list[str], str]], name: str) -> None:
    outcome, said = tried[name]
    assert outcome[0] == "ok", said
    kept = len(list((CORPUS / name).glob("*")))
    assert int(outcome[1]) == kept  # each crash of old was replayed


def test_every_corpus_is_of_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= set(TARGETS)
