"""Who runs a test's commands: this process's own user, or an ordinary one with an interpreter it can reach.

The ordinary user gets Debian's interpreter and the built wheel in a virtual environment below the folder for
temporary files: a tree under root's home is closed to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[2]
_SHARED = Path(tempfile.gettempdir())  # as it is before a run takes a folder of its own
_ALSO = ("pytest", "hypothesis", "jupyter_kernel_test", "jupyter_console", "papermill")
# No passwd entry, as in containers that run under an arbitrary id. Tests that run beside each other have one each: what
# is counted for a user, and used up by a test, is missed by no other.
_ORDINARY_ID = 47001 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@dataclass(frozen=True)
class Identity:
    """Somebody who can run commands: ``prefix`` becomes them, ``python`` and ``home`` are theirs."""

    name: str
    uid: int
    prefix: tuple[str, ...]
    python: str
    home: Path

    def environment(self) -> dict[str, str]:
        """Return an environment with a home, caches and run-time folder that are this user's own."""
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TERM", "TZ")}
        return kept | {
            "HOME": str(self.home),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
            "LOGNAME": self.name,
            "PATH": f"{Path(self.python).parent}:/usr/local/bin:/usr/bin:/bin",
            "TMPDIR": str(self.home / "tmp"),
            "USER": self.name,
        }

    def run(self, *command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command as this user and return what it printed."""
        options.setdefault("env", self.environment())
        options.setdefault("cwd", self.home)
        options.setdefault("timeout", 120)
        done = subprocess.run(
            [*self.prefix, *command], capture_output=True, text=True, check=False, **options
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"{command} as {self.name} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command as this user."""
        options.setdefault("env", self.environment())
        options.setdefault("cwd", self.home)
        return subprocess.Popen([*self.prefix, *command], **options)


def own_identity(home: Path) -> Identity:
    """Return whoever runs the tests, with a home of their own at ``home``."""
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    uid = os.geteuid()
    return Identity("root" if uid == 0 else "tester", uid, (), sys.executable, home)


@contextlib.contextmanager
def ordinary_identity() -> Iterator[Identity]:
    """Give an ordinary user; for root that is another id, made ready here, else it is who runs the tests.

    The environment is made once and kept between runs; the wheel is installed anew whenever the tree has
    changed. The home is gone afterwards.
    """
    made = _ordinary_identity()
    try:
        yield made
    finally:
        shutil.rmtree(made.home, ignore_errors=True)


def _ordinary_identity() -> Identity:
    if os.geteuid() != 0:
        return own_identity(Path(tempfile.mkdtemp(prefix="sentinel-tests-home-")))
    # One a checkout: two trees must not exchange each other's wheel in the middle of a run.
    checkout = hashlib.sha256(str(_ROOT).encode()).hexdigest()[:8]
    base = _SHARED / f"sentinel-tests-user-{checkout}"
    base.mkdir(mode=0o755, exist_ok=True)
    if base.stat().st_uid != 0:
        raise AssertionError(f"{base} belongs to somebody else")
    base.chmod(0o755)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be making it right now
        python = _environment(base)
    home = Path(tempfile.mkdtemp(prefix="home-", dir=base))
    (home / "tmp").mkdir()
    for path in (home, home / "tmp"):
        os.chown(path, _ORDINARY_ID, _ORDINARY_ID)
    prefix = (
        "setpriv",
        f"--reuid={_ORDINARY_ID}",
        f"--regid={_ORDINARY_ID}",
        "--clear-groups",
        "--inh-caps=-all",
        "--",
    )
    return Identity("tester", _ORDINARY_ID, prefix, str(python), home)


def _environment(base: Path) -> Path:
    """Return the interpreter of a virtual environment that holds this tree's wheel and what it depends on."""
    project = (_ROOT / "pyproject.toml").read_bytes()
    environment = base / f"venv-{hashlib.sha256(project).hexdigest()[:12]}"
    python = environment / "bin" / "python"
    installed = environment / "installed"
    tree = _tree_digest()
    if not python.exists():
        for old in base.glob("venv-*"):
            shutil.rmtree(old)
        _make_environment(environment)
    if not installed.exists() or installed.read_text() != tree:
        with tempfile.TemporaryDirectory() as directory:
            wheel = build_wheel(Path(directory))
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
            if not installed.exists():
                _run(*pip, f"{wheel}[demo]", *_ALSO)
            else:  # the same project, so that it depends on the same; only the wheel is another
                _run(*pip, "--no-deps", "--force-reinstall", str(wheel))
        installed.write_text(tree)
    return python


def _make_environment(environment: Path) -> None:
    """Make the environment, with what the tests' own one has if both are of one version of Python.

    Files are linked where they can be: nobody changes one in place, and the ordinary user may not. What is still
    missing then is for pip to find.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    ask = ("/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')")
    if sys.prefix == sys.base_prefix or subprocess.check_output(ask, text=True).strip() != version:
        _run("/usr/bin/python3", "-m", "venv", str(environment))
        return
    partial = environment.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)
    _run("/usr/bin/python3", "-m", "venv", "--without-pip", str(partial))
    own = Path(sys.prefix)
    for folder in (f"lib/python{version}/site-packages", "share", "etc"):
        if (own / folder).is_dir():
            shutil.copytree(
                own / folder, partial / folder, copy_function=_link, ignore=_not_this_tree, dirs_exist_ok=True
            )
    shebang = f"#!{own / 'bin' / 'python'}"
    for script in (own / "bin").iterdir():
        first, _, rest = script.read_bytes().partition(b"\n")
        if not script.is_symlink() and first.startswith(os.fsencode(shebang)):
            there = partial / "bin" / script.name
            there.write_bytes(os.fsencode(f"#!{environment / 'bin' / 'python'}") + b"\n" + rest)
            there.chmod(0o755)
    partial.rename(environment)  # a half one is never taken for a whole one


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


def _not_this_tree(folder: str, names: list[str]) -> list[str]:
    """Leave out what an editable installation has put there, and kernels that name the tests' interpreter."""
    if not folder.endswith(("/site-packages", "/share/jupyter/kernels")):
        return []
    return [name for name in names if name.startswith(("sentinel", "xpython", "_editable_impl_"))]


def build_wheel(directory: Path) -> Path:
    """Build this tree's wheel in ``directory`` and return its path."""
    _run(
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "-q",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(directory),
        str(_ROOT),
    )
    return next(directory.glob("*.whl"))


def _tree_digest() -> str:
    digest = hashlib.sha256()
    for top in ("sentinel_kernel", "profiles", "mappings", "kernelspec"):
        for path in sorted((_ROOT / top).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(_ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode != 0:
        raise AssertionError(f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
