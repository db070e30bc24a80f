"""What is saved of a sandbox never takes more of the host's disk than the sandbox did, nor the last of it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from sentinel_kernel.policy import disk_reserve
from sentinel_kernel.workspace import saving as module
from sentinel_kernel.workspace.saving import Salvaged, Source, new_name, save
from sentinel_kernel.workspace.store import StoreSettings, open_words

MIB = 1 << 20


def saved(layer: Path, store: Path) -> Salvaged:
    descriptor = os.open(layer, os.O_RDONLY | os.O_DIRECTORY)
    try:
        source = Source("workspace", "/work", descriptor)
        return save([source], StoreSettings(str(store)), "kernel", new_name())
    finally:
        os.close(descriptor)


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    folder = tmp_path / "layer"
    (folder / "deep").mkdir(parents=True)
    return folder


def test_a_file_with_many_names_is_stored_once(layer: Path, tmp_path: Path) -> None:
    (layer / "one").write_bytes(b"x" * MIB)
    for index in range(40):
        os.link(layer / "one", layer / "deep" / f"{index}")
    result = saved(layer, tmp_path / "store")
    copies = [path for path in (Path(result.path) / "files").rglob("*") if path.is_file()]
    assert (len(copies), result.files, result.bytes, result.left_out) == (41, 41, MIB, 0)
    assert len({path.stat().st_ino for path in copies}) == 1
    assert all(path.read_bytes() == b"x" * MIB for path in copies)


def test_nothing_is_saved_beyond_the_size_of_the_layer(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (layer / name).write_bytes(os.urandom(MIB))
    budget = module.Budget
    monkeypatch.setattr(module, "Budget", lambda _limit, *where: budget(2 * MIB, *where))
    result = saved(layer, tmp_path / "store")
    assert sorted(os.listdir(Path(result.path) / "files")) == ["a", "b"]
    assert (result.left_out, result.skipped) == (1, ["'c': the sandbox's disk limit is reached"])
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    assert (manifest["left_out"], manifest["files"]) == (1, 2)
    assert open_words(str(tmp_path / "store"), "kernel") == [(result.path, 2, 1)]


def test_a_share_of_the_stores_file_system_stays_free(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (layer / "a").write_bytes(b"x")
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_PERCENT", 100)
    monkeypatch.setattr(disk_reserve, "LEFT_FREE_BYTES", 1 << 62)
    result = saved(layer, tmp_path / "store")
    assert (result.files, result.skipped) == (0, ["'a': too little space would be left for others"])


def test_of_a_link_alone_the_manifest_says_why_it_is_not_there(layer: Path, tmp_path: Path) -> None:
    (layer / "link").symlink_to("deep")
    result = saved(layer, tmp_path / "store")
    assert (result.files, result.left_out) == (0, 1)
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    assert manifest["skipped"] == result.skipped
    assert "link" in result.skipped[0]
    assert open_words(str(tmp_path / "store"), "kernel") == [(result.path, 0, 1)]


def test_where_not_even_that_can_be_written_no_place_is_named(layer: Path, tmp_path: Path) -> None:
    (layer / "link").symlink_to("deep")
    (tmp_path / "store").write_text("a file")
    result = saved(layer, tmp_path / "store")
    assert (result.path, result.files) == ("", 0)
    assert result.left_out


def test_holes_count_where_the_store_would_fill_them(
    layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (layer / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    assert saved(layer, tmp_path / "store").bytes == 0  # positive control: holes stay holes
    monkeypatch.setattr(module, "_keeps_holes", lambda _folder: False)
    assert saved(layer, tmp_path / "other").left_out == 1


def test_the_list_of_deleted_files_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAXIMUM_DELETED_BYTES", 10)
    budget = module.Budget(0, "")
    assert [budget.lists("x" * 6) for _ in range(2)] == [True, False]


def test_what_the_host_has_not_either_was_deleted_by_nobody(layer: Path, tmp_path: Path) -> None:
    host, upper = tmp_path / "host", os.open(layer, os.O_RDONLY | os.O_DIRECTORY)
    host.mkdir()
    lower = os.open(host, os.O_RDONLY | os.O_DIRECTORY)
    source, store = Source("workspace", "/work", upper, lower), StoreSettings(str(tmp_path / "store"))
    try:
        for path in ("gone", "deep/gone"):
            os.mknod(layer / path, stat.S_IFCHR, 0)  # a whiteout
        result = save([source], store, "kernel", new_name())
        assert (result.path, result.deleted, result.left_out) == ("", [], 0)
        (host / "gone").touch()
        result = save([source], store, "kernel", new_name())
        assert (result.path != "", result.deleted) == (True, ["gone"])
    finally:
        os.close(upper)
        os.close(lower)


def test_junk_takes_no_place_of_results(layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAXIMUM_FILES", 40)
    monkeypatch.setattr(module, "_SHARE_FILES", 15)
    for junk, content in ((".a", ""), (".b", "x")):
        (layer / junk).mkdir()
        for number in range(60):
            (layer / junk / str(number)).write_text(content)
    (layer / "result.csv").write_text("hours of work")
    (layer / "deep" / "more.csv").write_text("as well")
    result = saved(layer, tmp_path / "store")
    files = Path(result.path) / "files"
    assert (files / "result.csv").read_text() == "hours of work"
    assert (files / "deep" / "more.csv").exists()
    assert (result.files, result.left_out) == (40, 82)
