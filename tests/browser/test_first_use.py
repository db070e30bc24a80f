"""A newcomer in JupyterLab: the launcher's card, a cell, an interrupt, a restart, an explained refusal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab_page import LabPage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

CONTRAST = (Path(__file__).resolve().parents[1] / "support" / "contrast.js").read_text()
ENOUGH = 4.5  # WCAG 2, level AA, text of ordinary size
REFUSED = "import socket\n\nsocket.create_connection(('127.0.0.1', 80))"
REPEATED = """import socket

for _ in range(50):
    try:
        socket.socket()
    except OSError:
        pass
"""


def test_the_launcher_has_a_card_with_our_logo_that_opens_a_notebook(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    card = lab.page.locator('.jp-LauncherCard[data-category="Notebook"][title="Python 3 (Sentinel)"]')
    card.wait_for()
    logo = card.locator("img")
    assert "/kernelspecs/sentinel/logo-svg.svg" in (logo.get_attribute("src") or "")
    lab.page.wait_for_function(
        "(image) => image.complete && image.naturalWidth > 0", arg=logo.element_handle()
    )
    lab.picture(picture("launcher"))
    card.click()
    lab.wait_idle()
    assert lab.page.locator(".jp-NotebookPanel .jp-KernelName").inner_text() == "Python 3 (Sentinel)"
    lab.cell(0).locator(".cm-content").click()
    lab.page.keyboard.type("6 * 7")
    lab.run_cell(0)
    assert lab.text(0).split()[-1] == "42"


def test_a_running_cell_can_be_interrupted_and_goes_on(lab: LabPage) -> None:
    lab.server.write_notebook(
        "interrupt.ipynb",
        ["import time\nkept = 'kept'\nprint('started', flush=True)\nwhile True: time.sleep(0.01)", "kept"],
        "sentinel",
    )
    lab.open_notebook("interrupt.ipynb")
    lab.run_cell(0, wait=False)
    lab.output(0).get_by_text("started").wait_for()
    lab.command("notebook:interrupt-kernel")
    lab.wait_executed(0)
    assert "KeyboardInterrupt" in lab.text(0)
    lab.run_cell(1)
    assert "'kept'" in lab.text(1)


def test_a_restart_gives_a_fresh_kernel(lab: LabPage) -> None:
    lab.server.write_notebook("restart.ipynb", ["value = 1", "'value' in globals()"], "sentinel")
    lab.open_notebook("restart.ipynb")
    lab.run_cell(0)
    lab.start("notebook:restart-kernel")
    lab.accept_dialog()
    lab.page.wait_for_selector(".jp-Dialog", state="detached")
    lab.wait_idle()
    lab.run_cell(1)
    assert lab.text(1).split()[-1] == "False"


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_a_refusal_is_legible_inside_its_cell_in_both_themes(
    lab: LabPage, picture: Callable[[str], Path], theme: str
) -> None:
    lab.server.write_notebook("refusal.ipynb", [REFUSED], "sentinel")
    lab.set_theme(theme)
    lab.open_notebook("refusal.ipynb")
    lab.run_cell(0)
    box = lab.output(0).locator(".jp-RenderedHTMLCommon").filter(has_text="socket").first
    name = "refusal-" + theme.rpartition(" ")[2].lower()
    lab.picture(picture(name))
    text = box.inner_text()
    for expected in ("socket", "strict", "HINT", "line 3"):
        assert expected in text, f"{expected!r} is not in {text!r}"
    ratios = box.evaluate(CONTRAST)
    assert ratios
    assert [entry for entry in ratios if entry["ratio"] < ENOUGH] == []
    inner, outer = box.bounding_box(), lab.cell(0).bounding_box()
    assert inner is not None
    assert outer is not None
    shown = {**outer, "height": inner["y"] + inner["height"] + 6 - outer["y"]}
    lab.page.screenshot(path=picture(f"{name}-cell"), clip=shown)
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 0.5
    assert outer["y"] <= inner["y"]
    assert inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 0.5


def test_a_refusal_says_its_line_once(lab: LabPage) -> None:
    lab.server.write_notebook("repeats.ipynb", [REPEATED], "sentinel")
    lab.open_notebook("repeats.ipynb")
    lab.run_cell(0)
    boxes = lab.output(0).locator(".jp-RenderedHTMLCommon").filter(has_text="HINT")
    assert boxes.count() == 1
    assert "50" in boxes.first.inner_text()
