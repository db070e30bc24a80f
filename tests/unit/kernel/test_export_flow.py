"""What an export asks of the supervisor and of the person, and where its copy is made."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Any

import pytest
from files_bench import Bench

from sentinel_kernel.kernel.files_arguments import EXPORT, FilesWanted
from sentinel_kernel.kernel.files_export import FOLDER, INLINE_BYTES, PRIVATE_BYTES, PRIVATE_FILES
from sentinel_kernel.policy import disk_reserve
from sentinel_kernel.workspace.request import EXPORT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]


def exports(data: bytes, changed_after: int = 1 << 60, held: int = 1) -> Callable[[Json], Json]:
    def answer(fields: Json) -> Json:
        if fields["do"] == "list":
            return {"ok": True, "entries": [], "count": held}
        offset = fields.get("offset", 0)
        part = data[offset : offset + EXPORT_BYTES]
        end = offset + len(part)
        return {
            "ok": True, "path": "r.bin", "layer": "workspace", "size": len(data),
            "mtime_ns": 1 if offset < changed_after else 2, "offset": offset,
            "data": base64.b64encode(part).decode(), "next": end if end < len(data) else None,
        }  # fmt: skip

    return answer


def test_a_small_file_is_within_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(b"hello"))
    bench.run(FilesWanted(EXPORT, ("out/<r>.bin",)))
    html = bench.page["text/html"]
    assert 'href="data:application/octet-stream;base64,aGVsbG8="' in html
    assert 'download="&lt;r&gt;.bin"' in html
    assert list(tmp_path.iterdir()) == []


def test_a_large_file_is_copied_where_the_server_gives_it_out_and_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = bytes(range(256)) * (INLINE_BYTES // 256 + 500)
    for bench in (first := Bench(exports(data)), second := Bench(exports(data))):
        bench.run(FilesWanted(EXPORT, ("../.hid den.bin",)))
    copies = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert copies == ["hid den (1).bin", "hid den.bin"]
    assert {(tmp_path / FOLDER / name).read_bytes() for name in copies} == {data}
    assert f'href="{FOLDER}/hid%20den%20%281%29.bin?download=1"' in second.page["text/html"]
    assert str(tmp_path / FOLDER) in first.page["text/plain"]


def test_a_copy_is_the_folders_owners_and_leaves_the_disks_reserve_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 47001, 47001)
    bench = Bench(exports(bytes(INLINE_BYTES + 1)))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    owner = tmp_path.stat().st_uid
    assert [path.stat().st_uid for path in (tmp_path / FOLDER, tmp_path / FOLDER / "r.bin")] == [owner] * 2
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_PERCENT", 100)
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_BYTES", 1 << 62)
    full = Bench(exports(bytes(INLINE_BYTES + 1)))
    full.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "No space left" in full.refused
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["r.bin"]


def test_a_large_file_that_is_not_held_is_given_out_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 1), held=0))
    bench.run(FilesWanted(EXPORT, ("out/r.bin",)))
    assert 'href="r.bin?download=1"' in bench.page["text/html"]
    assert list(tmp_path.iterdir()) == []


def test_where_nobody_can_click_the_copy_is_private_and_the_page_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(b"hello"), person="", profile="strict")
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    place = tmp_path / "data" / "sentinel-kernel" / FOLDER / "r.bin"
    assert place.read_bytes() == b"hello"
    assert str(place) in bench.page["text/plain"]
    assert "<a " not in bench.page["text/html"]


def test_a_file_that_changes_meanwhile_leaves_no_half_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 200_000), changed_after=INLINE_BYTES))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "changed while" in bench.refused
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_planted_link_in_place_of_the_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / FOLDER).symlink_to(elsewhere)
    monkeypatch.chdir(tmp_path / "work")
    bench = Bench(exports(bytes(INLINE_BYTES + 1)))
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "could not be exported" in bench.refused
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("profile", "commit", "path"),
    [
        ("strict", "", "r.csv"),
        ("datascience", "none", "r.csv"),
        ("datascience", "", "conftest.py"),
        ("datascience", "", "x.pkl"),
        ("datascience", "", "may say what to run.json"),
    ],
)
def test_a_large_copy_beside_the_notebook_asks_first_unless_it_would_be_saved_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, commit: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 1)), person="no", profile=profile, commit=commit)
    bench.run(FilesWanted(EXPORT, (path,)))
    assert f"write a new file: `{FOLDER}/{path}`" in bench.prompts[0]
    assert list(tmp_path.iterdir()) == []
    data = Bench(exports(bytes(INLINE_BYTES + 1)), person="no")
    data.run(FilesWanted(EXPORT, ("r.csv",)))
    assert data.prompts == []
    assert [copy.name for copy in (tmp_path / FOLDER).iterdir()] == ["r.csv"]


def test_where_nothing_gets_out_unasked_and_nobody_can_be_asked_nothing_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(b"hello"), person="", commit="none")
    bench.run(FilesWanted(EXPORT, ("r.bin",)))
    assert "nobody can be asked here" in bench.refused
    assert "HINT →" in bench.refused
    assert list(tmp_path.iterdir()) == []


def test_copies_that_nobody_was_asked_about_are_few_and_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    place = tmp_path / "data" / "sentinel-kernel" / FOLDER

    def run() -> Bench:
        bench = Bench(exports(b"hello"), person="")
        bench.run(FilesWanted(EXPORT, ("r.bin",)))
        return bench

    assert [run().refused for _ in range(PRIVATE_FILES)] == [""] * PRIVATE_FILES
    full = run().refused
    assert str(place) in full
    assert "HINT →" in full
    assert len(list(place.iterdir())) == PRIVATE_FILES
    for copy in place.iterdir():
        copy.unlink()
    with (place / "large").open("wb") as file:
        file.truncate(PRIVATE_BYTES - 4)
    assert run().refused == full
    os.truncate(place / "large", PRIVATE_BYTES - 5)
    assert run().refused == ""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("..hidden.bin", "hidden.bin"), (" .envrc", "envrc"), ("--checkpoint=1 x", "checkpoint=1 x"), ("~x", "x"),
        ("- .~", "file"), (f"a{'.b' * 60}", f"b{'.b' * 59}"), ("a\nb/c\x1b.bin", "c_.bin"),
    ],
)  # fmt: skip
def test_a_copys_name_is_neither_hidden_nor_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Bench(exports(bytes(INLINE_BYTES + 1)))
    bench.run(FilesWanted(EXPORT, (path,)))
    assert [copy.name for copy in (tmp_path / FOLDER).iterdir()] == [name]
