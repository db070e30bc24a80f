"""What a person does to a notebook beside running cells: debug, answer prompts, complete, look up, interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab_page import LabPage

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

DEBUGGED = """def area(width, height):
    product = width * height
    return product

print("area:", area(6, 7))"""
PROMPTS = """import getpass
name = input("your name? ")
secret = getpass.getpass("a secret? ")
print("hello", name, "with", len(secret), "letters")"""
# The expression takes longer than any person waits, in C; the child is in the cell's process group.
LONG = """import re, subprocess
kept = "kept"
child = subprocess.Popen(["sleep", "1000"])
print("started", flush=True)
re.match("(a+)+$", "a" * 60 + "b")"""
AFTER = "print(kept, child.wait(timeout=20))"


def test_the_debugger_stops_at_a_breakpoint_and_shows_the_variables(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    lab.server.write_notebook("debug.ipynb", ["%sentinel_profile datascience", DEBUGGED], "sentinel")
    lab.open_notebook("debug.ipynb")
    lab.run_cell(0)
    lab.notebook.locator(".jp-DebuggerBugButton").click()
    # The gutter's first element is as wide as its widest, and hidden.
    lab.cell(1).locator(".cm-breakpoint-gutter .cm-gutterElement").nth(3).click()
    lab.page.locator(".jp-DebuggerBreakpoint").wait_for()
    lab.run_cell(1, wait=False)
    variables = lab.page.locator(".jp-DebuggerVariables")
    for name, value in (("width", "6"), ("height", "7"), ("product", "42")):
        variables.locator(".jp-TreeItem").filter(has_text=f"{name}{value}").wait_for()
    lab.picture(picture("debugger"))
    lab.command("debugger:continue")
    lab.wait_executed(1)
    assert "area: 42" in lab.text(1)


def test_a_person_answers_prompts_and_a_password_is_not_shown(lab: LabPage) -> None:
    lab.server.write_notebook("prompts.ipynb", [PROMPTS], "sentinel")
    lab.open_notebook("prompts.ipynb")
    lab.run_cell(0, wait=False)
    for field_kind, answer in ((":not([type=password])", "Ada"), ("[type=password]", "hidden")):
        field = lab.output(0).locator(f".jp-Stdin-input{field_kind}")
        field.fill(answer)
        field.press("Enter")
    lab.wait_executed(0)
    assert "hello Ada with 6 letters" in lab.text(0)
    assert "hidden" not in lab.text(0)


def test_tab_completes_and_shift_tab_shows_the_documentation(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    lab.server.write_notebook("complete.ipynb", ["import collections", "", ""], "sentinel")
    lab.open_notebook("complete.ipynb")
    lab.run_cell(0)
    lab.cell(1).locator(".cm-content").click()
    lab.page.keyboard.type("collections.Or")

    def completed() -> bool:
        # JupyterLab gives up a completion after a second; the first one takes jedi about that long when it is busy.
        lab.page.keyboard.press("Tab")
        lab.page.wait_for_timeout(500)
        return "collections.OrderedDict" in lab.cell(1).locator(".cm-content").inner_text()

    wait_until(completed, "the name is completed")
    lab.cell(2).locator(".cm-content").click()
    lab.page.keyboard.type("sorted(")
    lab.page.keyboard.press("Shift+Tab")
    tooltip = lab.page.locator(".jp-Tooltip")
    tooltip.get_by_text("Return a new list").wait_for()
    lab.picture(picture("tooltip"))


def test_an_interrupt_ends_a_loop_in_c_and_its_child_and_keeps_the_variables(lab: LabPage) -> None:
    lab.server.write_notebook("long.ipynb", [LONG, AFTER], "sentinel")
    lab.open_notebook("long.ipynb")
    lab.run_cell(0, wait=False)
    lab.output(0).get_by_text("started").wait_for()
    lab.command("notebook:interrupt-kernel")
    lab.wait_executed(0)
    assert "KeyboardInterrupt" in lab.text(0)
    lab.run_cell(1)
    assert lab.text(1).strip() == "kept -2"
