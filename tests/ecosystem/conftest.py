"""Somebody with the kernelspec `sentinel` in a Jupyter path of their own, and a folder with no easy name."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ordinary_user import Identity


@pytest.fixture(scope="session")
def jupyter_environment() -> Callable[..., dict[str, str]]:
    """Return a function that gives an identity's environment, with `sentinel` installed for them."""
    installed: dict[str, str] = {}

    def environment(identity: Identity, **variables: str) -> dict[str, str]:
        if identity.name not in installed:
            prefix = identity.home / "prefix"
            identity.run(identity.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
            installed[identity.name] = str(prefix / "share" / "jupyter")
        return identity.environment() | {
            "JUPYTER_PATH": installed[identity.name],
            "LANG": "C.UTF-8",
            "SENTINEL_LANG": "en",
            "SENTINEL_PROFILE": "datascience",
            **variables,
        }

    return environment


@pytest.fixture(scope="session")
def make_folder() -> Callable[[Identity, str], Path]:
    """Return a function that makes a folder in an identity's home, with spaces and letters beyond ASCII."""

    def make(identity: Identity, name: str) -> Path:
        path = identity.home / f"{name} – größe ü"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        os.chown(path, identity.uid, -1)
        return path

    return make


@pytest.fixture
def folder(
    identity: Identity, request: pytest.FixtureRequest, make_folder: Callable[[Identity, str], Path]
) -> Path:
    """Return such a folder for this test."""
    return make_folder(identity, re.sub(r"\W+", " ", request.node.originalname)[:40])


@pytest.fixture
def environment(identity: Identity, jupyter_environment: Callable[..., dict[str, str]]) -> dict[str, str]:
    """Return the environment of this test's identity, with the profile `datascience`."""
    return jupyter_environment(identity)
