"""Widgets of both sides in one notebook: those made in cells move and recompute, the host's follows the cells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab_page import LabPage
    from playwright.sync_api import Locator

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

INTERACT = """from ipywidgets import interact
@interact(x=(0, 10))
def double(x=3):
    print("doubled:", 2 * x)"""
LIVE = "%sentinel_status --live"
REFUSED = """import socket
try:
    socket.socket()
except OSError:
    print("refused")"""
BAR = """from tqdm.notebook import tqdm
total = sum(tqdm(range(7), desc="counting"))
print("total:", total)"""
OUTPUT = """import ipywidgets as w
out = w.Output()
display(out)
with out:
    print("inside the Output widget")"""
PLAY = """play, number = w.Play(max=3, interval=20), w.IntText()
w.jslink((play, "value"), (number, "value"))
w.HBox([play, number])"""
PLOT = """%matplotlib widget
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(4, 2))
axes.plot([1, 3, 2])
plt.show()"""


def refused_so_far(output: Locator, count: int) -> Locator:
    """Return the row of the status page that tells this count."""
    return output.locator(".sentinel-box tr").filter(has_text=re.compile(rf"refused so far\s*{count}$"))


def test_widgets_of_cells_and_of_the_host_live_side_by_side(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    sources = [INTERACT, LIVE, REFUSED, BAR, OUTPUT, PLAY, PLOT]
    lab.server.write_notebook("widgets.ipynb", sources, "sentinel")
    lab.open_notebook("widgets.ipynb")
    lab.run_all()
    lab.output(0).get_by_text("doubled: 6").wait_for()
    handle = lab.output(0).locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    handle.press("ArrowRight")
    lab.output(0).get_by_text("doubled: 10").wait_for()
    refused_so_far(lab.output(1), 1).wait_for()
    assert lab.output(1).locator(".widget-html").count() == 1  # the widget, not the text beside it
    lab.output(3).get_by_text("7/7").wait_for()
    lab.output(4).locator(".jp-OutputArea .jp-OutputArea-output").get_by_text("inside the Output").wait_for()
    lab.output(5).locator(".jupyter-widgets.widget-play button").first.click()
    lab.page.wait_for_function(
        "(field) => field.value === '3'", arg=lab.output(5).locator("input[type=number]").element_handle()
    )
    lab.output(6).locator(".jupyter-matplotlib canvas").first.wait_for()
    lab.wait_idle()
    lab.cell(0).scroll_into_view_if_needed()
    lab.picture(picture("widgets-of-both-sides"))


def test_a_page_that_is_loaded_anew_shows_the_hosts_widget_and_the_cells(lab: LabPage) -> None:
    lab.server.write_notebook("reload.ipynb", [INTERACT, LIVE, REFUSED], "sentinel")
    lab.open_notebook("reload.ipynb")
    lab.run_all()
    refused_so_far(lab.output(1), 1).wait_for()
    reload(lab, "reload.ipynb")
    refused_so_far(lab.output(1), 1).wait_for()
    handle = lab.output(0).locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    lab.output(0).get_by_text("doubled: 8").wait_for()
    lab.run_cell(2)
    refused_so_far(lab.output(1), 2).wait_for()


def test_so_it_does_where_no_cell_ever_made_a_widget(lab: LabPage) -> None:
    lab.server.write_notebook("host_only.ipynb", [LIVE, REFUSED], "sentinel")
    lab.open_notebook("host_only.ipynb")
    lab.run_all()
    refused_so_far(lab.output(0), 1).wait_for()
    reload(lab, "host_only.ipynb")
    refused_so_far(lab.output(0), 1).wait_for()
    lab.run_cell(1)
    refused_so_far(lab.output(0), 2).wait_for()


def reload(lab: LabPage, path: str) -> None:
    """Save the notebook, load the whole page anew and open it again; the kernel goes on."""
    lab.command("docmanager:save")
    lab.load()
    lab.open_notebook(path)
