"""What is shown of a change: right for texts, notebooks, tables and pictures, and bounded for all that is not."""

from __future__ import annotations

import base64
import json
import random
import struct
import subprocess
import sys
from typing import Any

import pytest

from sentinel_kernel.workspace.difference import READ_BYTES, difference
from sentinel_kernel.workspace.line_changes import Edit, hunks, line_changes
from sentinel_kernel.workspace.picture import Picture, read_picture

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ANSWER_BYTES = 100 * 1024


def test_line_changes_lead_from_the_old_to_the_new_in_the_fewest_steps() -> None:
    made_up = random.Random(7)
    for _ in range(2000):
        old, new = ([made_up.choice("abc") for _ in range(made_up.randrange(9))] for _ in range(2))
        steps = line_changes(old, new, made_up.choice([2, 100]))
        check_steps(steps, old, new)
        fewest = line_changes(old, new)
        assert sum(kind != " " for kind, _, _ in fewest) == len(old) + len(new) - 2 * common(old, new)
        found = hunks(steps, made_up.choice([0, 1, 3]))
        changed = [step for step in steps if step[0] != " "]
        assert [step for hunk in found for step in hunk if step[0] != " "] == changed


def check_steps(steps: list[Edit], old: list[str], new: list[str]) -> None:
    assert [old[left] for kind, left, _ in steps if kind in " -"] == old
    assert [new[right] for kind, _, right in steps if kind in " +"] == new
    assert all(old[left] == new[right] for kind, left, right in steps if kind == " ")


def common(old: list[str], new: list[str]) -> int:
    """Return the length of the longest common subsequence, the slow way."""
    row = [0] * (len(new) + 1)
    for was in old:
        row = next_row(row, was, new)
    return row[-1]


def next_row(row: list[int], was: str, new: list[str]) -> list[int]:
    following = [0]
    for place, now in enumerate(new):
        following.append(row[place] + 1 if was == now else max(row[place + 1], following[place]))
    return following


def test_a_text_is_a_unified_diff_with_its_counts() -> None:
    told = difference("notes.txt", b"one\ntwo\nthree\n", b"one\n2\nthree\nfour\n")
    assert told["form"] == "text"
    assert told["lines"] == ["@@ -1,3 +1,4 @@", " one", "-two", "+2", " three", "+four"]
    assert (told["added"], told["removed"], told["cut"]) == (2, 1, False)


def test_a_new_and_a_deleted_text_are_all_plus_and_all_minus() -> None:
    assert difference("a.py", None, b"x = 1\n")["lines"][1:] == ["+x = 1"]
    assert difference("a.py", b"x = 1\n", None)["lines"][1:] == ["-x = 1"]
    assert difference("a.py", b"same", b"same") == {"form": "same", "cut": False}


def notebook(*cells: dict[str, Any], **metadata: Any) -> bytes:
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def code(identifier: str, source: str, outputs: Any = ()) -> dict[str, Any]:
    cell = {"cell_type": "code", "metadata": {}, "outputs": list(outputs), "source": source}
    return {**cell, "id": identifier} if identifier else cell


def test_a_notebook_tells_of_cells_and_counts_outputs_without_showing_them() -> None:
    noise = [{"output_type": "stream", "name": "stdout", "text": "a secret of an output"}]
    old = notebook(code("a", "x = 1"), code("b", "y = 2"), code("c", "z = 3"), code("d", "gone"))
    new = notebook(code("c", "z = 3"), code("a", "x = 1", noise), code("b", "y = 22"), code("e", "new = 1"))
    told = difference("n.ipynb", old, new)
    assert told["form"] == "notebook"
    assert told["counts"] == {"added": 1, "removed": 1, "changed": 1, "moved": 1}
    assert told["outputs"] == 1
    changed = next(cell for cell in told["cells"] if cell["what"] == "changed")
    assert changed["lines"] == ["@@ -1 +1 @@", "-y = 2", "+y = 22"]
    assert "secret" not in json.dumps(told)


def test_cells_without_ids_are_matched_by_their_text() -> None:
    old = notebook(code("", "one"), code("", "two"), code("", "three"))
    new = notebook(code("", "one"), code("", "2"), code("", "three"), code("", "four"))
    assert difference("n.ipynb", old, new)["counts"] == {"added": 1, "removed": 0, "changed": 1, "moved": 0}


def test_a_table_tells_of_columns_rows_and_fields() -> None:
    old = b"id,name,size\n1,a,10\n2,b,20\n3,c,30\n"
    new = b"id,name,weight\n1,a,9\n3,cc,9\n4,d,9\n"
    told = difference("t.csv", old, new)
    assert told["form"] == "table"
    assert told["columns"] == {"added": ["weight"], "removed": ["size"], "before": 3, "after": 3}
    assert told["rows"] == {"added": 1, "removed": 1, "changed": 1, "before": 3, "after": 3}
    assert told["examples"] == [{"row": "3", "column": "name", "before": "c", "after": "cc"}]
    assert told["went"] == [["", "id", "name", "size"], ["3", "2", "b", "20"]]
    assert told["came"] == [["", "id", "name", "weight"], ["4", "4", "d", "9"]]


def test_a_new_table_shows_its_first_rows() -> None:
    told = difference("t.tsv", None, b"a\tb\n1\t2\n")
    assert told["rows"]["after"] == 1
    assert told["head"] == [["a", "b"], ["1", "2"]]


def test_rows_without_a_key_are_matched_by_their_place() -> None:
    told = difference("t.csv", b"k,v\nx,1\nx,2\nx,3\n", b"k,v\nx,1\nx,5\nx,3\nx,4\n")
    assert told["rows"] == {"added": 1, "removed": 0, "changed": 1, "before": 3, "after": 4}
    assert (told["went"], told["came"]) == ([], [["", "k", "v"], ["5", "x", "4"]])


def test_pictures_are_told_by_their_bytes_alone_and_not_decoded() -> None:
    told = difference("anything", PNG, PNG + b"trailing")
    assert told["form"] == "image"
    assert told["before"] == {"mime": "image/png", "width": 1, "height": 1, "shown": True}
    bomb = PNG[:16] + struct.pack(">II", 60_000, 60_000) + PNG[24:]
    assert difference("a.png", None, bomb)["after"]["shown"] is False
    assert difference("a.png", None, PNG + bytes(600_000))["after"]["shown"] is False
    assert difference("a.png", None, b"<svg onload='alert(1)'/>")["form"] == "text"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GIF89a" + struct.pack("<HH", 7, 9), Picture("image/gif", 7, 9)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x09\x00\x07", Picture("image/jpeg", 7, 9)),
        (b"RIFF....WEBPVP8X" + bytes(8) + b"\x06\x00\x00\x08\x00\x00", Picture("image/webp", 7, 9)),
        (b"\xff\xd8\xff\xe0\x00\x00", None),
        (b"plain", None),
        (b"", None),
    ],
)
def test_the_size_of_a_picture_is_in_its_header(data: bytes, expected: Picture | None) -> None:
    assert read_picture(data) == expected


HOSTILE = {
    "deep.ipynb": b"[" * 100_000,
    "deep-cells.ipynb": b'{"cells":' + b'[{"outputs":' * 900 + b"1",
    "lists.ipynb": b'{"cells":[' + b"[]," * 1_300_000 + b"[]]}",
    "no-cells.ipynb": b'{"cells": [1, 2]}',
    "separators.csv": b"," * READ_BYTES,
    "rows.csv": b"a,b\n" + b"\n" * (READ_BYTES - 10),
    "quotes.csv": b'a,b\n"' + b"x" * 300_000,
    "nul.csv": b"a,b\n1,\0\n",
    "one-line.txt": b"x" * 1_000_000,
    "lines.txt": b"\n" * 1_000_000,
    "wide.txt": ("\N{GRINNING FACE}" * 200 + "\n").encode() * 1000,
    "names.csv": b",".join(b"column%d" % number for number in range(50_000)) + b"\n",
    "not-utf-8.txt": bytes(range(256)) * 100,
    "utf-16.txt": b"\xff\xfe\x00",
    "long.txt": b"y" * (READ_BYTES + 1),
}


def test_hostile_contents_are_answered_within_the_bounds_of_time_memory_and_a_packet() -> None:
    """Each on both sides, in a process as bounded as the files process."""
    program = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from test_difference import HOSTILE
from sentinel_kernel.workspace.difference import difference
resource.setrlimit(resource.RLIMIT_DATA, (200 << 20, 200 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
sizes = {}
for name, data in HOSTILE.items():
    other = data[: len(data) // 2] + b"!" + data[len(data) // 2 :]
    answers = [difference(name, None, data), difference(name, data, other)]
    sizes[name] = max(len(json.dumps(answer)) for answer in answers)
print(json.dumps(sizes))
"""
    folder = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True, timeout=300
    )
    sizes = json.loads(done.stdout)
    assert sizes.keys() == HOSTILE.keys()
    assert max(sizes.values()) < ANSWER_BYTES
