"""What a page is to play is a recording by its first bytes: a playlist has it load from any host."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from sentinel_kernel.kernel.filtering import held, html
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.policy.profile import Outputs

PLAYLIST = b"#EXTM3U\n#EXTINF:1,\nhttps://evil.example/x.ts\n"
MP4 = b"\0\0\0\x18ftypmp42\0\0\0\0"
RECORDINGS = [
    MP4,
    b"RIFF\x24\0\0\0WAVEfmt ",
    b"RIFF\x24\0\0\0AVI LIST",
    b"OggS\0\x02\0\0\0\0\0\0",
    b"ID3\x04\0\0\0\0\0\0\0\0",
    b"\xff\xfb\x90\x64\0\0\0\0\0\0\0\0",
    b"\xff\xf1\x50\x80\0\0\0\0\0\0\0\0",
    b"fLaC\0\0\0\x22\0\0\0\0",
    b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\0",
    b"FORM\0\0\0\x24AIFF",
]
NONE = [
    PLAYLIST,
    b"\xef\xbb\xbf" + PLAYLIST,
    b"\n" + PLAYLIST,
    b"<?xml version='1.0'?><MPD>",
    b"[playlist]\nFile1=https://evil.example/x.mp3\n",
    b"\0" * 32,
    b"RIFF\x24\0\0\0WEBP",
]
CLEAN = Outputs(html="sanitize")


def address(data: bytes, kind: str = "video/mp4") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def model(name: str = "VideoModel", view: str = "", **state: Any) -> dict[str, Any]:
    names = {"_model_module": "@jupyter-widgets/controls", "_model_name": name}
    names |= {
        "_view_module": "@jupyter-widgets/controls",
        "_view_name": view or name.replace("Model", "View"),
    }
    return {**names, "format": "mp4", **state}


def opens(messages: Messages, state: dict[str, Any], *buffers: bytes, comm_id: str = "m") -> Any:
    data = {"state": state, "buffer_paths": [["value"]] * len(buffers)}
    content = {"comm_id": comm_id, "target_name": "jupyter.widget", "data": data}
    return messages.filter("comm_open", content, CLEAN, buffers=buffers)


def says(messages: Messages, data: dict[str, Any], *buffers: bytes, comm_id: str = "m") -> Any:
    return messages.filter("comm_msg", {"comm_id": comm_id, "data": data}, CLEAN, buffers=buffers)


def update(*path: str, **state: Any) -> dict[str, Any]:
    return {"method": "update", "state": state, "buffer_paths": [list(path or ("value",))]}


@pytest.mark.parametrize("data", RECORDINGS)
def test_recordings_of_the_usual_containers_are_played(data: bytes) -> None:
    for tag in ("video", "audio"):
        text = f'<{tag} controls=""><source src="{address(data)}"></{tag}>'
        assert html.filtered(text, CLEAN) == (text, set())
    messages = Messages()
    assert not opens(messages, model(), data).drop
    assert not says(messages, update(), memoryview(data)).drop
    bundle = {"data": {"video/mp4": base64.encodebytes(data).decode()}}
    assert messages.filter("display_data", bundle, CLEAN).kinds == frozenset()


@pytest.mark.parametrize("data", NONE)
def test_what_begins_as_none_is_not_played(data: bytes) -> None:
    for kind in ("video/mp4", "audio/wav", "application/vnd.apple.mpegurl", "audio/mpegurl", "image/png"):
        made, kinds = html.filtered(f'<video src="{address(data, kind)}"></video>', CLEAN)
        assert made == "<video></video>"
        assert kinds == {held.RECORDING}
    for names in (
        ("VideoModel", ""),
        ("AudioModel", ""),
        ("ImageModel", "VideoView"),
        ("VideoModel", "DOMView"),
    ):
        filtered = opens(Messages(), model(*names), data)
        assert filtered.drop
        assert filtered.kinds == {held.RECORDING}
    messages = Messages()
    assert not opens(messages, model(), b"").drop
    assert says(messages, update(), data).drop
    assert says(messages, {**update("m", "state", "value"), "states": {}}, data).drop
    bundle = {"data": {"video/mp4": base64.b64encode(data).decode(), "text/plain": "x"}}
    assert messages.filter("display_data", bundle, CLEAN).kinds == {held.RECORDING}
    assert bundle["data"] == {"text/plain": "x"}


def test_bytes_of_what_plays_nothing_stay() -> None:
    messages = Messages()
    for name in ("ImageModel", "DropdownModel"):
        assert not opens(messages, model(name), b"anything", comm_id=name).drop
        assert not says(messages, update(), b"anything", comm_id=name).drop
    told = {
        "buffer_paths": [["ImageModel", "state", "value"]],
        "states": {"ImageModel": {"state": model("ImageModel")}},
    }
    assert not says(messages, told, b"anything", comm_id="control").drop
    assert not says(messages, {"method": "custom", "content": {}}, b"anything", comm_id="unknown").drop


def test_a_state_may_not_say_two_things_of_its_bytes() -> None:
    messages = Messages()
    opens(messages, model("ImageModel"), b"", comm_id="i")
    opens(messages, model(), b"")
    told = {"state": {}, "states": {}, "buffer_paths": [["m", "state", "value"]]}
    assert says(messages, told, PLAYLIST, comm_id="i").drop
    told["buffer_paths"] = [["i", "state", "value"]]
    assert says(messages, told, PLAYLIST).drop


def test_what_is_no_buffer_is_not_played_either() -> None:
    messages = Messages()
    for value in (PLAYLIST.decode(), [PLAYLIST.decode()], {"0": 35}):
        state = model(value=value)
        assert opens(messages, state).kinds == {held.RECORDING}
        assert state["value"] is None
    data = update(value=PLAYLIST.decode())
    assert says(messages, data).kinds == {held.RECORDING}
    assert data["state"]["value"] is None


def test_no_page_copies_bytes_into_what_plays() -> None:
    messages = Messages()
    opens(messages, model("ImageModel"), PLAYLIST, comm_id="i")
    opens(messages, model(), b"")
    state = model("DirectionalLinkModel", source=["IPY_MODEL_i", "value"], target=["IPY_MODEL_m", "value"])
    assert opens(messages, state, comm_id="l").kinds == {held.ACTIVE}
    assert (state["source"], state["target"]) == (["IPY_MODEL_i", "value"], None)


@pytest.mark.parametrize("source", ["x.mp4", "./x.wav", "plot.png", "files/x.mp4"])
def test_a_file_is_not_played_as_its_content_may_change(source: str) -> None:
    made, kinds = html.filtered(f'<video src="{source}" poster="plot.png"></video>', CLEAN)
    assert made == '<video poster="plot.png"></video>'
    assert kinds == {held.RECORDING}
    assert html.filtered('<img src="plot.png">', CLEAN)[1] == set()
    assert html.filtered('<img src="x.mp4">', CLEAN)[1] == {held.REMOTE}


def test_recordings_of_a_listed_host_are_played_in_a_frame_whose_rules_hold_for_what_they_name() -> None:
    text = '<video src="https://media.example.org/x.mp4"></video>'
    made, kinds = html.filtered(text, Outputs(html="frame", hosts=("media.example.org",)))
    assert "<iframe" in made
    assert "media-src data: blob: https://media.example.org" in made
    assert kinds == set()
    made, kinds = html.filtered(text, Outputs(html="sanitize", hosts=("media.example.org",)))
    assert made == "<video></video>"
    assert held.REMOTE in kinds
