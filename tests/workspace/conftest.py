"""A real sandbox for root and one for an ordinary user for all tests of a module; each test has a folder of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from held_workspace import HeldWorkspace
from lacking import roots_side
from supervised import own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

_NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=["root", "ordinary user"])
def held(request: pytest.FixtureRequest) -> Iterator[HeldWorkspace]:
    """Return a sandbox with a workspace, beside which lies what nothing may touch (``place``/outside)."""
    if request.param == "root":
        roots_side()
    identity: Identity = request.getfixturevalue("own_user" if request.param == "root" else "ordinary_user")
    place = Path(tempfile.mkdtemp(prefix="held-", dir=identity.home))
    place.chmod(0o755)
    own_folder(identity, place)
    for name in ("work", "outside", "home", "XDG_RUNTIME_DIR", "store"):
        own_folder(identity, place / name).chmod(0o755)
    (place / "XDG_RUNTIME_DIR").chmod(0o700)
    (place / "outside" / "secret").write_text("secret")
    (place / "outside" / "folder").mkdir()
    (place / "outside" / "folder" / "kept").write_text("kept")
    for path in (place / "outside").rglob("*"):
        os.chown(path, identity.uid, identity.uid)
    with HeldWorkspace(identity, place) as running:
        yield running
    shutil.rmtree(place)


class Case:
    """One test's own folder of the workspace: ``name`` within it, ``host`` on the host."""

    def __init__(self, held: HeldWorkspace) -> None:
        """Make it, as the user's own."""
        self.held = held
        self.name = f"case{next(_NUMBERS)}"
        self.host = own_folder(held.identity, held.work / self.name)
        self.host.chmod(0o755)
        self.outside = held.place / "outside"
        self._before = self._look()

    def write(self, name: str, text: str) -> None:
        """Write a file on the host, as the user."""
        path = self.host / name
        for folder in reversed([*path.parents][: name.count("/")]):
            if not folder.exists():
                folder.mkdir()
                os.chown(folder, self.held.identity.uid, self.held.identity.uid)
        path.write_text(text)
        os.chown(path, self.held.identity.uid, self.held.identity.uid)

    def cell(self, code: str) -> Any:
        """Run a cell in the folder."""
        return self.held.cell(
            f"os.chdir({self.name!r})\nOUT = {str(self.outside)!r}\n{code}\nos.chdir('/')\n"
        )

    def commit(self, *answers: str, **fields: Any) -> dict[str, Any]:
        """Commit what is in the folder; what failed, and paths, are told within it."""
        what = fields.pop("what", "commit")
        outcome = self.held.work_on(what, below=self.name, answers=answers, **fields)
        cut = len(self.name) + 1
        outcome["failed"] = {path[cut:]: code for path, code in outcome["failed"].items()}
        return outcome

    def changes(self) -> dict[str, dict[str, Any]]:
        """Return what is listed in the folder."""
        return self.within(self.held.work_on("list", below=self.name)["changes"])

    def look(self, *paths: str) -> dict[str, Any]:
        """Return what a list, a comparison, an export of ``paths`` and an artifact of the folder have."""
        told: dict[str, Any] = self.held.work_on(
            "look",
            below=self.name,
            paths=[path if path.startswith("/") else f"{self.name}/{path}" for path in paths],
        )
        return {**told, "list": self.within(told["list"]["changes"])}

    def within(self, changes: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return changes by their paths within the folder."""
        cut = len(self.name) + 1
        return {change["path"][cut:]: change for change in changes}

    def tree(self) -> dict[str, str]:
        """Return what the host's folder holds: a file's text, ``/`` for a folder, else the kind's letter."""
        found = {}
        for folder, folders, files in os.walk(os.fsencode(self.host)):
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                key = os.fsdecode(os.path.relpath(path, os.fsencode(self.host)))
                if stat.S_ISDIR(status.st_mode):
                    found[key] = "/"
                elif stat.S_ISREG(status.st_mode):
                    with open(path, "rb") as file:
                        found[key] = file.read(4096).decode("utf-8", "replace")
                else:
                    found[key] = stat.filemode(status.st_mode)[0]
        return found

    def nothing_else_was_touched(self) -> bool:
        """Tell whether all that lies beside the workspace is as it was."""
        return self._look() == self._before

    def _look(self) -> dict[str, tuple[int, ...]]:
        return {
            str(path): (
                (status := path.lstat()).st_mode,
                status.st_ino,
                status.st_nlink,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
            )
            for path in [self.outside, *self.outside.rglob("*")]
        }


@pytest.fixture
def case(held: HeldWorkspace) -> Iterator[Case]:
    """Return a folder of the workspace; afterwards nothing beside it was touched, nor anything unfinished left."""
    made = Case(held)
    yield made
    assert made.nothing_else_was_touched()
    assert not [name for name in made.tree() if name.endswith(".part") and ".sentinel-" in name]
