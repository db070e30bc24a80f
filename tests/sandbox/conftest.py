"""A supervised sandbox for tests that run one program in it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from supervised import Supervised, own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ordinary_user import Identity

VICTIMS = Path(__file__).parents[1] / "victims"


@pytest.fixture
def place(identity: Identity) -> Iterator[Path]:
    """Return a folder that the identity owns and can reach; removed afterwards."""
    path = Path(tempfile.mkdtemp(prefix="place-", dir=identity.home))
    path.chmod(0o755)
    own_folder(identity, path)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def workspace(identity: Identity, place: Path) -> Path:
    """Return a workspace with the victims in it."""
    folder = own_folder(identity, place / "work space, with: odd\\ name")
    for victim in VICTIMS.glob("*.py"):
        shutil.copy(victim, folder)
    return folder


@pytest.fixture
def supervised(identity: Identity, place: Path) -> Iterator[Supervised]:
    """Return a running supervisor of the identity."""
    with Supervised(identity, place / "state") as running:
        yield running
