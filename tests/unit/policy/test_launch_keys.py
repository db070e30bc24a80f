"""Settings that programs follow are told from results by their keys."""

from __future__ import annotations

import json

import pytest

from sentinel_kernel.policy.launch_keys import may_say, says_what_to_run

SETTINGS = {
    "nodemon": {"exec": "touch /tmp/x"},
    "nodemon, nested": {"execMap": {"py": "evil"}},
    "devbox": {"packages": ["python@3.12"], "shell": {"init_hook": ["echo x"]}},
    "dub": {"name": "x", "preBuildCommands": ["touch x"]},
    "dub, fetched": {"dependencies": {"evil": "*"}},
    "cspell": {"import": ["./evil.js"], "words": []},
    "rescript": {"sources": ["src"], "ppx-flags": ["./evil"]},
    "dprint": {"plugins": ["https://evil.example/x.wasm"]},
    "npm": {"scripts": {"postinstall": "x"}},
    "nobody knows": {"deep": [{"in": {"on_start_command": "x"}}]},
}
RESULTS = {
    "numbers": {"accuracy": 0.93, "confusion": [[5, 1], [0, 4]]},
    "words": {"model": "resnet50", "best_params": {"kernel": "rbf", "C": 1.0}, "date": "2026-11-30 11:22"},
    "records": [{"name": "Elbe", "length": 1094}, {"name": "Oder", "length": 840}],
    "trade": {"import": 5.1, "exports": [1, 2], "imports": [3, 4], "require": None},
    "columns": {"import": {"0": 5.1, "1": 3}, "country": {"0": "DE", "1": "PL"}},
    "texts": {"note": 'exec: not a key, {"command": ...} neither', "url": "https://example.org/scripts"},
    "geo": {
        "type": "FeatureCollection",
        "features": [{"geometry": {"coordinates": [1, 2]}, "properties": {}}],
    },
    "report": {"report": "fine", "reported": 3, "commented": "x", "description": "y"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_say_what_to_run(name: str) -> None:
    document = SETTINGS[name]
    assert says_what_to_run(json.dumps(document).encode())
    padded = {"a": list(range(1000)), "text": "x" * 100_000, **document}
    assert says_what_to_run(json.dumps(padded, indent=2).encode())


@pytest.mark.parametrize("name", RESULTS)
def test_results_do_not(name: str) -> None:
    assert not says_what_to_run(json.dumps(RESULTS[name]).encode())
    assert not says_what_to_run(json.dumps(RESULTS[name], indent=1).encode())


@pytest.mark.parametrize(
    "text",
    [
        b'{"\\u0065xec": "x"}',
        b"{exec: 'x'}",
        b"{'exec': 'x'}",
        b'{ // a comment\n "a": 1, "exec" /* x */ : "x", exec: "x" }',
        b'{"exec" \n:\n "x"}',
        b'{"exec": /* 1 */ "x"}',
        b'{"EXEC": "x"}',
        b'{"exec" /* x */ : "x"}',
        '{"exec": "x"}'.encode("utf-16"),
        b"exec: x\n",
    ],
)
def test_however_lenient_readers_take_it(text: bytes) -> None:
    assert says_what_to_run(text)


def test_lines_of_records_and_empty_files_are_data() -> None:
    assert not says_what_to_run(b"")
    assert not says_what_to_run(b'{"a": 1}\n{"a": 2}\n')
    assert not says_what_to_run(b"not json at all")
    assert not may_say(b'{"a": [1, 2, 3]}')


def test_long_texts_are_read_in_time() -> None:
    records = json.dumps([{"name": "a package", "value": number} for number in range(200_000)]).encode()
    assert not says_what_to_run(records)
    assert says_what_to_run(records[:-1] + b', {"exec": "x"}]')
