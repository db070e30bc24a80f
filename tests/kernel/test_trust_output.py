"""What outputs may do in the browser under a profile of one's own, and what the person's yes adds to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from conversation import Conversation, Exchange
from live_kernel import Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")

SCRIPT = "from IPython.display import *\ndisplay(HTML('<p>chart</p><script>draw()</script>'))"
TILE = "display(HTML('<img src=\"https://a.tile.example.org/1.png\">'))"


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """Return one notebook whose profile shows HTML without scripts."""
    folder = tmp_path_factory.mktemp("outputs")
    place = folder / "config" / "sentinel-kernel" / "profiles"
    place.mkdir(parents=True)
    (place / "calm.json").write_text(json.dumps({"extends": "strict", "outputs": {"html": "sanitize"}}))
    settings = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "SENTINEL_PROFILE": "calm",
        "SENTINEL_SPARE": "off",
    }
    with notebook(folder, **settings) as running:
        yield running


def answered(talk: Conversation, code: str, answer: str) -> Exchange:
    """Run a cell and answer the host's question."""
    cell = talk.execute(code, allow_stdin=True)
    prompt = talk.wait_for_prompt(cell)
    assert prompt["content"]["prompt"].startswith("Sentinel asks: ")
    talk.client.input(answer)
    return talk.finish(cell)


def bundles(cell: Exchange) -> list[dict[str, Any]]:
    return [content["data"] for content in cell.contents("display_data")]


def test_the_persons_yes_gives_frames_and_hosts_until_it_is_taken_back(book: Notebook) -> None:
    talk = Conversation(book.client)
    before = bundles(talk.run(f"{SCRIPT}\n{TILE}"))
    assert [data["text/html"] for data in before if "<p>chart" in data.get("text/html", "")] == [
        "<p>chart</p>"
    ]
    assert sum("HINT" in data["text/plain"] for data in before) == 2  # a script, and another host
    (told,) = [data for data in before if "another host" in data["text/plain"]]
    assert "another host (a.tile.example.org)" in told["text/plain"]
    assert "%sentinel_trust_output a.tile.example.org" in told["text/plain"]
    assert told["application/vnd.sentinel.notice+json"]["hosts"] == ["a.tile.example.org"]

    for refused in ("%sentinel_trust_output scripts", "%sentinel_trust_output *.tile.example.org"):
        assert "the answer was no" in str(answered(talk, refused, "n").content)
        assert "nobody can be asked" in str(talk.run(refused, allow_stdin=False).content)
    assert "<iframe" not in str(bundles(talk.run(SCRIPT)))

    answered(talk, "%sentinel_trust_output scripts", "y")
    answered(talk, "%sentinel_trust_output *.tile.example.org", "y")
    after = bundles(talk.run(f"{SCRIPT}\n{TILE}"))
    assert len(after) == 2
    assert 'sandbox="allow-scripts"' in after[0]["text/html"]
    assert after[1]["text/html"] == '<img src="https://a.tile.example.org/1.png">'
    assert "*.tile.example.org" in str(bundles(talk.run("%sentinel_trust_output")))

    talk.run("%sentinel_trust_output off")
    assert "<iframe" not in str(bundles(talk.run(SCRIPT)))


@pytest.mark.parametrize(
    "typed", ["localhost", "127.0.0.1", "https://example.org", "all", "*", "*.org", "scripts off"]
)
def test_what_nobody_can_allow_is_not_understood(book: Notebook, typed: str) -> None:
    cell = Conversation(book.client).run(f"%sentinel_trust_output {typed}", allow_stdin=True)
    assert cell.content["ename"] == "UsageError"
    assert "%sentinel_trust_output [scripts | HOST ... | off]" in cell.content["evalue"]


def test_scripts_never_reach_the_page_itself(book: Notebook) -> None:
    talk = Conversation(book.client)
    answered(talk, "%sentinel_trust_output scripts", "y")
    shown = bundles(talk.run("display(Javascript('draw()'))\n" + SCRIPT))
    assert all("application/javascript" not in data for data in shown)
    assert "<script" not in str([data.get("text/html") for data in shown])
    talk.run("%sentinel_trust_output off")
