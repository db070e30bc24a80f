"""Homes that are shown, whoever's: what is hidden in them stays so, whatever it is called."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from supervised import own_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity
    from supervised import Supervised

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

SECRETS = (
    ".pgpass",
    ".ssh/id_rsa",
    ".codex/auth.json",
    ".cache/huggingface/token",
    ".local/share/x/token",
    ".bashrc",
)
SHOWN = ("rivers/elbe.csv", "token.txt")
SEEN = """
import json, os, sys
def read(path):
    try:
        return open(path).read()
    except OSError:
        return ""
found = {path: read(path) for path in json.loads(sys.argv[1])}
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
"""


def home(identity: Identity, folder: Path) -> Path:
    """Return a folder that looks like a home, with files that anybody may read."""
    own_folder(identity, folder)
    for name in (*SECRETS, *SHOWN):
        path = folder / name
        for above in reversed(path.relative_to(folder).parents[:-1]):
            own_folder(identity, folder / above).chmod(0o755)
        path.write_text("seen")
        path.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(path, identity.uid, identity.uid)
    folder.chmod(0o755)
    return folder


def seen(supervised: Supervised, workspace: Path, folder: Path, profile: str, **fields: object) -> list[str]:
    """Return which of the files a program in a sandbox could read."""
    paths = [str(folder / name) for name in (*SECRETS, *SHOWN)]
    answer = workspace / "answer.json"
    payload = [supervised.python, "-c", SEEN, json.dumps(paths), str(answer)]
    cause = supervised.run(workspace, payload, profile, **fields)
    assert (cause["kind"], cause["status"]) == ("exit", 0), cause
    told: dict[str, str] = json.loads(supervised.saved_file("answer.json"))
    return [os.path.relpath(path, folder) for path, text in told.items() if text]


@pytest.mark.parametrize("place_of", ["workspace", "data", "below the data"])
def test_what_is_hidden_in_a_home_is_not_seen(
    supervised: Supervised, identity: Identity, place: Path, place_of: str
) -> None:
    folder = home(identity, own_folder(identity, place / "homes") / "ada")
    folder.parent.chmod(0o755)
    if place_of == "workspace":
        assert seen(supervised, folder, folder, "datascience") == list(SHOWN)
        return
    shown = folder if place_of == "data" else folder.parent
    workspace = own_folder(identity, place / "work")
    profiles = own_folder(identity, workspace / "profiles")
    mounts = [{"path": str(shown), "mode": "ro"}]
    (profiles / "shows.json").write_text(json.dumps({"extends": "strict", "filesystem": {"mounts": mounts}}))
    (profiles / "shows.json").chmod(0o644)
    assert seen(supervised, workspace, folder, "shows", profile_directories=[str(profiles)]) == list(SHOWN)


def test_many_homes_in_a_folder_take_nothing_of_what_cells_may_make(
    supervised: Supervised, identity: Identity, place: Path
) -> None:
    homes = own_folder(identity, place / "homes")
    homes.chmod(0o755)
    file = place / "file"
    file.touch()
    for number in range(90):
        one = homes / f"user{number}"
        one.mkdir()
        for name in (".bashrc", "shown", *(f".settings{entry}" for entry in range(190))):
            (one / name).hardlink_to(file)
    workspace = own_folder(identity, place / "work")
    profiles = own_folder(identity, workspace / "profiles")
    mounts = [{"path": str(homes), "mode": "ro"}]
    (profiles / "shows.json").write_text(json.dumps({"extends": "strict", "filesystem": {"mounts": mounts}}))
    (profiles / "shows.json").chmod(0o644)
    count = f"""
import json, os
names = {{name for one in os.listdir({str(homes)!r}) for name in os.listdir({str(homes)!r} + "/" + one)}}
json.dump([len(os.listdir({str(homes)!r})), sorted(names)], open({str(workspace / "answer.json")!r}, "w"))
"""
    payload = [supervised.python, "-c", count]
    cause = supervised.run(workspace, payload, "shows", profile_directories=[str(profiles)])
    assert (cause["kind"], cause["status"]) == ("exit", 0), cause
    assert json.loads(supervised.saved_file("answer.json")) == [90, ["shown"]]
