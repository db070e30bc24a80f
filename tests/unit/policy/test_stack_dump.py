"""A stack dump is read strictly: the running cell's innermost line, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.policy.stack_dump import MAXIMUM_BYTES, cell_line, parse_stack

CELL = "/tmp/ipykernel_21/1234.py"
EARLIER = "/tmp/ipykernel_21/99.py"
HEADER = "Stack (most recent call first):"


def dump(*frames: tuple[str, int, str], header: str = HEADER) -> bytes:
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    return "\n".join([header, *lines, ""]).encode()


LIBRARY = ("/usr/lib/python3.11/socket.py", 233, "__init__")
BELOW = ("/usr/lib/python3/dist-packages/IPython/core/interactiveshell.py", 3600, "run_code")


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ([LIBRARY, (CELL, 5, "f"), (CELL, 8, "<module>"), BELOW], 5),
        ([LIBRARY, (EARLIER, 5, "f"), (CELL, 2, "<module>"), BELOW], 2),
        ([(CELL, 7, "g"), (EARLIER, 5, "f"), (CELL, 2, "<module>"), BELOW], 7),
        ([LIBRARY, (EARLIER, 5, "f"), ("/usr/lib/python3.11/threading.py", 982, "run")], None),
        ([LIBRARY, BELOW], None),
        ([], None),
    ],
)
def test_the_line_is_the_innermost_of_the_running_cell(
    frames: list[tuple[str, int, str]], line: int | None
) -> None:
    assert cell_line(parse_stack(dump(*frames))) == line


def test_the_last_stack_counts_and_what_follows_it_is_no_frame() -> None:
    two = (
        dump((CELL, 1, "<module>")) + dump((CELL, 2, "<module>")) + b'not a frame\n  File "x", line 9 in y\n'
    )
    assert [frame.line for frame in parse_stack(two)] == [2]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nothing",
        dump((CELL, 1, "<module>"), header="Stack:"),
        b'Stack (most recent call first):\n  File "a", line 1e9 in f\n',
        b'Stack (most recent call first):\n  File "a", line 99999999999999999999 in f\n',
        b'Stack (most recent call first):\n  File "a", line 0 in f\n',
        b'Stack (most recent call first):\n  File "a" line 1 in f\n',
    ],
)
def test_anything_else_is_no_stack(text: bytes) -> None:
    assert cell_line(parse_stack(text)) is None


@given(
    st.binary(max_size=2 * MAXIMUM_BYTES)
    | st.lists(st.sampled_from([HEADER, CELL, '  File "', '", line ', " in ", "7", "\n", "\x00"])).map(
        lambda parts: "".join(parts).encode()
    )
)
def test_hostile_bytes_raise_nothing_and_stay_bounded(text: bytes) -> None:
    frames = parse_stack(text)
    assert len(frames) <= 100
    assert all(0 < frame.line <= 1_000_000 and len(frame.function) <= 100 for frame in frames)
    cell_line(frames)
