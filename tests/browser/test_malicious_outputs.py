"""Outputs of a hostile cell act with nobody's login and tell no other host; those of everyday work still look right."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from honest_outputs import HONEST
from honest_outputs import PRELUDE as HONEST_PRELUDE
from hostile_outputs import ALIVE, ATTACKS, source
from hostile_outputs import PRELUDE as HOSTILE_PRELUDE
from jupyter_server import running_server
from lab_page import LabPage
from recording_listener import recording_listener
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from honest_outputs import Honest
    from hostile_outputs import Attack
    from jupyter_server import JupyterServer
    from playwright.sync_api import Browser, Locator
    from recording_listener import RecordingListener

pytestmark = [
    pytest.mark.browser,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

LONG_MS = 300_000
"""The notebooks of this file import half of what a scientist has installed, some of them on a busy machine."""

_LINKS = "a:not([href^=http]), button, input, mtext, summary"
"""What is clicked: links to other sites are the person's to follow."""

_COVERED = """() => [...document.querySelectorAll(".jp-OutputArea-output *")]
  .filter(one => getComputedStyle(one).position === "fixed").length"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """Yield a JupyterLab server whose notebooks show all of their cells, also those out of view."""
    home = tmp_path_factory.mktemp("home")
    settings = home / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"windowingMode": "none"}))
    with running_server(home, tmp_path_factory.mktemp("notebooks")) as running:
        yield running


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[RecordingListener]:
    """Yield another host."""
    with recording_listener() as listener:
        yield listener


def run(lab: LabPage, name: str, sources: Sequence[str], kernel: str) -> None:
    """Open a notebook with these cells and run them all."""
    lab.server.write_notebook(name, [*sources, "'the end'"], kernel)
    lab.page.set_default_timeout(LONG_MS)
    lab.open_notebook(name)
    lab.run_all()


def click_through(lab: LabPage, attacks: Sequence[Attack]) -> None:
    """Click what waits for a click, as a person might."""
    for index, attack in enumerate(attacks, start=1):
        if attack.click:
            for element in lab.output(index).locator(_LINKS).all():
                element.click(force=True, no_wait_after=True, timeout=LONG_MS)


def settle(lab: LabPage, elsewhere: RecordingListener) -> None:
    """Wait until what came before this has arrived: a frame below all others runs, then the page itself asks."""
    lab.page.wait_for_function("() => window.alive === true")
    lab.page.evaluate("url => fetch(url, {mode: 'no-cors'}).then(() => null)", f"{elsewhere.url}/settled/")
    wait_until(lambda: "settled" in elsewhere.paths(), "the page's own request has arrived")


def written(server: JupyterServer) -> set[str]:
    """Return the attacks that have written their file through the server's API."""
    return {path.name.removeprefix("got-").removesuffix(".txt") for path in server.root.glob("*got-*")}


def test_plain_ipykernel_lets_these_outputs_act_and_tell_other_hosts(
    browser: Browser, server: JupyterServer
) -> None:
    attacks = [attack for attack in ATTACKS if attack.plain]
    context = browser.new_context()
    with recording_listener() as listener:
        lab = LabPage(context.new_page(), server)
        cells = [source(one, listener.url, listener.port, listener.udp_port) for one in attacks]
        run(lab, "plain.ipynb", [HOSTILE_PRELUDE, *cells], "python3")
        click_through(lab, attacks)
        names = {attack.name for attack in attacks if attack.name != "command-linker"}
        wait_until(server.terminals, "a button has opened a terminal", seconds=60)
        wait_until(lambda: listener.datagrams, "a frame has sent datagrams", seconds=60)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: names <= listener.paths() | written(server), "all got through", seconds=60)
        assert names - listener.paths() - written(server) == set()
    context.close()
    server.shut_down_kernels()
    for path in server.root.glob("*got-*"):
        path.unlink()


def test_none_of_them_acts_or_tells_another_host_through_the_filter(
    lab: LabPage, elsewhere: RecordingListener, picture: Callable[[str], Path]
) -> None:
    cells = [source(one, elsewhere.url, elsewhere.port, elsewhere.udp_port) for one in ATTACKS]
    lab.page.evaluate(
        "() => addEventListener('message', told => { if (told.data === 'alive') window.alive = true; })"
    )
    run(lab, "hostile.ipynb", [HOSTILE_PRELUDE, *cells, ALIVE], "sentinel")
    click_through(lab, ATTACKS)
    settle(lab, elsewhere)
    assert written(lab.server) == set()
    assert lab.server.terminals() == []
    assert len(lab.server.request("GET", "/api/kernels")) == 1
    assert elsewhere.paths() - {"settled", "favicon.ico"} == set()
    assert elsewhere.datagrams == 0
    assert lab.page.url.startswith(lab.server.url)
    assert lab.page.evaluate(_COVERED) == 0
    assert "Sentinel" in lab.text(1)
    assert "HINT" in lab.text(1)
    lab.cell(13).scroll_into_view_if_needed()
    lab.picture(picture("outputs-held"))


def seen(lab: LabPage, index: int, honest: Honest) -> Locator:
    """Return what has to be seen of an output, once it is there."""
    output = lab.output(index)
    if honest.inside:
        inside = output.frame_locator("iframe").frame_locator("iframe")
        found = inside.locator(honest.inside).first
    else:
        found = output.locator(honest.selector).first if honest.selector else output
    found.wait_for(state="attached")
    return found


def test_outputs_of_everyday_work_look_right(lab: LabPage, picture: Callable[[str], Path]) -> None:
    run(lab, "honest.ipynb", [HONEST_PRELUDE, *(honest.source for honest in HONEST)], "sentinel")
    for index, honest in enumerate(HONEST, start=1):
        found = seen(lab, index, honest)
        if honest.text:
            found.filter(has_text=honest.text).wait_for(state="attached")
        name, value = honest.style
        if name:
            shown = found.evaluate("(one, name) => getComputedStyle(one).getPropertyValue(name)", name)
            assert shown == value, honest.name
        held = "Held back" in lab.text(index)
        assert held == (honest.name == "folium"), (
            f"{honest.name}: {lab.text(index)}"
        )  # its library is elsewhere
    for theme in ("Light", "Dark"):
        lab.set_theme(f"JupyterLab {theme}")
        for index in (2, 6, 9, 13, 23):
            lab.cell(index).scroll_into_view_if_needed()
            lab.picture(picture(f"outputs-{theme.lower()}-{HONEST[index - 1].name}"))
