"""What is left of a traceback: every frame but this program's own, in their order."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from sentinel_kernel.worker import own_frames
from sentinel_kernel.worker.own_frames import hide_own

OURS = f"{own_frames._OWN}between.py"


def _raised(files: list[str]) -> Exception:
    """Return an error that came through a frame of each file, outermost first."""
    scope: dict[str, Any] = {}
    for file in reversed(files):
        inner = "below()" if "below" in scope else "1 / 0"
        below = dict(scope)
        exec(compile(f"def below_():\n    {inner}", file, "exec"), below)
        scope = {"below": below["below_"]}
    with pytest.raises(ZeroDivisionError) as raised:
        scope["below"]()
    assert raised.tb.tb_next is not None
    return raised.value.with_traceback(raised.tb.tb_next)  # without this test's own


def _files(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    "files",
    [
        ["cell", "library"],
        ["cell", OURS],
        ["cell", OURS, OURS, "library"],
        [OURS, "cell", OURS, "library", OURS],
        [OURS],
    ],
)
def test_a_traceback_shows_none_of_our_frames(files: list[str]) -> None:
    error = _raised(files)
    assert _files(error) == files
    hide_own(error)
    assert _files(error) == [file for file in files if file != OURS]


def test_those_that_an_error_was_made_from_show_none_either() -> None:
    error, cause, context = (_raised(["cell", OURS]) for _ in range(3))
    error.__cause__, cause.__context__, context.__context__ = cause, context, error
    hide_own(error)
    assert _files(error) == _files(cause) == _files(context) == ["cell"]
