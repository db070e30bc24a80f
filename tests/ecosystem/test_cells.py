"""What people run in cells works as on plain ipykernel: each entry of the list, in one kernel a profile.

A kernel runs all entries one after another, as a long notebook does; each entry is its own test.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ecosystem_cell import Entry
    from ordinary_user import Identity

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

HERE = Path(__file__).parent
# In the environment of the ordinary user, which is made anew for each machine: what the demo needs.
CORE = {"PIL", "matplotlib", "numpy", "pandas"}


def _entries() -> tuple[Entry, ...]:
    found: tuple[Entry, ...] = ()
    for path in sorted((HERE / "cells").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"ecosystem_cells_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += module.ENTRIES
    return found


ENTRIES = _entries()
CORE_ENTRIES = tuple(entry for entry in ENTRIES if CORE.issuperset(entry.needs))


def _by_name(entries: tuple[Entry, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries, ids=lambda entry: entry.name)


@pytest.fixture(scope="session")
def results(
    jupyter_environment: Callable[..., dict[str, str]], make_folder: Callable[[Identity, str], Path]
) -> Callable[..., dict[str, Any]]:
    """Return a function that gives what every entry printed in a kernel under a profile; run once each."""

    @functools.cache
    def run(identity: Identity, kernel: str, profile: str) -> dict[str, Any]:
        entries = ENTRIES if identity.name != "tester" else CORE_ENTRIES
        folder = make_folder(identity, f"cells {kernel} {profile}")
        written = folder / "entries.json"
        written.write_text(json.dumps([dataclasses.asdict(entry) for entry in entries]))
        driver = folder / "run_entries.py"
        driver.write_text((HERE / "drivers" / "run_entries.py").read_text())
        given = folder / "results.json"
        environment = jupyter_environment(identity, SENTINEL_PROFILE=profile)
        identity.run(
            identity.python,
            *(str(driver), kernel, str(written), str(given)),
            cwd=folder,
            env=environment,
            timeout=280,
        )
        left: dict[str, Any] = json.loads(given.read_text())
        left[""] = sorted(path.name for path in (folder / "notebook folder ü").iterdir())
        return left

    return run


def _check(entry: Entry, result: dict[str, Any]) -> None:
    assert re.fullmatch(entry.prints, result["text"]), f"{result['text']}\n{result['errors']}"


@_by_name(ENTRIES)
def test_it_does_what_it_does_on_plain_ipykernel(
    entry: Entry, own_user: Identity, results: Callable[..., dict[str, Any]]
) -> None:
    _check(entry, results(own_user, "python3", "datascience")[entry.name])
    result = results(own_user, "sentinel", "datascience")[entry.name]
    _check(entry, result)
    assert result["violations"] == []


@_by_name(ENTRIES)
def test_strict_does_it_as_well_or_says_why_not(
    entry: Entry, own_user: Identity, results: Callable[..., dict[str, Any]]
) -> None:
    result = results(own_user, "sentinel", "strict")[entry.name]
    if entry.strict:
        assert result["violations"]
        for told in result["violations"]:
            assert entry.strict in told
            assert "HINT →" in told
    else:
        _check(entry, result)
        assert result["violations"] == []


@_by_name(CORE_ENTRIES)
def test_it_does_so_for_an_ordinary_user(
    entry: Entry, ordinary_user: Identity, results: Callable[..., dict[str, Any]]
) -> None:
    result = results(ordinary_user, "sentinel", "datascience")[entry.name]
    _check(entry, result)
    assert result["violations"] == []


def test_data_alone_of_it_is_in_the_notebook_s_folder(
    own_user: Identity, results: Callable[..., dict[str, Any]]
) -> None:
    plain = results(own_user, "python3", "datascience")[""]
    saved = results(own_user, "sentinel", "datascience")[""]
    assert "ecosystem_module.py" in plain
    assert {"a.gif", "f.pdf"} <= set(saved) <= set(plain)
    assert not [name for name in saved if name.endswith((".py", ".pkl", ".pt", ".html", ".dat"))]
    assert results(own_user, "sentinel", "strict")[""] == []
