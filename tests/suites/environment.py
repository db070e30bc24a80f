"""What the suites run in: an environment of their own, their source distributions, and two kernelspecs of one name.

Everything lies below ``build/suites`` and is made once; none of it is part of the repository.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suites import Suite

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "suites"
KERNELS = ("ipykernel", "sentinel")
PROFILE = "suites"
"""``datascience``, and a folder for temporary files that the tests and their kernels both write to."""

PASSED = ("NBEXECUTE_TEST_PARALLEL_TMPDIR",)
"""Variables by which the suites tell their notebooks a place."""


class Environment:
    """A virtual environment with this package and all that the suites need, from the registry that pip knows.

    pytest's plugins for these suites would change how our own tests run, hence no shared environment. Both
    kernels run the interpreter of this one.
    """

    def __init__(self, suites: Iterable[Suite]) -> None:
        self._folder = BUILD / "venv"
        self.bin = self._folder / "bin"
        self.python = self.bin / "python"
        wanted = sorted({name for suite in suites for name in (suite.package, *suite.requirements)})
        self._install("pytest", "pytest-timeout", *wanted)

    def _install(self, *wanted: str) -> None:
        stamp = self._folder / "installed"
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        text = "\n".join((sys.executable, *project["dependencies"], *wanted))
        if stamp.exists() and stamp.read_text() == text:
            return
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", self._folder], check=True)
        self._pip("install", "--editable", str(ROOT), *wanted)
        stamp.write_text(text)

    def _pip(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [self.python, "-m", "pip", command, "--quiet", "--disable-pip-version-check", *arguments],
            check=True,
        )

    def version(self, package: str) -> str:
        """Return the version of an installed package."""
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return subprocess.run(
            [self.python, "-I", "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()

    def place(self, suite: Suite, kernel: str) -> Path:
        """Return a fresh folder with the suite's files, as the installed version's source distribution has them."""
        name = f"{suite.package}-{self.version(suite.package)}"
        archive = BUILD / "sdists" / f"{name}.tar.gz"
        if not archive.exists():
            requirement = name.replace("-", "==")
            self._pip(
                "download",
                "--no-deps",
                "--no-binary",
                suite.package,
                "--dest",
                str(archive.parent),
                requirement,
            )
        folder = BUILD / "work" / suite.package / kernel
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted = tuple(f"{name}/{part}/" for part in suite.copied)
        with tarfile.open(archive) as source:
            for member in source.getmembers():
                if member.isfile() and member.name.startswith(wanted):
                    member.name = member.name.removeprefix(f"{name}/")
                    source.extract(member, folder, filter="data")
        # So that pytest does not look further up, where our own settings are.
        (folder / "pytest.ini").write_text("[pytest]\n")
        return folder

    def variables(self, folder: Path, kernel: str, profile: str) -> dict[str, str]:
        """Return the environment variables under which ``python3`` is ``kernel``, and nothing of the user's is seen."""
        shared = BUILD / "shared"
        shared.mkdir(exist_ok=True)
        # Beside the notebook, where a kernel in a sandbox can read it too; there, as for who has used IPython before.
        (folder / "ipython" / "profile_default").mkdir(parents=True)
        home = BUILD / "home"
        profiles = home / ".config" / "sentinel-kernel" / "profiles"
        profiles.mkdir(parents=True, exist_ok=True)
        (profiles / f"{PROFILE}.json").write_text(
            json.dumps(
                {"extends": "datascience", "filesystem": {"mounts": [{"path": str(shared), "mode": "rw"}]}}
            )
        )
        kept = {
            name: os.environ[name] for name in ("LANG", "LC_ALL", "XDG_RUNTIME_DIR") if name in os.environ
        }
        return {
            **kept,
            "HOME": str(home),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_PATH": str(self._kernelspec(kernel, profile)),
            "SENTINEL_LANG": "en",
            "SENTINEL_WRITABLE": str(shared),
            "TMPDIR": str(shared),
        }

    def _kernelspec(self, kernel: str, profile: str) -> Path:
        """Write a kernelspec named python3, which every suite asks for; JUPYTER_PATH is looked through first."""
        folder = BUILD / "kernelspecs" / kernel
        place = folder / "kernels" / "python3"
        place.mkdir(parents=True, exist_ok=True)
        if kernel == "sentinel":
            spec = json.loads((ROOT / "kernelspec" / "kernel.json").read_text())
            spec["argv"][0] = str(self.python)
            spec["env"] |= {"SENTINEL_PROFILE": profile, "SENTINEL_PASS_ENVIRONMENT": " ".join(PASSED)}
        else:
            spec = {
                "argv": [str(self.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "Python 3 (plain)",
                "language": "python",
                "metadata": {"debugger": True},
            }
        (place / "kernel.json").write_text(json.dumps(spec))
        return folder
