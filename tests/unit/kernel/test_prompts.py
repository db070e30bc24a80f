"""A cell's prompt that a person may take for the host's is marked, however it is spelled."""

from __future__ import annotations

import json

import pytest

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.prompts import looks_like_ours, told_apart


@pytest.mark.parametrize(
    "prompt",
    [
        "Sentinel asks: allow socket()? ",
        "SENTINEL",
        "\u0405entinel asks",  # Cyrillic
        "S\u0435ntinel asks",
        "\u0405\u0435nt\u0456n\u0435l asks",
        "Sen\u200btinel",  # zero width
        "Sentine\u2060l",
        "S\u00ade\u034fn\ufe00tinel",
        "\rSentinel",
        "Sentine\uff4c",  # full width
        "S\u0301entinel",
        "Sent1nel",
        "5entine|",
        "\ua4e2\ua4f0\ua4e0\ua4d4\ua4f2\ua4e0\ua4f0\ua4e1",  # Lisu
        "\U0001d412\U0001d41e\U0001d427\U0001d42d\U0001d422\U0001d427\U0001d41e\U0001d425",  # mathematical
        "S e n t i n e l",
        "\x1b[1mSentinel",
        "Sentine\u0964",  # of Devanagari
        "Sentine\u05c0",  # of Hebrew
        "Sent\u00a1nel",
        "Sent\u2e3dnel",
        "\u00a7entinel",
        "Sentine\u2016",
        "Sentine\u2551",  # of a box
        "Sentine\u093e",  # a vowel of Devanagari, a stroke of its own
        "Sentine\ue000",  # whatever a font draws there
    ],
)
def test_what_looks_like_the_hosts_mark_is_marked(prompt: str) -> None:
    assert looks_like_ours(prompt)
    told = json.loads(told_apart(json.dumps({"prompt": prompt, "password": False}).encode()))
    assert told == {"prompt": f"(from the code of the cell) {prompt}", "password": False}


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Name: ",
        "Continue? [y/n] ",
        "请输入您的姓名：",
        "Введите название: ",
        "Größe in cm? ",
        "sentient",
        "════════════",
        "1" * 30,
    ],
)
def test_ordinary_prompts_pass_as_they_are(prompt: str) -> None:
    content = {"prompt": prompt, "password": True}
    assert json.loads(told_apart(json.dumps(content).encode())) == content


@pytest.mark.parametrize(
    "content", [b"x", b'{"prompt":5}', b'{"prompt":"x","password":"x"}', b'{"prompt":"\\ud800"}']
)
def test_what_is_no_prompt_is_none(content: bytes) -> None:
    with pytest.raises(ProtocolError):
        told_apart(content)
