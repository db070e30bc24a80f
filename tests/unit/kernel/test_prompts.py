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
        "Sent\x1b[31minel",  # another colour from here on
        "Sent\u115finel",  # fillers of Hangul, which show nothing
        "Sent\u3164inel",
        "Sent\uffa0inel",
        "Sent\u2800inel",  # the empty cell of Braille
        "Sent\u2065inel",  # not assigned, and ignored by renderers
        "Sent\U000e0080inel",
        "Sent\u00b7inel",  # dots and strokes between the letters
        "S\u02b9e\u30fbn\u2500tinel",
        "Sent\u0640inel",
        "Sentine\u0142",  # letters with strokes and hooks
        "Sen\u0167inel",
        "Se\u019eti\u0272el",
        "S\u025bntin\u0247\u019a",
        "\u023fentinel",
        "Sent\u2f01nel",  # strokes of the Far East
        "Sentine\u3163",
    ],
)
def test_what_looks_like_the_hosts_mark_is_marked(prompt: str) -> None:
    assert looks_like_ours(prompt)
    told = json.loads(told_apart(json.dumps({"prompt": prompt, "password": False}).encode()))
    assert told == {"prompt": f"(from the code of the cell) {prompt}", "password": False}


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ("\rSentinel asks", "(from the code of the cell) Sentinel asks"),
        ("Sentx\x08inel", "Sentxinel"),
        ("Sent\r\ninel", "(from the code of the cell) Sent\r\ninel"),
        (
            "x\n\n\nSentinel asks\nSentinel",
            (
                "(from the code of the cell) x\n\n\n(from the code of the cell) Sentinel asks\n"
                "(from the code of the cell) Sentinel"
            ),
        ),
        (
            " " * 61 + "Sentinel",
            f"(from the code of the cell) {' ' * 61}(from the code of the cell) Sentinel",
        ),
        ("A " * 30 + "Sentinel", f"(from the code of the cell) {'A ' * 30}Sentinel"),
    ],
)
def test_words_in_front_are_neither_written_over_nor_out_of_sight(prompt: str, told: str) -> None:
    answer = told_apart(json.dumps({"prompt": prompt, "password": False}).encode())
    assert json.loads(answer)["prompt"] == told


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "Name: ",
        "Continue? [y/n] ",
        "请输入您的姓名：",
        "Введите название: ",
        "Größe in cm? ",
        "Łódź, śnieg, đến: ",
        "데이터 입력: ",
        "データの名前・種類ー",
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
