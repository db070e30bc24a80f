"""Where user namespaces are refused the kernel starts, runs nothing, and each cell says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from jupyter_server import running_server
from lab_page import LabPage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Browser

# A user namespace in which no further one may be made; the server and its kernels live in it.
NO_USER_NAMESPACES = (
    "unshare",
    "--user",
    "--map-current-user",
    "--keep-caps",
    "sh",
    "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"',
    "sh",
)


@pytest.mark.browser
@pytest.mark.requires("user_namespaces")
def test_every_cell_names_step_cause_and_repair(
    browser: Browser, tmp_path: Path, picture: Callable[[str], Path]
) -> None:
    root = tmp_path / "notebooks"
    home = tmp_path / "home"
    root.mkdir()
    home.mkdir()
    with running_server(home, root, NO_USER_NAMESPACES) as server:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        lab = LabPage(context.new_page(), server)
        server.write_notebook("refused.ipynb", ["open('written', 'w')", "1 + 1"], "sentinel")
        lab.open_notebook("refused.ipynb")
        for index in (0, 1):
            lab.run_cell(index)
            text = lab.text(index)
            assert "SandboxUnavailable" in text
            assert "clone" in text
            assert "sysctl -w user.max_user_namespaces" in text
        lab.picture(picture("sandbox-unavailable"))
        context.close()
    assert not (root / "written").exists()
