"""Files in JupyterLab: held, shown, compared, committed, taken back and downloaded, as a person does it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_server import JupyterServer
    from lab_page import LabPage
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

CONTRAST = (Path(__file__).resolve().parents[1] / "support" / "contrast.js").read_text()
ENOUGH = 4.5  # WCAG 2, level AA, text of ordinary size
LARGE_BYTES = 700_000
PICTURE = """import struct, zlib

def picture(colour):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\\0' + bytes(colour) * 120) * 80
    return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 120, 80, 8, 2, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
"""
WRITES = f"""%sentinel_profile datascience
{PICTURE}
open('results.csv', 'w').write('id,value\\n1,10\\n2,20\\n')
open('notes.txt', 'w').write('first line\\na second line, better\\nthird line\\nand <b>more</b>\\n')
open('plot.png', 'wb').write(picture((30, 90, 200)))
open('large.npy', 'wb').write(bytes({LARGE_BYTES}))
open('model.bin', 'wb').write(b'm' * {LARGE_BYTES})
old = open('table.csv').read()
open('table.csv', 'w').write(old.replace('2,b,20', '2,b,21') + '4,d,40\\n')"""
CELLS = [
    WRITES,
    "%sentinel_files",
    "%sentinel_files --diff",
    "%sentinel_commit notes.txt",
    "%sentinel_export plot.png",
    "%sentinel_export large.npy",
    "%sentinel_export model.bin",
    "%sentinel_undo",
]
NOTES = "first line\nsecond line\nthird line\n"


THEMES = ("JupyterLab Dark", "JupyterLab Light")
PARTS = ("list", "diff", "commit", "export", "export-large", "export-copy", "undo")


def prepare(root: Path) -> None:
    """Put into the notebook's folder what the cells will change."""
    scope: dict[str, Callable[[tuple[int, int, int]], bytes]] = {}
    exec(PICTURE, scope)
    (root / "notes.txt").write_text(NOTES)
    (root / "plot.png").write_bytes(scope["picture"]((200, 60, 30)))
    (root / "model.bin").write_bytes(b"old")
    (root / "table.csv").write_text("id,name,size\n1,a,10\n2,b,20\n3,c,30\n")


def agree(lab: LabPage, index: int, named: str, picture: Path | None = None) -> None:
    """Run a cell and say yes to its question, which names a file; with a picture of that before."""
    lab.run_cell(index, wait=False)
    typed = lab.output(index).locator(".jp-Stdin-input")
    typed.wait_for()
    assert named in lab.output(index).inner_text()
    if picture is not None:
        lab.picture(picture)
    typed.fill("y")
    typed.press("Enter")
    lab.wait_executed(index)


def check_legible(lab: LabPage, index: int) -> None:
    """Check that the boxes below a cell can be read, in the theme that is on."""
    boxes = lab.output(index).locator(".sentinel-box")
    assert boxes.count() >= 1
    for place in range(boxes.count()):
        box = boxes.nth(place)
        wait_until(lambda box=box: box.evaluate(CONTRAST), "the box has text")
        assert [entry for entry in box.evaluate(CONTRAST) if entry["ratio"] < ENOUGH] == []


def show(lab: LabPage, index: int, path: Path) -> None:
    """Keep a picture of what is below a cell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lab.output(index).screenshot(path=path)


def clicked(page: Page, link: Locator) -> bytes:
    """Click at a link and return what is downloaded."""
    with page.expect_download() as told:
        link.click()
    return Path(told.value.path()).read_bytes()


def download(lab: LabPage, index: int) -> bytes:
    """Click at the link below a cell and return what is downloaded."""
    return clicked(lab.page, lab.output(index).locator("a[download]"))


def test_a_persons_way_with_files_from_the_notice_to_the_download(
    lab: LabPage, server: JupyterServer, picture: Callable[[str], Path]
) -> None:
    prepare(server.root)
    server.write_notebook("files.ipynb", CELLS, "sentinel")
    lab.page.set_viewport_size({"width": 1200, "height": 1400})
    lab.open_notebook("files.ipynb")

    # Held: a notice in the cell, once; the new file is in the browser, the others are as they were.
    lab.run_cell(0)
    lab.output(0).locator(".sentinel-box", has_text="held in the sandbox").wait_for()
    lab.command("filebrowser:refresh")
    lab.page.locator(".jp-DirListing-item", has_text="results.csv").wait_for()
    assert (server.root / "notes.txt").read_text() == NOTES
    for theme in THEMES:
        lab.set_theme(theme)
        check_legible(lab, 0)
        lab.picture(picture(f"files-notice-{theme.rpartition(' ')[2].lower()}"))

    lab.run_cell(1)
    for name in ("notes.txt", "plot.png", "table.csv"):
        assert name in lab.text(1)
    lab.run_cell(2)
    for words in (
        "+a second line, better",
        "-second line",
        "and <b>more</b>",
        "rows: 3 → 4",
        "added 1",
        "40",
    ):
        assert words in lab.text(2)
    pictures = lab.output(2).locator("img")
    assert pictures.count() == 2
    wait_until(
        lambda: pictures.evaluate_all("all => all.every((one) => one.naturalWidth === 120)"),
        "the pictures are drawn",
    )

    # A commit over a file asks; the answer is typed below the cell.
    agree(lab, 3, "notes.txt", picture("files-question-light"))
    assert "better" in (server.root / "notes.txt").read_text()

    # Downloads: within the link, from the folder itself, and a copy of what is held, which asks.
    for index in (4, 5):
        lab.run_cell(index)
    agree(lab, 6, "sentinel-exports/model.bin")
    assert download(lab, 4).startswith(b"\x89PNG")
    assert download(lab, 5) == bytes(LARGE_BYTES)
    assert download(lab, 6) == b"m" * LARGE_BYTES
    assert (server.root / "model.bin").read_bytes() == b"old"

    # The commit is taken back first, then what the first cell has written.
    lab.run_cell(7)
    assert "notes.txt" in lab.text(7)
    assert (server.root / "notes.txt").read_text() == NOTES
    lab.run_cell(7)
    assert "results.csv" in lab.text(7)
    assert not (server.root / "results.csv").exists()

    for theme in THEMES:
        lab.set_theme(theme)
        for index, part in enumerate(PARTS, 1):
            check_legible(lab, index)
            show(lab, index, picture(f"files-{part}-{theme.rpartition(' ')[2].lower()}"))

    # The same link in Notebook 7, from the saved notebook.
    lab.command("docmanager:save")
    lab.page.goto(f"{server.url}/notebooks/files.ipynb?token={server.token}")
    link = lab.page.locator("a[download]", has_text="model.bin")
    link.wait_for()
    assert clicked(lab.page, link) == b"m" * LARGE_BYTES
