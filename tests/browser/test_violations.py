"""Violations in JupyterLab: the card, the pages about it, and a comm that a page opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_server import JupyterServer
    from lab_page import LabPage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

CONTRAST = (Path(__file__).resolve().parents[1] / "support" / "contrast.js").read_text()
ENOUGH = 4.5  # WCAG 2, level AA, text of ordinary size
LONG = "/home/" + "a-very-long-name-of-a-folder-without-any-break/" * 3 + "numbers.csv"
REFUSED = f"""import ctypes, socket


def fetch(host):
    try:
        socket.socket()
    except OSError:
        pass


for _ in range(5):
    fetch('example.org')
ctypes.CDLL(None).mknod(b'{LONG}', 0o20600, 0x103)"""
CELLS = [REFUSED, "%sentinel_violations", "%sentinel_explain 2"]
SUBSCRIBE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const comm = kernel.createComm("sentinel");
  window.told = [];
  comm.onMsg = (message) => { window.told.push(message.content.data); };
  comm.open({op: "subscribe", id: "page"});
}"""


def add_chinese(server: JupyterServer) -> str:
    """Add a kernelspec whose kernels speak Chinese; return its name."""
    folder = server.home / "kernelspec" / "share" / "jupyter" / "kernels"
    spec: dict[str, Any] = json.loads((folder / "sentinel" / "kernel.json").read_text())
    spec["env"] = {**spec.get("env", {}), "SENTINEL_LANG": "zh"}
    (folder / "sentinel-zh").mkdir(exist_ok=True)
    (folder / "sentinel-zh" / "kernel.json").write_text(json.dumps(spec))
    return "sentinel-zh"


def check_legible(lab: LabPage, index: int) -> None:
    """Check that the boxes of a cell can be read, and stay inside it."""
    boxes = lab.output(index).locator(".sentinel-box")
    assert boxes.count() >= 1
    for place in range(boxes.count()):
        box = boxes.nth(place)
        # A card that is being drawn anew with its count has no text for a moment.
        wait_until(lambda box=box: box.evaluate(CONTRAST), "the box has text")
        ratios = box.evaluate(CONTRAST)
        assert [entry for entry in ratios if entry["ratio"] < ENOUGH] == []
        inner, outer = box.bounding_box(), lab.cell(index).bounding_box()
        assert inner is not None
        assert outer is not None
        assert outer["x"] <= inner["x"]
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 0.5


def show(lab: LabPage, index: int, path: Path) -> None:
    """Keep a picture of what is below a cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lab.output(index).screenshot(path=path)


def test_cards_and_pages_are_legible_in_both_themes_and_languages_and_a_page_hears_of_refusals(
    lab: LabPage, server: JupyterServer, picture: Callable[[str], Path]
) -> None:
    chinese = add_chinese(server)
    lab.load()  # it has asked for the kernels there are
    for kernel, width, name in (("sentinel", 1200, "en"), (chinese, 700, "zh-narrow")):
        lab.page.set_viewport_size({"width": width, "height": 1400})
        server.write_notebook(f"violations-{name}.ipynb", CELLS, kernel)
        lab.open_notebook(f"violations-{name}.ipynb")
        lab.page.evaluate(SUBSCRIBE)
        lab.page.wait_for_function("() => window.told.length > 0")
        assert lab.page.evaluate("() => window.told[0]") == {
            "version": 1,
            "op": "subscribe",
            "subscribed": True,
            "id": "page",
        }
        lab.run_all()
        heard = lab.page.evaluate("() => window.told.slice(1).flatMap((event) => event.violations)")
        assert [record["count"] for record in heard if record["syscall"] == "socket"][-1] == 5
        assert "AF_INET" in lab.text(1)
        assert "fetch" in lab.text(2)
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            lab.set_theme(theme)
            for index, part in enumerate(("card", "violations", "explain")):
                check_legible(lab, index)
                show(lab, index, picture(f"{part}-{name}-{theme.rpartition(' ')[2].lower()}"))
