"""The tour keeps its promises, for root and for an ordinary user: what `make demo` runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ordinary_user import Identity

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_the_tour_shows_what_it_promises(identity: Identity) -> None:
    folder = identity.home / "tour"
    shutil.copytree(ROOT / "notebooks", folder, dirs_exist_ok=True)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, identity.uid, -1)
    prefix = identity.home / "prefix"
    identity.run(identity.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
    environment = identity.environment() | {"JUPYTER_PATH": str(prefix / "share" / "jupyter")}
    done = identity.run(identity.python, str(folder / "run_tour.py"), env=environment, timeout=240)
    shown = done.stdout
    assert "river" in shown
    assert "image/png" in shown
    assert shown.count("HINT →") >= 2
    assert "The tour kept its promises." in shown
    assert not (folder / "rivers.csv").exists()
