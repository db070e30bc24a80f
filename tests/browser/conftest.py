"""A Chromium for the browser tests of one file, and JupyterLab pages in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jupyter_server import running_server
from lab_page import LabPage
from lacking import need_program
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_server import JupyterServer
    from playwright.sync_api import Browser, BrowserContext

# Without these Chromium looks for its maker's hosts at every start.
_QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a headless Chromium of the system's.

    One per file, not per session: Playwright keeps an event loop running, and tests elsewhere run their own.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=_executable(), args=[*_QUIET, *_as_root()])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """Yield the context of one that connects ahead where a page lets it, as people's do: not in private windows."""
    ahead = "--disable-background-networking"
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=_executable(),
            args=[*(option for option in _QUIET if option != ahead), *_as_root()],
            ignore_default_args=[ahead],
        )
        yield context
        context.close()


def _executable() -> str:
    return need_program("chromium", "chromium-browser", "google-chrome", package="chromium")


def _as_root() -> list[str]:
    return ["--no-sandbox"] if os.geteuid() == 0 else []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """Yield a JupyterLab server with the kernelspecs ``sentinel`` and ``python3``."""
    home = tmp_path_factory.mktemp("home")
    root = tmp_path_factory.mktemp("notebooks")
    with running_server(home, root) as running:
        yield running


@pytest.fixture
def lab(browser: Browser, server: JupyterServer) -> Iterator[LabPage]:
    """Yield a fresh page with JupyterLab; kernels and terminals are ended afterwards."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    yield LabPage(context.new_page(), server)
    context.close()
    server.shut_down_kernels()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Return a function from a name to the path where this test's picture of that name is kept."""
    folder = Path(request.config.rootpath) / "tests" / "artifacts"
    return lambda name: folder / f"{name}.png"
