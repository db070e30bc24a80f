"""`make run`: whatever kernel a notebook from elsewhere names, its cells run in the sandbox."""

from __future__ import annotations

import re
import shlex
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jupyter_server import running_server
from lab_page import LabPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]


def command(folder: str) -> str:
    """Return what `make run` runs, as make would give it to the shell."""
    printed = subprocess.run(
        ["make", "--dry-run", "--assume-old=.venv/.installed", "run", f"DIR={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return next(part for part in re.split(r"\n(?!\t)", printed) if "jupyter lab" in part)


@pytest.mark.parametrize("kernel", ["python3", "a-kernel-that-is-nowhere"])
def test_a_notebook_that_names_another_kernel_runs_in_the_sandbox(
    browser: Browser, tmp_path: Path, kernel: str
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "notebooks").mkdir()
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    words = shlex.split(command("notebooks").replace("\\\n", " "))
    kept = ("--MultiKernelManager.", "--KernelSpecManager.", "--ServerApp.tornado_settings=")
    options = [word for word in words if word.startswith(kept)]
    assert len(options) == 3
    with running_server(tmp_path / "home", tmp_path / "notebooks", options=options) as server:
        assert server.request("GET", "/api/kernelspecs")["kernelspecs"].keys() == {"sentinel"}
        with urllib.request.urlopen(f"{server.url}/lab?token={server.token}", timeout=60) as page:
            assert page.headers["X-DNS-Prefetch-Control"] == "off"
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        lab = LabPage(context.new_page(), server)
        server.write_notebook("strangers.ipynb", [f"open({str(secret)!r}).read()"], kernel)
        lab.open_notebook("strangers.ipynb")
        assert lab.notebook.locator(".jp-KernelName").inner_text() == "Python 3 (Sentinel)"
        lab.run_cell(0)
        assert "the secret" not in lab.text(0)
        assert "Refused by the sandbox" in lab.text(0)
        context.close()


def test_the_folder_is_the_shells(tmp_path: Path) -> None:
    """Also with a blank in its name, or a tilde that the shell has left as it is."""
    work = tmp_path / "my work"
    work.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    for typed, meant in ((str(work), work), ("~", tmp_path), ("notebooks", ROOT / "notebooks")):
        told = command(typed).replace(".venv/bin/jupyter lab", "printf '%s\\n'")
        told = subprocess.check_output(["sh", "-c", told], cwd=ROOT, env=environment, text=True)
        assert f"--ServerApp.root_dir={meant}" in told.splitlines()
