"""JupyterLab in a page: notebooks are opened, cells run and outputs read as a person would see them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_server import JupyterServer
    from playwright.sync_api import Locator, Page

_EXECUTE = "([command, options]) => window.jupyterapp.commands.execute(command, options).then(() => null)"
_IDLE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""


class LabPage:
    """One browser page that shows the JupyterLab of ``server``."""

    def __init__(self, page: Page, server: JupyterServer) -> None:
        """Load JupyterLab in an empty workspace of its own and wait for its launcher."""
        self.page = page
        self.server = server
        page.set_default_timeout(30_000)
        self.load()

    def load(self) -> None:
        """Load the page, anew where it was loaded before; nothing that was open is opened again."""
        page = self.page
        page.goto(f"{self.server.url}/lab?token={self.server.token}&reset")
        page.wait_for_function("() => window.jupyterapp !== undefined")
        page.evaluate("() => window.jupyterapp.restored.then(() => null)")
        page.wait_for_selector("#jupyterlab-splash", state="detached")

    def command(self, name: str, options: dict[str, Any] | None = None) -> None:
        """Run a command of JupyterLab's and wait for it."""
        self.page.evaluate(_EXECUTE, [name, options or {}])

    def start(self, name: str, options: dict[str, Any] | None = None) -> None:
        """Run a command of JupyterLab's without waiting for its end."""
        self.page.evaluate(
            "([command, options]) => { void window.jupyterapp.commands.execute(command, options); }",
            [name, options or {}],
        )

    def set_theme(self, theme: str) -> None:
        """Switch to ``theme`` ("JupyterLab Light", "JupyterLab Dark") and wait until it is drawn."""
        self.command("apputils:change-theme", {"theme": theme})
        light = "true" if "Light" in theme else "false"
        body = f'body[data-jp-theme-name="{theme}"][data-jp-theme-light="{light}"]'
        self.page.wait_for_selector(body, state="attached")

    def open_notebook(self, path: str) -> None:
        """Open a notebook, wait until its cells are shown and its kernel is idle."""
        self.command("docmanager:open", {"path": path})
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell")
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until the open notebook's kernel is connected and idle."""
        self.page.wait_for_function(_IDLE)

    @property
    def notebook(self) -> Locator:
        """The notebook on top."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def cell(self, index: int) -> Locator:
        """Return the code cell at ``index``."""
        return self.notebook.locator(".jp-CodeCell").nth(index)

    def output(self, index: int) -> Locator:
        """Return the output area of the code cell at ``index``."""
        return self.cell(index).locator(".jp-Cell-outputArea")

    def run_all(self) -> None:
        """Queue every cell at once, as the menu's Run All does, and wait until the last has ended."""
        self.start("notebook:run-all-cells")
        self.wait_executed(self.notebook.locator(".jp-CodeCell").count() - 1)

    def run_cell(self, index: int, *, wait: bool = True) -> None:
        """Click into the cell at ``index`` and run it."""
        self.cell(index).locator(".jp-InputArea-editor").click()
        self.start("notebook:run-cell")
        if wait:
            self.wait_executed(index)

    def wait_executed(self, index: int) -> None:
        """Wait until the cell at ``index`` shows an execution count of its own."""
        prompt = self.cell(index).locator(".jp-InputPrompt")
        prompt.filter(has_text=re.compile(r"\[\d+\]")).wait_for()
        self.wait_idle()

    def wait_running(self, index: int) -> None:
        """Wait until the cell at ``index`` shows the star of a cell that runs."""
        self.cell(index).locator(".jp-InputPrompt").filter(has_text="[*]").wait_for()

    def text(self, index: int) -> str:
        """Return the text that the cell at ``index`` shows below its source."""
        return self.output(index).inner_text() if self.output(index).count() else ""

    def saved(self) -> dict[str, Any]:
        """Return the open notebook as it would be saved."""
        model: dict[str, Any] = self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.content.model.toJSON()"
        )
        return model

    def accept_dialog(self) -> None:
        """Press the dialog's accept button."""
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def picture(self, path: Path) -> None:
        """Keep what the page shows as a PNG file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)
