"""One host, cells in another environment: install --python with real environments, for root and an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel import cli, kernelspecs
from sentinel_kernel.errors import BootError
from sentinel_kernel.supervisor import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ordinary_user import Identity

DRIVER = Path(__file__).parents[1] / "kernel" / "drivers" / "run_cells.py"
NEEDED = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")


def version_of(python: str) -> tuple[int, int]:
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    major, minor = map(int, done.stdout.split() or (0, 0))
    return major, minor


def another_python() -> str:
    """Return the oldest interpreter of another version than this one's where there is one, else Debian's."""
    names = [shutil.which(f"python3.{minor}") for minor in range(10, 15)]
    for python in [*filter(None, names), "/usr/bin/python3"]:
        if version_of(python) >= (3, 10) and version_of(python) != sys.version_info[:2]:
            return python
    return "/usr/bin/python3"


@pytest.fixture(scope="module")
def make_environment() -> Iterator[Callable[..., str]]:
    """Return a function from a name, an interpreter and what to install to that environment's interpreter."""
    with tempfile.TemporaryDirectory(prefix="sentinel-tests-environments-") as folder:
        os.chmod(folder, 0o755)  # an ordinary user works in them too

        def make(name: str, python: str, *packages: str) -> str:
            place = Path(folder) / name
            subprocess.run([python, "-m", "venv", str(place)], check=True, capture_output=True)
            made = str(place / "bin" / "python")
            if packages:
                pip = [made, "-m", "pip", "--disable-pip-version-check", "-q", "install", *packages]
                subprocess.run(pip, check=True, capture_output=True)
            return made

        yield make


@pytest.fixture(scope="module")
def older(make_environment: Callable[..., str]) -> str:
    """Return the interpreter of an environment with another Python and an older ipykernel than the host's."""
    return make_environment("older", another_python(), "ipykernel==6.29.5")


@pytest.fixture(scope="module")
def debians(make_environment: Callable[..., str]) -> str:
    """Return the interpreter of an environment of Debian's, with a current ipykernel and a package of its own."""
    return make_environment("lab", "/usr/bin/python3", "ipykernel>=7.2", "tomli-w")


def run_cells(identity: Identity, python: str, *cells: str, profile: str = "datascience") -> list[Any]:
    """Install a kernel whose cells run in ``python``, and run these."""
    prefix, name = identity.home / "prefix", Path(python).parents[1].name
    identity.run(
        *(identity.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix)),
        *("--python", python, "--name", name, "--profile", profile),
    )
    environment = identity.environment() | {"JUPYTER_PATH": str(prefix / "share" / "jupyter"), "LANG": "C"}
    done = identity.run(
        identity.python, str(DRIVER), name, env=environment, input=json.dumps(cells), timeout=200
    )
    answer: list[Any] = json.loads(done.stdout)
    return answer


@NEEDED
@pytest.mark.sandbox
def test_cells_run_in_the_other_environment_and_the_host_in_its_own(identity: Identity, debians: str) -> None:
    where, package, ours, child, refused, live = run_cells(
        identity,
        debians,
        "import sys; print(sys.executable, sys.prefix, *sys.version_info[:2])",
        "import tomli_w, ipykernel; print(tomli_w.dumps({'a': 1}))",
        "import importlib.util; print(importlib.util.find_spec('jupyterlab'))",
        "!python -c 'import sys; print(sys.prefix)'",
        "%sentinel_profile strict\nimport socket; socket.socket()",
        "%sentinel_status --live",
    )
    prefix = str(Path(debians).parents[1])
    assert where["text"].split() == [debians, prefix, *map(str, version_of(debians))]
    assert package["text"].strip() == "a = 1"
    assert ours["text"].strip() == "None"
    assert child["text"].strip() == prefix
    assert "PermissionError" in refused["errors"][0]
    assert any("HINT" in result for result in refused["results"])
    assert "strict" in live["results"][0]


@NEEDED
@pytest.mark.sandbox
def test_an_older_ipykernel_on_another_python_can_do_all_that_a_cell_does(
    own_user: Identity, older: str
) -> None:
    version, error, interrupted, kept, typed, completed, child, reset = run_cells(
        own_user,
        older,
        "import sys, ipykernel; print(*sys.version_info[:2], ipykernel.__version__)",
        "1 / 0",
        "interrupt: kept = 'kept'; print('started', flush=True)\nimport time\nwhile True: time.sleep(0.01)",
        "kept",
        "input: print('got', input('? '))",
        "complete: sys.version_in",
        "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as p: print(p.map(abs, [-3]))",
        "%sentinel_reset\n'kept' in globals()",
    )
    assert version["text"].split() == [*map(str, version_of(older)), "6.29.5"]
    assert error["errors"] == ["ZeroDivisionError: division by zero"]
    assert interrupted["errors"] == ["KeyboardInterrupt: "]
    assert kept["results"] == ["'kept'"]
    assert typed["text"].endswith("got typed\n")
    assert "sys.version_info" in completed or "version_info" in completed
    assert child["text"] == "[3]\n"
    assert reset["results"][-1] == "False"


@NEEDED
@pytest.mark.sandbox
def test_what_was_known_of_an_environment_is_not_believed_after_an_upgrade(
    own_user: Identity, older: str
) -> None:
    """Also: ipykernel 7.0 and 7.1 reply by other ways than those before and after them."""
    pip = [older, "-m", "pip", "--disable-pip-version-check", "-q", "install", "ipykernel==7.1.0"]
    subprocess.run(pip, check=True, capture_output=True)
    version, completed = run_cells(
        own_user, older, "import ipykernel; print(ipykernel.__version__)", "complete: import sy"
    )
    assert version["text"] == "7.1.0\n"
    assert "sys" in completed


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def fake_python(place: Path, **said: Any) -> str:
    """Write a program that answers like an interpreter which says this of itself."""
    place.parent.mkdir(parents=True, exist_ok=True)
    answer: dict[str, Any] = {
        "executable": str(place),
        "prefix": str(place.parent),
        "base_prefix": str(place.parent),
        "module_directories": [],
        "version": [3, 12, 1],
        "ipykernel": "7.4.0",
        **said,
    }
    place.write_text(f"#!/bin/sh\necho some customization prints\necho '{json.dumps(answer)}'\n")
    place.chmod(0o755)
    return str(place)


def test_the_card_is_named_after_the_environment(prefix: Path) -> None:
    python = fake_python(
        prefix / "rivers" / ".venv" / "bin" / "python", prefix=str(prefix / "rivers" / ".venv")
    )
    arguments = ["install", "--prefix", str(prefix), "--python", python]
    assert cli.main([*arguments, "--profile", "datascience"]) == 0
    folder = prefix / "share" / "jupyter" / "kernels" / "sentinel-rivers-datascience"
    specification = json.loads((folder / "kernel.json").read_text())
    assert specification["display_name"] == "Python 3.12 (Sentinel, rivers, datascience)"
    chosen = {name: value for name, value in specification["env"].items() if name.startswith("SENTINEL_")}
    assert chosen == {"SENTINEL_PROFILE": "datascience", "SENTINEL_PYTHON": python}
    assert specification["argv"][0] == sys.executable


def bad_interpreters(folder: Path) -> dict[str, tuple[str, str]]:
    """Return, by what is wrong with it, an interpreter and what is said of it."""
    (folder / "environment" / "bin").mkdir(parents=True)
    (folder / "text").write_text("no program")
    inside = fake_python(folder / "environment" / "bin" / "python")
    bare = fake_python(folder / "bare", ipykernel="")
    old = fake_python(folder / "old", ipykernel="6.9.2")
    return {
        "absent": ("/nowhere/python", "There is no interpreter /nowhere/python."),
        "a folder": (str(folder / "environment"), f"Its interpreter is {inside}."),
        "not executable": (str(folder / "text"), "can't be run: Permission denied"),
        "no Python": (shutil.which("sh") or "/bin/sh", "is no Python interpreter"),
        "too old": (fake_python(folder / "p27", version=[2, 7, 18]), "is Python 2.7.18; cells need 3.10"),
        "no ipykernel": (bare, f"{bare} -m pip install ipykernel"),
        "ipykernel too old": (old, f"{old} -m pip install --upgrade ipykernel"),
    }


@pytest.mark.parametrize(
    "fault",
    ["absent", "a folder", "not executable", "no Python", "too old", "no ipykernel", "ipykernel too old"],
)
def test_an_interpreter_that_can_not_run_cells_installs_nothing_and_says_why(
    prefix: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    python, said = bad_interpreters(prefix)[fault]
    assert cli.main(["install", "--prefix", str(prefix), "--python", python]) == 1
    assert said in capsys.readouterr().err
    assert not (prefix / "share").exists()


def test_a_name_that_another_kernel_has_is_refused_and_the_same_kernel_is_written_anew(
    prefix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["install", "--prefix", str(prefix), "--name", "lab", "--python"]
    first, second = fake_python(prefix / "a" / "python"), fake_python(prefix / "b" / "python")
    assert cli.main([*arguments, first]) == 0
    assert cli.main([*arguments, first]) == 0
    assert cli.main([*arguments, second]) == 1
    assert "another kernel called 'lab'" in capsys.readouterr().err
    foreign = prefix / "share" / "jupyter" / "kernels" / "ir"
    foreign.mkdir()
    (foreign / "kernel.json").write_text('{"argv": ["R"], "display_name": "R"}')
    assert cli.main(["install", "--prefix", str(prefix), "--name", "ir"]) == 1
    assert "(R)" in capsys.readouterr().err


def test_list_shows_each_kernel_and_what_is_wrong_with_it(
    prefix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = fake_python(prefix / "lab" / "python")
    assert cli.main(["install", "--prefix", str(prefix), "--name", "lab", "--python", python]) == 0
    assert [entry.python for entry in kernelspecs.installed() if entry.name == "lab"] == [python]
    capsys.readouterr()
    cli.main(["list"])
    assert python in capsys.readouterr().out
    fake_python(prefix / "lab" / "python", ipykernel="")
    assert cli.main(["list"]) == 1
    assert f"BROKEN   {python} has no ipykernel." in capsys.readouterr().out


def test_an_answer_is_kept_until_what_it_came_from_changes(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    python = fake_python(tmp_path / "python", module_directories=[str(packages)])
    cache = str(tmp_path / "cache")
    asked = interpreter.ask(python, cache)
    stamps = os.stat(python)
    fake_python(tmp_path / "python", module_directories=[str(packages)], ipykernel="7.5.0")
    os.utime(python, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert interpreter.ask(python, cache) == asked
    (packages / "new").mkdir()
    os.utime(packages, (1, 1))
    assert interpreter.ask(python, cache)["ipykernel"] == "7.5.0"


def test_an_interpreter_that_cells_could_have_changed_is_not_run(tmp_path: Path) -> None:
    python = fake_python(tmp_path / "shared" / "python")
    link = tmp_path / "link"
    link.symlink_to(python)
    for path in (python, str(link)):
        with pytest.raises(BootError, match="Cells may write") as raised:
            interpreter.python_paths(path, None, writable=[str(tmp_path / "shared")])
        assert raised.value.remedy
    assert interpreter.python_paths(python, None).executable == python  # the control
