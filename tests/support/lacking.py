"""What a test needs and does not find: a skip with the reason, and where every test must run a failure.

``pytest.skip``, ``skipif`` and ``importorskip`` stand nowhere but here and where a test says what it is not for
(``tests/repo/test_suite.py`` has the list). What CI does not install has its reason in :data:`NOT_IN_CI`.
"""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any, NoReturn

import pytest

MUST_RUN = os.environ.get("SENTINEL_MUST_RUN") == "1"

NOT_IN_CI = {
    "torch": "python3-torch installs a quarter of a gigabyte for one test, and older Debians only have it",
    "inspector": "npm fetches it anew from its registry; the assistant's own protocol is tested with the SDK's client",
}
"""What is tested where it happens to be, with the reason why nobody has to have it."""


def lacking(reason: str) -> NoReturn:
    """Skip the running test for want of something; under SENTINEL_MUST_RUN=1 fail it."""
    if MUST_RUN:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def lacking_beyond_ci(name: str, reason: str) -> NoReturn:
    """Skip the running test for want of ``name``, which is in :data:`NOT_IN_CI`."""
    pytest.skip(f"{reason} (not in CI: {NOT_IN_CI[name]})")


def need_program(*names: str, package: str) -> str:
    """Return the path of the first of these programs that is there; ``package`` is what brings it."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    lacking(f"{names[0]} is not installed (apt-get install {package})")


def need_module(name: str) -> Any:
    """Return the module ``name``, imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        lacking(f"{name}: {error}")


def need_root(reason: str) -> None:
    """Go on as root only, who alone can set up what the test is about."""
    if os.geteuid() != 0:
        lacking(reason)


def roots_side() -> None:
    """Go on as root only: the same is tested as an ordinary user too, so that who is one misses nothing of theirs."""
    if os.geteuid() != 0:
        pytest.skip("root's side is tested when the tests are run by root")
