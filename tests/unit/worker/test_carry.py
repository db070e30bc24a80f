"""Saving variables one by one, and what plain pickle leaves behind by name and reason."""

from __future__ import annotations

import io
import math
import threading
from typing import TYPE_CHECKING, Any

import pytest
from lacking import need_module

from sentinel_kernel.kernel.left_behind import REASONS, left_behind
from sentinel_kernel.worker import carry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "_by_value", lambda: None)


def save(value: object, most_bytes: int = 10_000) -> tuple[dict[str, Any], list[bytes]]:
    return carry.answer({"do": "save", "name": "v", "most_bytes": most_bytes}, [], {"v": value}, {})


def test_names_are_those_that_cells_gave() -> None:
    namespace = {"a": 1, "_b": 2, "In": [], "exit": 3, "given": 4, "changed": 5}
    reply, _ = carry.answer({"do": "list"}, [], namespace, {"given": 4, "changed": 0})
    assert reply == {"status": "ok", "names": ["a", "changed"]}


@pytest.mark.parametrize("value", [{"a": [1]}, "text", b"bytes", math, (1, 2.5), {1, 2}])
def test_what_was_saved_is_loaded(value: object) -> None:
    reply, buffers = save(value)
    namespace: dict[str, Any] = {}
    loaded, _ = carry.answer({"do": "load", "name": "w", "kind": reply["kind"]}, buffers, namespace, {})
    assert (loaded["status"], namespace["w"]) == ("ok", value)


class Silent:
    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __reduce__(self) -> str:
        raise self._error


@pytest.mark.parametrize("by_value", [False, True], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("mode", ["r", "w+", "rb", "wb", "r+b"])
def test_an_open_file_is_left_behind_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, *, by_value: bool
) -> None:
    if by_value:
        kind = need_module("cloudpickle").CloudPickler
        monkeypatch.setattr(carry, "_by_value", lambda: kind)
    path = tmp_path / "x"
    path.write_text("x")
    with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:
        for value in (file, [1, {"log": file}]):
            reply, buffers = save(value)
            assert (reply["status"], buffers) == ("error", [])
            assert reply["reason"] == "open-file"
    assert save(io.StringIO("kept"))[0]["status"] == "ok"
    if by_value:
        assert save(lambda: 3)[0]["status"] == "ok"


@pytest.mark.parametrize(
    ("error", "reason", "named"), [(MemoryError, "memory", ""), (ValueError, "raised", "ValueError")]
)
def test_an_error_is_told_by_its_type(error: type[BaseException], reason: str, named: str) -> None:
    assert save(Silent(error))[0] == {"status": "error", "reason": reason, "type": named}


class Raising:
    def __reduce__(self) -> str:
        raise ValueError("not me")


class Unsayable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Worse:
    def __reduce__(self) -> str:
        raise Unsayable


def of_a_cell() -> None:
    pass


of_a_cell.__module__ = "__main__"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (threading.Lock(), "it is or holds a _thread.lock, which can't be pickled"),
        (Raising(), "it could not be saved or loaded: ValueError"),
        (Worse(), "it could not be saved or loaded: Unsayable"),
        (of_a_cell, REASONS["of-a-cell"][0]),
        (bytes(20_000), "it is too large"),
        ([bytes(6_000), bytes(6_000)], "it is too large"),
    ],
)
def test_what_can_not_be_saved_has_a_reason(value: object, reason: str) -> None:
    reply, buffers = save(value)
    assert (reply["status"], buffers) == ("error", [])
    assert left_behind(reply).said(chinese=False) == reason


@pytest.mark.parametrize(
    "request_", [{}, {"do": "save"}, {"do": "load"}, {"do": 5}, {"do": "load", "name": "x", "kind": "y"}]
)
def test_wrong_request_is_an_answer_not_an_error(request_: dict[str, Any]) -> None:
    assert carry.answer(request_, [], {}, {})[0]["status"] == "error"
