"""The gauge in JupyterLab: it moves with what a cell really uses, its controls act, and both themes are legible."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

from sentinel_kernel.kernel.widgets import VIEW_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_server import JupyterServer
    from lab_page import LabPage
    from playwright.sync_api import Browser, Locator

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

GAUGE = "%sentinel_gauge"
CONTRAST = (Path(__file__).resolve().parents[1] / "support" / "contrast.js").read_text()
ENOUGH = 4.5  # WCAG 2, level AA, text of ordinary size
MARK = "SentinelGaugeTest"
WORK = f"""import threading, time, ctypes
ctypes.CDLL(None).prctl(15, b"{MARK}", 0, 0, 0)
held = []
for _ in range(12):
    held.append(bytes(20 * 1024 * 1024).replace(b"\\0", b"x"))
    time.sleep(0.1)
with open("/tmp/file", "wb") as file:
    file.write(bytes(20 * 1024 * 1024))
waiting = threading.Event()
threads = [threading.Thread(target=waiting.wait) for _ in range(5)]
for thread in threads: thread.start()
print("grown", flush=True)
try:
    while True: pass
finally:
    waiting.set()"""
STUBBORN = """import time
kept = 1
print("begun", flush=True)
while True:
    try:
        while True: time.sleep(0.02)
    except KeyboardInterrupt:
        pass"""
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
CLOSE = 0.05


def row(output: Locator, name: str) -> str:
    """Return what the gauge says beside a name."""
    rows = output.locator(".sentinel-gauge tr").all_inner_texts()
    return next((text for text in rows if text.strip().startswith(name)), "")


def amount(text: str) -> float:
    """Return the first number in it, in bytes where it has a unit of them."""
    found = re.search(r"([\d.]+) ?(GiB|MiB|KiB|B|%)?", text)
    return float(found[1]) * UNITS.get(found[2], 1) if found else -1.0


def marked_process() -> Path:
    """Return /proc's folder of the worker that named itself."""

    def find() -> Iterator[Path]:
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if (folder / "comm").read_text().strip() == MARK[:15]:
                        yield folder

    return next(find())


def inside(worker: Path) -> list[Path]:
    """Return /proc's folders of all processes in the worker's sandbox."""
    namespace = (worker / "ns" / "pid").readlink()
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and (folder / "ns" / "pid").readlink() == namespace:
                found.append(folder)
    return found


def private_bytes(worker: Path) -> int:
    """Return the memory that the sandbox's processes have for themselves, as the Linux kernel counts it."""
    total = 0
    for folder in inside(worker):
        with contextlib.suppress(OSError):
            text = (folder / "smaps_rollup").read_text()
            total += int(re.search(r"Pss_Anon:\s+(\d+)", text)[1]) * 1024  # type: ignore[index] # it is there
    return total


def tasks(worker: Path) -> int:
    """Return how many threads there are in the sandbox."""
    return sum(len(list((folder / "task").iterdir())) for folder in inside(worker))


def processor_seconds(worker: Path) -> float:
    """Return the worker's processor time."""
    fields = (worker / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def near(shown: float, real: float) -> bool:
    return abs(shown - real) <= CLOSE * real


def test_it_moves_while_a_cell_runs_and_tells_what_the_linux_kernel_counts(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    lab.server.write_notebook("gauge.ipynb", [GAUGE, WORK], "sentinel")
    lab.open_notebook("gauge.ipynb")
    lab.run_cell(0)
    gauge = lab.output(0)
    gauge.locator(".sentinel-gauge").wait_for()
    before = amount(row(gauge, "memory"))
    lab.run_cell(1, wait=False)
    # It moves before the cell has got anywhere near its end.
    wait_until(lambda: before + (40 << 20) < amount(row(gauge, "memory")) < 230 << 20, "the gauge moves")
    lab.output(1).get_by_text("grown").wait_for()
    worker = marked_process()
    files = 20 << 20

    def memory_is_near() -> bool:
        return near(amount(row(gauge, "memory")), private_bytes(worker) + files)

    def processor_is_near() -> bool:
        began, used = time.monotonic(), processor_seconds(worker)
        lab.page.wait_for_timeout(1000)  # what is compared is a rate
        real = 100 * (processor_seconds(worker) - used) / (time.monotonic() - began)
        return abs(amount(row(gauge, "CPU")) - real) <= 100 * CLOSE

    wait_until(memory_is_near, "the gauge tells the memory")
    wait_until(processor_is_near, "the gauge tells the processor use")
    wait_until(lambda: amount(row(gauge, "processes")) == tasks(worker), "the gauge tells the threads")
    wait_until(lambda: near(amount(row(gauge, "disk")), files), "the gauge tells the files")
    assert gauge.locator("svg polyline").count() >= 2
    lab.cell(0).scroll_into_view_if_needed()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        lab.set_theme(theme)
        lab.picture(picture("gauge-" + theme.rpartition(" ")[2].lower()))
        # Of what holds the picture: the picture itself is another one four times a second.
        ratios = gauge.locator(".widget-html").evaluate(CONTRAST)
        assert ratios
        assert [entry for entry in ratios if entry["ratio"] < ENOUGH] == []
    gauge.get_by_role("button", name="Stop the cell").click()
    lab.wait_executed(1)
    assert "KeyboardInterrupt" in lab.text(1)
    gauge.get_by_role("button", name="Stop the cell", disabled=True).wait_for()


def test_its_selector_changes_the_profile_and_goes_on_over_reload_reset_and_death(
    lab: LabPage, picture: Callable[[str], Path]
) -> None:
    lab.server.write_notebook(
        "selector.ipynb",
        [GAUGE, "kept = 42", "print(kept)", STUBBORN, "import os; os.kill(os.getpid(), 9)", "6 * 7"],
        "sentinel",
    )
    lab.open_notebook("selector.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)
    gauge = lab.output(0)
    selector = gauge.locator("select")
    selector.select_option(label="datascience")
    gauge.get_by_text("Profile datascience is in force").wait_for()
    lab.run_cell(2)
    assert "42" in lab.text(2)  # the variables were kept
    lab.command("docmanager:save")
    lab.load()
    lab.open_notebook("selector.ipynb")
    gauge = lab.output(0)
    gauge.locator(".sentinel-gauge").get_by_text("datascience").first.wait_for()
    assert gauge.locator("select").input_value() == "datascience"
    # Beyond the ceiling: said, and not given.
    gauge.locator("select").select_option(label="web (beyond the ceiling)")
    gauge.get_by_text("so nothing was changed").wait_for()
    assert gauge.locator("select").input_value() == "datascience"
    # A cell that ignores interrupts.
    kill = gauge.get_by_role("button", name="End the worker")
    assert not kill.is_visible()
    lab.run_cell(3, wait=False)
    lab.output(3).get_by_text("begun").wait_for()
    gauge.get_by_role("button", name="Stop the cell").click()
    kill.wait_for()
    assert (
        lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status")
        == "busy"
    )
    lab.picture(picture("gauge-stubborn"))
    kill.click()
    lab.output(3).get_by_text("SandboxDied").first.wait_for()
    lab.run_cell(5)
    assert "42" in lab.text(5)
    gauge.get_by_role("button", name="Stop the cell", disabled=True).wait_for()
    # A death of the worker's own: clients forget every widget, and the gauge comes again with the next cell.
    lab.run_cell(4, wait=False)
    lab.accept_dialog()
    lab.output(4).get_by_text("SandboxDied").first.wait_for()
    lab.wait_idle()
    lab.picture(picture("gauge-death"))
    lab.run_cell(5)
    lab.output(5).locator(".sentinel-gauge").wait_for()
    lab.picture(picture("gauge-after-death"))
    close = lab.output(5).get_by_role("button", name="Close the gauge")
    close.click()
    close.wait_for(state="detached")
    lab.output(5).locator(".sentinel-gauge").wait_for()  # the picture
    outputs = lab.saved()["cells"][5]["outputs"]
    assert not any(VIEW_TYPE in output.get("data", {}) for output in outputs)


def test_nbconvert_shows_a_picture_of_it_and_the_summary_as_text(
    browser: Browser, server: JupyterServer, picture: Callable[[str], Path]
) -> None:
    code = "held = bytes(50 * 1024 * 1024).replace(b'\\0', b'x')"
    sources = [GAUGE, "%sentinel_gauge summary on", code, "print('end')"]
    server.write_notebook("converted.ipynb", sources, "sentinel")
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "converted.ipynb"]
    subprocess.run(command, check=True, capture_output=True, cwd=server.root, env=server.environment())
    page = browser.new_page()
    page.goto((server.root / "converted.html").as_uri())
    gauge = page.locator(".sentinel-gauge")
    assert gauge.count() == 1
    page.screenshot(path=picture("gauge-nbconvert"))
    assert amount(row(page.locator("body"), "memory")) > 50 << 20  # as it was at the last cell's end
    assert gauge.locator("svg polyline").count() >= 1
    lines = page.locator("pre", has_text="Sentinel: cell").all_inner_texts()
    assert [text.split(" took")[0] for text in lines] == [
        f"Sentinel: cell [{number}]" for number in (2, 3, 4)
    ]
    assert amount(lines[1].partition("peak memory ")[2]) > 50 << 20
    page.close()
