"""Scanning a notebook: findings by cell and line, as data and as text that no terminal is misled by."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.cli import main
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.scan import scan_notebook

if TYPE_CHECKING:
    from pathlib import Path


def _document(*cells: str) -> dict[str, Any]:
    listed = [{"cell_type": "markdown", "source": "# !pip install x"}]
    listed += [{"cell_type": "code", "source": cell, "execution_count": 7, "outputs": []} for cell in cells]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": listed}


def _told(found: list[dict[str, Any]]) -> list[tuple[int | None, int, str]]:
    # Of each document the first cell is words: the code cells are counted without it.
    assert all(one["notebook_cell"] in (one["cell"], (one["cell"] or 0) + 1, None) for one in found)
    return [(one["cell"], one["line"], one["cause"]) for one in found]


def test_cells_are_read_in_the_light_of_those_above() -> None:
    document = _document(
        "import requests as r", "x = 1\nr.get('https://a.org')", "%pip install no-such-thing"
    )
    found = scan_notebook(document)
    assert _told(found) == [(2, 2, "call"), (3, 1, "name_lookup")]
    assert found[0]["execution_count"] == 7
    assert found[0]["subject"] == {"kind": "host", "text": "a.org"}
    assert json.loads(json.dumps(found)) == found
    assert _told(scan_notebook(document, "datascience"))[0] == (2, 2, "name_lookup")


def test_profiles_that_the_notebook_changes_to_count() -> None:
    code = "import socket\nsocket.socket()"
    found = scan_notebook(
        _document(code, "%sentinel_profile datascience\n" + code, code, "%sentinel_profile nix")
    )
    assert _told(found) == [(1, 2, "call")]
    assert found[0]["profile"] == "strict"


def test_dangerous_code_is_told_on_wish() -> None:
    document = _document("eval(input())", "!curl https://a.org | sh")
    assert _told(scan_notebook(document, "datascience")) == [(2, 1, "name_lookup")]
    found = scan_notebook(document, "datascience", dangerous=True)
    assert _told(found) == [
        (1, 1, "code-from-data"),
        (2, 1, "downloaded-code"),
        (2, 1, "name_lookup"),
    ] or _told(found) == [(1, 1, "code-from-data"), (2, 1, "name_lookup"), (2, 1, "downloaded-code")]


def test_what_helps_is_named_and_least_comes_first() -> None:
    (found,) = scan_notebook(_document("import socket\nsocket.socket()"))
    assert [remedy["text"] for remedy in found["remedies"]] == ["%sentinel_profile datascience"]
    assert "%sentinel_profile datascience" in found["hint"]["en"]
    (found,) = scan_notebook(_document("x = 1\nopen('/srv/x.txt', 'w').write('1')"))
    (remedy,) = found["remedies"]
    assert (remedy["kind"], remedy["code"]) == ("code", "x = 1\nopen('x.txt', 'w').write('1')")
    assert "sentinel_explain" not in found["hint"]["en"]


def test_older_notebooks_and_plain_python_are_read(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "input": ["import os\n", "os.chroot('/')"], "prompt_number": 1}
    assert _told(scan_notebook({"worksheets": [{"cells": [cell]}]})) == [(1, 2, "call")]
    program = tmp_path / "program.py"
    program.write_text("import os\nos.chroot('/')\n")
    assert _told(scan_notebook(program)) == [(None, 2, "call")]


def test_code_cells_are_counted_from_1_as_people_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "import os\nos.chroot('/')"
    cells = [("code", code), ("markdown", "# words"), ("code", ""), ("raw", "x"), ("code", code)]
    document = {"nbformat": 4, "cells": [{"cell_type": kind, "source": text} for kind, text in cells]}
    assert [(one["cell"], one["notebook_cell"]) for one in scan_notebook(document)] == [(1, 1), (3, 5)]
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(document))
    program = tmp_path / "x.py"
    program.write_text(code)
    assert main(["scan", str(path)]) == 1
    shown = capsys.readouterr().out
    assert "code cell 1, line 2: os.chroot" in shown
    assert "code cell 3 (cell 5 of the notebook), line 2: os.chroot" in shown
    assert main(["scan", str(program)]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("line 2: os.chroot")
    assert "cell" not in shown.partition("\n")[0]


BAD = {"x = (\n1": 1, "a = 1\nfor for": 2, "%%time\nx = 1\nfor for": 3, "!ls\n  x\ny": 2, "x" * 300_000: 1}


@pytest.mark.parametrize("code", BAD, ids=lambda code: ascii(code)[:20])
def test_a_cell_that_can_not_be_read_is_named(
    tmp_path: Path, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(_document("x = 1", code, "%%javascript\nfor for", "%ls\n!x y z", "f?", "")))
    assert _told(scan_notebook(path)) == [(2, BAD[code], "unread")]
    assert main(["scan", str(path)]) == 1
    shown = capsys.readouterr().out
    assert f"code cell 2 (cell 3 of the notebook), line {BAD[code]}: " in shown
    assert "checked" in shown


def test_a_module_beside_the_notebook_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps(_document("import requests\nrequests.get('https://a.org')")))
    assert len(scan_notebook(path)) == 1
    (tmp_path / "requests.py").write_text("def get(url): ...")
    assert scan_notebook(path) == []


NO_NOTEBOOKS = ["", "{", "[]", '"x"', "{}", '{"cells": 3}', '{"cells": [3]}', "[" * 5000]
NO_NOTEBOOKS += ['{"cells": [{"cell_type": "code", "source": 3}]}', '{"worksheets": [3]}' * 2, "\u00e9"]


@pytest.mark.parametrize("text", NO_NOTEBOOKS, ids=lambda text: ascii(text)[:30])
def test_what_is_no_notebook_is_said(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    with pytest.raises(SentinelError):
        scan_notebook(path)
    assert main(["scan", str(path)]) == 2
    assert "sentinel-kernel: " in capsys.readouterr().err


def test_what_can_not_be_read_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("absent.ipynb", "latin.py", "folder.ipynb", "notes.txt"):
        assert main(["scan", str(tmp_path / name)]) == 2
    (tmp_path / "good.py").write_text("x = 1")
    assert main(["scan", "--profile", "nosuch", str(tmp_path / "good.py")]) == 2
    assert main(["scan", str(tmp_path / "good.py")]) == 0
    assert capsys.readouterr().out == "Nothing was found that will be refused.\n"


def test_the_terminal_sees_no_control_character(tmp_path: Path) -> None:
    evil = "import requests\nrequests.get('https://a.org/\x1b[2J\u202e\x07')  # \x1b]0;title\x07"
    path = tmp_path / "evil\x1b[31m.ipynb"
    path.write_text(json.dumps(_document(evil)))
    command = [sys.executable, "-m", "sentinel_kernel.cli", "scan", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "code cell 1 (cell 2 of the notebook), line 2: requests.get('https://a.org/\\x1b[2J\\u202e\\x07')"
        in done.stdout
    )
    assert "HINT → Download data" in done.stdout
    assert all(character.isprintable() or character == "\n" for character in done.stdout + done.stderr)
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, check=False).stdout)
    assert told[0]["line"] == 2
    path.write_text("{")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
