"""Files and profiles change while a notebook is open: the next cell sees what a person would expect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab_page import LabPage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]


def test_a_file_uploaded_after_a_failed_open_is_seen_by_the_next_cell(lab: LabPage) -> None:
    read = "try:\n    print(open('late.txt').read())\nexcept FileNotFoundError:\n    print('absent')"
    lab.server.write_notebook("upload.ipynb", [read, read], "sentinel")
    lab.open_notebook("upload.ipynb")
    lab.run_cell(0)
    assert "absent" in lab.text(0)
    lab.server.write_text("late.txt", "it is here")
    lab.run_cell(1)
    assert "it is here" in lab.text(1)


def test_a_module_saved_in_jupyterlab_is_reloaded_by_the_next_cell(lab: LabPage) -> None:
    lab.server.write_text("own_module.py", "VALUE = 'first'\n")
    lab.server.write_notebook(
        "module.ipynb",
        ["import own_module\nown_module.VALUE", "import importlib\nimportlib.reload(own_module).VALUE"],
        "sentinel",
    )
    lab.open_notebook("module.ipynb")
    lab.run_cell(0)
    assert "'first'" in lab.text(0)
    # The way a person does it: open it in the editor, change it, save it.
    lab.command("docmanager:open", {"path": "own_module.py"})
    editor = lab.page.locator(".jp-FileEditor .cm-content")
    editor.click()
    lab.page.keyboard.press("Control+A")
    lab.page.keyboard.type("VALUE = 'edited later'\n")
    lab.command("docmanager:save")
    lab.command("docmanager:open", {"path": "module.ipynb"})
    lab.run_cell(1)
    assert "'edited later'" in lab.text(1)


SWITCH = [
    "value = 1\nprint('before:', 'value' in globals())",
    "%sentinel_profile datascience\nprint('after:', 'value' in globals())",
    "import socket\nsocket.socket().close()\nprint('a socket was made')",
]


def texts(lab: LabPage) -> list[str]:
    """Return what stands below each cell; a profile's share of the memory that is free changes from one to the next."""
    return [re.sub(r"[\d.]+ [KMGT]iB", "(size)", lab.text(index)) for index in range(len(SWITCH))]


def test_run_all_with_a_switch_in_the_middle_is_like_running_one_by_one(lab: LabPage) -> None:
    lab.server.write_notebook("one_by_one.ipynb", SWITCH, "sentinel")
    lab.open_notebook("one_by_one.ipynb")
    for index in range(len(SWITCH)):
        lab.run_cell(index)
    one_by_one = texts(lab)
    assert "before: True" in one_by_one[0]
    assert "after: True" in one_by_one[1]
    assert "a socket was made" in one_by_one[2]

    lab.server.write_notebook("run_all.ipynb", SWITCH, "sentinel")
    lab.open_notebook("run_all.ipynb")
    lab.run_all()
    assert texts(lab) == one_by_one
