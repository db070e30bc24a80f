"""What every test shares: the report's header, honest skips, leftovers, and who runs a command.

A test that needs a mechanism of the host says so with ``@pytest.mark.requires("user_namespaces")``; the names
are those of `sentinel-kernel doctor`'s probes, and each is tried for real once a run. What is missing skips
the test with the reason; under SENTINEL_MUST_RUN=1, which CI sets, it fails it (``support/lacking.py``).
"""

from __future__ import annotations

import functools
import gc
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import leaks
import pytest
from hypothesis import settings
from lacking import MUST_RUN, lacking, need_root, roots_side
from ordinary_user import Identity, ordinary_identity, own_identity
from specification import pitfalls
from spent import Spent

from sentinel_kernel.probes import PROBES, Finding, applicable, run_probe

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("fuzz", deadline=None, max_examples=20_000, print_blob=True)
settings.load_profile("default")

# A folder of this run's own: what two runs leave behind must not be mistaken for each other.
_RUN = Path(tempfile.mkdtemp(prefix="sentinel-tests-"))


@functools.cache
def finding(name: str) -> Finding:
    """Return what the probe ``name`` finds on this machine."""
    return run_probe(next(probe for probe in PROBES if probe.name == name))


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the run: own run-time folder and cache, orphans in sight, long fuzzing only when asked for."""
    leaks.adopt_orphans()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Spent())
    if "fuzz" in (config.option.markexpr or "") and "not fuzz" not in config.option.markexpr:
        settings.load_profile("fuzz")
    for variable, name in (
        ("XDG_RUNTIME_DIR", "run"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "share"),
        ("XDG_STATE_HOME", "state"),
    ):
        folder = _RUN / name
        folder.mkdir(mode=0o700)
        os.environ[variable] = str(folder)
    if hasattr(config, "workerinput"):
        # One of several processes: what a test of another one has open now is none of this one's leftovers.
        folder = _RUN / "tmp"
        folder.mkdir()
        folder.chmod(0o1777)
        _RUN.chmod(0o755)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    for variable in [
        name
        for name in os.environ
        if name.startswith(("SENTINEL_PROFILE", "SENTINEL_LANG", "SENTINEL_AUDIT", "JUPYTER"))
    ]:
        del os.environ[variable]


def pytest_unconfigure() -> None:
    """Remove this run's folder."""
    shutil.rmtree(_RUN, ignore_errors=True)


# Files go whole to whoever is free (--dist=loadfile). What takes minutes comes first, and what takes moments last, so
# that no process is left alone with a long one at the end. Parts of paths, from the first to the last.
_FIRST = (
    "vm/",
    "explained/test_corpus",
    "escape/test_hosts",
    "network/",
    "ecosystem/",
    "workspace/",
    "limits/",
    "browser/",
)
_LAST = ("shipped/", "unit/")


def _turn(item: pytest.Item) -> int:
    path = str(item.path.relative_to(item.config.rootpath / "tests"))
    for turn, part in enumerate(_FIRST):
        if path.startswith(part):
            return turn - len(_FIRST)
    return 1 + next((turn for turn, part in enumerate(_LAST) if path.startswith(part)), -1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the files by how long they take."""
    items.sort(key=_turn)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests of known pitfalls their numbers (SPECIFICATION.md), as part of their names."""
    module = Path(str(metafunc.module.__file__))
    numbers = pitfalls().get((f"{module.parent.name}/{module.name}", metafunc.function.__name__))
    if numbers is not None:
        metafunc.fixturenames.append("pitfall")
        name = "-".join(f"pitfall_{number}" for number in numbers)
        metafunc.parametrize("pitfall", [numbers], ids=[name], indirect=True)


@pytest.fixture
def pitfall(request: pytest.FixtureRequest) -> list[int]:
    """Return the numbers of the pitfalls that a test is about."""
    numbers: list[int] = request.param
    return numbers


def pytest_collection_finish() -> None:
    """Keep what was collected out of the sight of the garbage collector.

    Leftovers are looked for behind a full collection; half a million objects of five thousand tests would be gone
    through several times for each test that boots a sandbox, some hundred milliseconds a time.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> list[str]:
    """Print what the tests run on."""
    machine = f"Linux {platform.release()} {platform.machine()}"
    lines = [f"sentinel: {machine}, Python {sys.executable}, uid {os.geteuid()}, must run: {MUST_RUN}"]
    for probe in applicable():
        found = finding(probe.name)
        lines.append(f"sentinel: {found.title}: {'' if found.ok else 'ABSENT: '}{found.detail}")
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests have recorded (``record_property("figures", ...)``), by whichever process."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):
                if name == "figures" and report.when == "call":
                    terminalreporter.section(report.nodeid.rpartition("::")[2].replace("_", " "))
                    terminalreporter.write_line(str(value))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or under SENTINEL_MUST_RUN=1 fail, a test whose mechanisms are not there, before its fixtures are made."""
    for mark in item.iter_markers("requires"):
        for name in mark.args:
            if name == "root":
                need_root("only root can set up what this test is about")
                continue
            found = finding(name)
            if not found.ok:
                lacking(f"{found.title}: {found.detail} {found.remedy}")


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look for leftovers after each test that boots a sandbox."""
    if request.node.get_closest_marker("sandbox") is None:
        yield
        return
    before = leaks.traces()
    yield
    leaks.wait_clean(before)


@pytest.fixture(scope="session")
def ordinary_user() -> Iterator[Identity]:
    """Yield an ordinary user that runs commands; its environment holds this tree's built wheel."""
    with ordinary_identity() as ordinary:
        yield ordinary


@pytest.fixture(scope="session")
def own_user(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    """Return whoever runs the tests."""
    return own_identity(tmp_path_factory.mktemp("home"))


@pytest.fixture(params=["root", "ordinary user"])
def identity(request: pytest.FixtureRequest) -> Identity:
    """Return root, then an ordinary user: what has to hold for both is tested with both."""
    if request.param == "ordinary user":
        ordinary: Identity = request.getfixturevalue("ordinary_user")
        return ordinary
    roots_side()
    own: Identity = request.getfixturevalue("own_user")
    return own
