"""What a client names to be run: what no file and no cell can be called is refused as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.mcp.notebook_document import read_cells

if TYPE_CHECKING:
    from pathlib import Path


def _book(source: str) -> dict[str, Any]:
    return {"nbformat": 4, "cells": [{"cell_type": "code", "source": source}]}


@pytest.mark.parametrize("path", ["a\0.ipynb", "a\ud800.ipynb", "nowhere.ipynb"])
def test_what_is_no_path_is_an_error_of_the_tool(tmp_path: Path, path: str) -> None:
    with pytest.raises(SentinelError):
        read_cells(str(tmp_path), path, None)


def test_halves_of_characters_are_an_error_of_the_tool(tmp_path: Path) -> None:
    with pytest.raises(SentinelError, match="UTF-8"):
        read_cells(str(tmp_path), None, _book("x = '\ud800'"))
    assert [cell.code for cell in read_cells(str(tmp_path), None, _book("x = 'é'"))] == ["x = 'é'"]
