"""A cell's JavaScript does not drive the server with the user's session; under plain ipykernel it does."""

from __future__ import annotations

import urllib.error
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_server import JupyterServer
    from lab_page import LabPage

pytestmark = pytest.mark.browser

ATTACK = '''
from IPython.display import Javascript, display

display(Javascript("""
const config = JSON.parse(document.getElementById("jupyter-config-data").textContent);
const call = (method, path, body) => fetch(config.baseUrl + path, {
  method, body: JSON.stringify(body),
  headers: {Authorization: "token " + config.token, "Content-Type": "application/json"},
});
call("PUT", "api/contents/NAME", {type: "file", format: "text", content: "owned"});
call("POST", "api/terminals", {});
window.attackRan = true;
"""))
'''


def exists(server: JupyterServer, name: str) -> bool:
    try:
        server.request("GET", f"/api/contents/{name}?content=0")
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def test_plain_ipykernel_lets_a_cells_script_write_files_and_open_terminals(lab: LabPage) -> None:
    lab.server.write_notebook("control.ipynb", [ATTACK.replace("NAME", "control.txt")], "python3")
    lab.open_notebook("control.ipynb")
    lab.run_cell(0)
    wait_until(lambda: exists(lab.server, "control.txt"), "the script has written its file")
    wait_until(lab.server.terminals, "the script has opened a terminal")


@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_the_same_script_is_dropped_and_the_cell_says_so(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    lab.server.write_notebook("attack.ipynb", [ATTACK.replace("NAME", "attack.txt"), "1"], "sentinel")
    lab.open_notebook("attack.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)  # whatever the first output would start has been started by now
    assert lab.page.evaluate("() => window.attackRan === undefined")
    outputs = lab.saved()["cells"][0]["outputs"]
    assert all("application/javascript" not in output.get("data", {}) for output in outputs)
    text = lab.text(0)
    assert "application/javascript" in text
    assert "HINT" in text
    assert not exists(lab.server, "attack.txt")
    assert lab.server.terminals() == []
    lab.picture(picture("script-dropped"))
