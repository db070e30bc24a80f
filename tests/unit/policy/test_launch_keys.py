"""Settings that programs follow are told from results by their keys."""

from __future__ import annotations

import json
import time

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
    "not first": {"exec": [1, "touch x"]},
    "not first, negative": {"exec": [-1, "x"]},
    "not first, deep": {"exec": [[1, 2], [3, ["x"]]]},
    "not first, none": {"exec": [None, "x"]},
    "not first, empty": {"exec": [[], "x"]},
    "numbered": {"command": {"0": "x"}},
    "what is made": {"preprocessors": {"500-x": {"type": "runpy.run_path", "path_name": "lab/notes.txt"}}},
    "what is made, of a class": {"handlers": {"file": {"class_name": "logging.FileHandler"}}},
    "what is made, by a colon": {"factory": "tools:make"},
    "numbered, not first": {"command": {"0": 1, "1": "x"}},
    "numbered, deep": {"command": {"0": {"1": "x"}}},
    "numbered, lists": {"command": {"0": ["x"]}},
    "nobody knows": {"deep": [{"in": {"on_start_command": "x"}}]},
    "app": {"language": "python", "app": "python main.py"},
    "app, a path": {"app": "tools/evil"},
    "build": {"esy": {"build": [["dune", "build"]]}},
    "build, a word": {"esy": {"build": "make"}},
    "run": {"run": {"default": "npm start"}},
    "build, by system": {"build": {"linux": "make all"}},
    "main": {"main": "index.js"},
    "runtime": {"runtime": "nodejs18.x"},
    "steps": {"steps": [{"name": "ubuntu", "args": ["-c", "touch x"]}]},
    "steps, no option": {"steps": [{"name": "ubuntu", "args": ["bash", "touch x"]}]},
    "tasks": {"tasks": {"compile": "tsc --build"}},
    "phases": {"phases": {"build": {"finally": ["rm x"]}}},
    "helpers": {"spec_dir": "spec", "helpers": ["helpers/**/*.js"]},
    "a path of code": {"globals_path": "evil.js"},
    "a path of no data": {"webdriver": {"server_path": "bin/evil"}},
    "before": {"before_install": ["sudo x"]},
    "after": {"afterPack": "./evil.js"},
    "a hook's path": {"beforeBuild": "tools/evil"},
    "environment": {"Values": {"NODE_OPTIONS": "--require ./x.js"}},
    "environment, others": {"variables": {"LD_PRELOAD": "x.so", "JAVA_TOOL_OPTIONS": "x"}},
    "ansible": {"all": {"hosts": {"x": {"ansible_connection": "local"}}}},
    "whatever the key, code": {"setupFiles": ["./evil.js"]},
    "whatever the key, a pattern": {"anything": ["**/*.py"]},
    "whatever the key, backslashes": {"x": "lib\\evil.dll"},
    "too long to be looked at whole": {"run": "touch x #" + "a" * 10_000},
    "started": {"start": "node x", "onSave": "touch x"},
    "formatted": {"formatters": {"a": ["bash", "x"]}},
    "tested": {"test": "pytest -p x"},
    "loaded": {"modules": ["./evil"]},
    "edited": {"editor": "vim -c x"},
    "schema of settings": {"$schema": "https://json.schemastore.org/x.json"},
}
RESULTS = {
    "kinds": {"type": "FeatureCollection", "class": "cat", "file_type": "data.csv", "mime_type": "image/png"},
    "numbers": {"accuracy": 0.93, "confusion": [[5, 1], [0, 4]]},
    "words": {"model": "resnet50", "best_params": {"kernel": "rbf", "C": 1.0}, "date": "2026-11-30 11:22"},
    "records": [{"name": "Elbe", "length": 1094}, {"name": "Oder", "length": 840}],
    "trade": {"import": 5.1, "exports": [1, 2], "imports": [3, 4], "require": None},
    "lists": {"imports": [[[1, 2.5e-3], []], [None, True, -4]], "hooks": [], "plugins": {}, "$schema": None},
    "columns, incomplete": {"imports": {"0": None, "1": -3e5}, "require": float("nan")},
    "columns": {"import": {"0": 5.1, "1": 3}, "country": {"0": "DE", "1": "PL"}},
    "texts": {"note": 'exec: not a key, {"command": ...} neither', "url": "https://example.org/scripts"},
    "geo": {
        "type": "FeatureCollection",
        "features": [{"geometry": {"coordinates": [1, 2]}, "properties": {}}],
    },
    "weather": {"weather": [{"main": "Clouds"}], "main": {"temp": 280.1, "feels_like": 279}},
    "arguments": {
        "args": {"lr": 0.1, "model": "google/flan-t5", "data_path": "data/train.csv", "out": "runs/1"}
    },
    "runs": {"run": "baseline-3", "runs": ["a", "b"], "run_url": "https://example.org/x/y"},
    "training": {
        "steps": [{"loss": 0.1}],
        "train_runtime": 12.0,
        "best_model_checkpoint": "/out/checkpoint-10",
    },
    "benchmarks": {"tasks": ["mmlu", "glue/sst2"], "task": "text-classification"},
    "recipe": {"steps": ["Mix flour and/or rye; knead 10 min.", "Bake at 180°C/350°F - done"]},
    "paths": [
        {"image_path": "images/1.jpg", "path": "a/b", "model_path": "bert/base", "output_path": "runs/1"}
    ],
    "graph": {"shortest_path": ["A", "B"], "career_path": "engineer"},
    "apps": [{"app": "Maps", "runtime": "12.5 s", "build": "1.0.3", "phases": ["I", "II"]}],
    "before and after": {"before": "it was bad", "after": "good", "after_tax": 12, "before_dose": "n/a"},
    "plot": {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"url": "data/movies.json"},
    },
    "tests": [
        {
            "test": "t-test",
            "start_date": "2020/01/01",
            "program": "MS/PhD",
            "format": "tar.gz",
            "rule": "a -> b",
        }
    ],
    "modules": {
        "module": "CS/101",
        "server": "http://localhost:8080/",
        "save": "./data/out.csv",
        "tests": ["a", "b"],
    },
    "sites": [{"url": "https://example.pl", "page": "https://example.org/index.php"}],
    "origin": {
        "made_by": "figures.py",
        "source": "src/train.py",
        "note": "run with python train.py --lr 0.1",
    },
    "signs": {"text": "Tom & *Jerry* said !hello & *x", "k": "a -> b", "sql": "SELECT * FROM x"},
    "table": {"columns": ["run", "main", "path"], "data": [["a", "b", "./c"]]},
    "table of columns": {"run": {"0": "a"}, "path": {"0": "x/1.png"}, "app": {"0": "Maps"}},
    "notebook": {"cells": [{"source": ["import os\n", "x = 'a.js'\n"]}], "metadata": {"file_ending": ".py"}},
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
        b"{exec: 1 touch x}",
        b'{command /**/ : "id"}',
        b'{command // x\n : "id"}',
        b'{comm\\u0061nd: "id"}',
        b'{"a": "{{ lookup(1) }}"}',
        b'{"a": "{% import os %}"}',
        b"{exec: -rf x}",
        b"{1exec: 'x'}",
        b'{"a": 1} /* "exec": ',
        b'{"a" /*/ : "exec": ',
        b"{exec: 1} // don't \n {it's} \n",
        b'- &k exec\n- {*k : "id"}',
        b'{"a": &x "exec", *x : "id"}',
        b"a: &x\n  q: 1\n<<: *x\n",
        b'!!python/object/apply:os.system ["id"]',
        b"? exec\n: x\n",
        b"run: touch x\n",
        b"{'app': 'node x'}",
        b'{"m\\u0061in": "x.js"}',
        b'{"x": ".\\u002fevil\\u002ejs"}',
        b'"run":\n  "node x"',
        b'{"run": "tou\\\nch x"}',
        b'{"x": "./ev\\\nil.js"}',
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


@pytest.mark.parametrize(
    "part",
    [
        b"/* ",
        b'"a" /* ',
        b'"a" //',
        b'"a" // \n',
        b"/* */",
        b"**/",
        b'\\"',
        b"'\\",
        b"it's ",
        b"[",
        b'"exec": [[1], ',
        b'{"0": ',
        b'"exec":[[[[[1,',
        b"exec   ",
        b"execA",
        b"x",
        b"1",
        b"x-",
        b" ",
        b"\n",
        b"1, ",
    ],
)
@pytest.mark.parametrize("before", [b'{"exec": 1, ', b'{"exec": 1, "', b'{"exec": 1, /*', b'{"exec": [1, '])
def test_no_text_is_read_more_than_a_few_times(before: bytes, part: bytes) -> None:
    def seconds(size: int) -> float:
        text = before + part * (size // len(part))
        best = 1e9
        for _ in range(3):
            begun = time.process_time()
            says_what_to_run(text)
            best = min(best, time.process_time() - begun)
        return best

    # Eight times as long: sixty-four times the time where each part is looked at from each other.
    assert seconds(1 << 16) < 24 * max(seconds(1 << 13), 1e-4)


def test_what_has_no_end_is_taken_for_settings() -> None:
    assert says_what_to_run(b'{"exec": 1} ' + b"/* " * 10**6)
    assert says_what_to_run(b'{"exec": 1} "a" ' + b"/* " * 10**6)
    assert says_what_to_run(b'{"exec": 1} "' + b'\\"' * 10**6)
    assert says_what_to_run(b'{"exec": 1, "' + b"a_" * 10**6 + b'": "x"}')  # nor a key that nobody writes
    assert not says_what_to_run(b'{"exec": 1} ' + b"/* */ " * 10**5)  # positive control
