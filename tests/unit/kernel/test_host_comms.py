"""Names of the host's in what a worker sends: found however JSON writes them, and long texts are not read for it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.host_comms import forged, is_target
from sentinel_kernel.kernel.widgets import HostWidgets, mentions
from sentinel_kernel.kernel.wire import encode

ID = "0123456789abcdef0123456789abcdef-_zZ"
VIEW = "application/vnd.jupyter.widget-view+json"
BEYOND = "\x00\t\x1b\x7fé中\U0001f600\ud800"
"""Of what encoders write by its number, some of each kind."""


def numbered(text: str) -> str:
    """Return the text as JSON may write it, every letter by its number."""
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


@pytest.fixture
def host() -> Any:
    widgets = HostWidgets(SimpleNamespace())  # type: ignore[arg-type]
    widgets.ids[ID] = None
    return SimpleNamespace(widgets=widgets)


@pytest.mark.parametrize("place", range(len(ID)))
def test_a_name_is_found_whichever_of_its_letters_is_written_by_its_number(place: int) -> None:
    number = numbered(ID[place])
    for written in (number, number.upper().replace("U", "u")):
        hidden = ID[:place] + written + ID[place + 1 :]
        assert mentions(f'{{"x": "{hidden}"}}'.encode(), {ID})


@pytest.mark.parametrize("content", [encode({"x": BEYOND}), json.dumps({"x": BEYOND[:-1]}).encode()])
def test_what_encoders_write_by_its_number_hides_no_name_and_is_not_read_for_one(content: bytes) -> None:
    assert b"\\u" in content
    assert not mentions(content[:-1], {ID})  # it could not be read
    assert not is_target(content[:-1])
    hides = content[:-1] + b"\\u0061"  # positive control
    with pytest.raises(ProtocolError):
        mentions(hides, {ID})
    with pytest.raises(ProtocolError):
        is_target(hides)


def test_a_name_in_a_text_is_no_view_of_it_whatever_stands_beside_it(host: Any) -> None:
    text = {"data": {"text/plain": f"é {ID}"}, "metadata": {}}
    view = {"data": {VIEW: {"model_id": ID}, "text/plain": "é"}, "metadata": {}}
    for ascii_alone in (True, False):
        assert not forged(host, "display_data", json.dumps(text, ensure_ascii=ascii_alone).encode())
        assert forged(host, "display_data", json.dumps(view, ensure_ascii=ascii_alone).encode())
    hidden = json.dumps(view).replace("widget-view", numbered("w") + "idget-view")
    assert forged(host, "display_data", hidden.encode())
