"""Which changes a person's paths and globs mean."""

from __future__ import annotations

import pytest

from sentinel_kernel.workspace.matching import Matching

FOLDERS = {"workspace": "/w", "data0": "/w/data"}


@pytest.mark.parametrize(
    ("pattern", "layer", "path", "meant"),
    [
        ("a", "workspace", "a/b", True),
        ("*.csv", "workspace", "x.csv", True),
        ("*.csv", "workspace", "d/x.csv", False),
        ("**/*.csv", "workspace", "d/e/x.csv", True),
        ("**/*.csv", "workspace", "x.csv", True),
        ("**/a/**", "workspace", "x/a/y", True),
        ("d/", "workspace", "d/e", True),
        (".", "workspace", "z", True),
        ("/w", "workspace", "q/r", True),
        ("/w/data/x", "data0", "x", True),
        ("/w/data/x", "workspace", "data/x", False),
        ("r [d].txt", "workspace", "r [d].txt", True),
        ("b", "workspace", "a/b", False),
        ("/elsewhere", "workspace", "elsewhere", False),
        ("../x", "workspace", "x", False),
        ("**/" * 40 + "x", "workspace", "/".join("a" * 60), False),
    ],
)
def test_what_a_pattern_means(pattern: str, layer: str, path: str, meant: bool) -> None:
    assert Matching([pattern], FOLDERS)(layer, path) is meant


def test_nothing_named_is_everything() -> None:
    assert Matching([], FOLDERS)("data0", "a/b")
