"""Executes the tour without a browser, prints what a person would see, and checks it.

Exit status 0 only if the table and the plot showed, the socket was refused with a hint (in English, then in
Chinese), the mount ended the worker and the next cell worked, the profile was switched, and the gauge showed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent
VIOLATION = "application/vnd.sentinel.violation+json"


def execute(notebook: nbformat.NotebookNode, language: str) -> nbformat.NotebookNode:
    """Run the cells with the kernel ``sentinel``; one that is not expected to fail and does ends the run."""
    client = NotebookClient(
        notebook,
        kernel_name="sentinel",
        timeout=120,
        startup_timeout=60,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    with contextlib.suppress(CellExecutionError):  # the cell shows it, and what it promised is missing then
        client.execute(env=os.environ | {"SENTINEL_LANG": language})
    return notebook


def lines_of(cell: nbformat.NotebookNode) -> Iterator[str]:
    """Yield the lines that show a cell and its outputs in a terminal."""
    yield f"In [{cell.execution_count or ' '}]:"
    yield from (f"    {line}" for line in cell.source.splitlines())
    for output in cell.outputs:
        match output.output_type:
            case "stream":
                yield f"{output.name}:"
                text = output.text
            case "error":
                yield "error:"
                text = f"{output.ename}: {output.evalue}"
            case _:
                yield f"{output.output_type}: {', '.join(output.data)}"
                text = output.data.get("text/plain", "")
        yield from (f"    {line}" for line in text.splitlines())
    yield ""


def violations(cell: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """Return the violations that a cell shows, as data."""
    return [output.data[VIOLATION] for output in cell.outputs if VIOLATION in output.get("data", {})]


def shown_types(cell: nbformat.NotebookNode) -> set[str]:
    """Return the MIME types of everything a cell shows."""
    return {name for output in cell.outputs for name in output.get("data", {})}


def printed(cell: nbformat.NotebookNode) -> str:
    """Return all text that a cell shows."""
    return "\n".join(lines_of(cell))


def missing(cells: dict[str, nbformat.NotebookNode]) -> Iterator[str]:
    """Yield one sentence for everything that the tour promises and that did not happen."""
    if "text/html" not in shown_types(cells["dataframe"]):
        yield "The DataFrame was not shown."
    if "image/png" not in shown_types(cells["plot"]):
        yield "The plot was not shown."
    if not all(words in printed(cells["held-files"]) for words in ("rivers.csv", "6650")):
        yield "The held file was not shown."
    if [violation["syscall"] for violation in violations(cells["socket"])] != ["socket"]:
        yield "The socket was not refused."
    if "HINT →" not in printed(cells["socket"]):
        yield "The refused socket came without a HINT."
    if [violation["action"] for violation in violations(cells["mount"])] != ["KILL"]:
        yield "The mount did not end the worker."
    if "A new worker runs this cell.\n    False" not in printed(cells["after"]):
        yield "The cell after the killed one did not run in a new worker."
    if "connected to myself" not in printed(cells["profile"]) or violations(cells["profile"]):
        yield "The profile was not switched."
    if "text/html" not in shown_types(cells["gauge"]) or "memory" not in printed(cells["gauge"]):
        yield "The gauge was not shown."


def tour(language: str) -> int:
    """Run and print the whole tour, then return the number of promises that were not kept."""
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
    executed = execute(notebook, language)
    cells = {cell.id: cell for cell in executed.cells if cell.cell_type == "code"}
    for cell in cells.values():
        print(printed(cell))
    return complain(missing(cells))


def refusal_in_chinese() -> int:
    """Run the refused socket alone with SENTINEL_LANG=zh, print it, and return the number of faults."""
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.id == "socket"]
    [cell] = execute(notebook, "zh").cells
    print("SENTINEL_LANG=zh")
    print(printed(cell))
    shown = [violation["message"]["zh"] for violation in violations(cell)]
    if not shown or not any(message in printed(cell) for message in shown):
        return complain(iter(["The refusal was not explained in Chinese."]))
    return 0


def complain(sentences: Iterator[str]) -> int:
    """Print what went wrong and return how much did."""
    found = list(sentences)
    for sentence in found:
        print(f"FAILED: {sentence}", file=sys.stderr)
    return len(found)


def main() -> int:
    """Run the tour in English, then the refusal in Chinese."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    faults = tour("en") + refusal_in_chinese()
    print("The tour kept its promises." if not faults else f"{faults} promises were not kept.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
