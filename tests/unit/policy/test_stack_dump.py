"""A stack dump is read strictly: the running cell's innermost line, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.policy.cell_lines import CellNames, file_name
from sentinel_kernel.policy.stack_dump import (
    MAXIMUM_BYTES,
    Frame,
    Place,
    is_whole,
    is_whole_of_all,
    only_place,
    parse_crash,
    parse_stack,
    parse_stacks,
    place_of,
    readable_file,
)

CODE = "\n".join(f"line_{number} = {number}" for number in range(1, 11))
EARLIER_CODE = "\n".join(f"earlier_{number} = {number}" for number in range(1, 11))
CELL = f"/tmp/ipykernel_21/{file_name(CODE)}.py"
EARLIER = f"/tmp/ipykernel_21/{file_name(EARLIER_CODE)}.py"
EARLIEST = f"/tmp/ipykernel_21/{file_name('x = 1')}.py"
UNKNOWN = "/tmp/ipykernel_21/1.py"
HEADER = "Stack (most recent call first):"
LIBRARY = ("/usr/lib/python3.11/socket.py", 233, "__init__")
BELOW = ("/usr/lib/python3/dist-packages/IPython/core/interactiveshell.py", 3600, "run_code")
THREAD = ("/usr/lib/python3.11/threading.py", 1002, "_bootstrap")
BOTTOM = ("<string>", 1, "<module>")
SOCKET = Frame("socket.py", 233, "__init__")


def dump(*frames: tuple[str, int, str], header: str = HEADER) -> bytes:
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    return "\n".join([header, *lines, ""]).encode()


@pytest.fixture
def names() -> CellNames:
    names = CellNames()
    names.begin("earliest", "x = 1")
    names.end("earliest")
    names.begin("earlier", EARLIER_CODE)
    names.end("earlier")
    names.begin("running", CODE)
    return names


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([LIBRARY, (CELL, 5, "f"), (CELL, 8, "<module>"), BELOW], Place("", 5, "f", SOCKET)),
        ([(CELL, 8, "<module>"), BELOW], Place("", 8, "<module>")),
        ([LIBRARY, (EARLIER, 5, "f"), (CELL, 2, "<module>"), BELOW], Place("", 2, "<module>", SOCKET)),
        ([(CELL, 7, "g"), (EARLIER, 5, "f"), (CELL, 2, "<module>"), BELOW], Place("", 7, "g")),
        ([LIBRARY, (CELL, 7, "g"), THREAD], Place("", 7, "g", SOCKET)),
        ([LIBRARY, (EARLIER, 5, "f"), THREAD], Place("earlier", 5, "f", SOCKET)),
        ([LIBRARY, (EARLIEST, 1, "h"), (EARLIER, 5, "f"), THREAD], Place("earlier", 5, "f", SOCKET)),
        ([LIBRARY, (UNKNOWN, 5, "f"), THREAD], Place(library=SOCKET)),
        ([LIBRARY, (UNKNOWN, 5, "f"), (UNKNOWN, 9, "<module>"), BELOW], Place("", 5, "f", SOCKET)),
        ([LIBRARY, (EARLIER, 5, "f"), (UNKNOWN, 9, "<module>"), BELOW], Place("", 9, "<module>", SOCKET)),
        ([(UNKNOWN, 3, "<module>"), BELOW, (CELL, 4, "<module>"), BELOW], Place("", 4, "<module>")),
        ([("<string>", 1, "<module>"), (CELL, 4, "<module>"), BELOW], Place("", 4, "<module>")),
        ([LIBRARY, (CELL, 11, "f"), THREAD], Place(library=SOCKET)),
        ([LIBRARY, BELOW], Place(library=SOCKET)),
        ([], None),
    ],
)
def test_the_line_is_the_innermost_of_the_running_cell(
    names: CellNames, frames: list[tuple[str, int, str]], place: Place | None
) -> None:
    assert place_of(parse_stack(dump(*frames)), names) == place


def test_of_half_a_stack_only_the_running_cells_lines_count(names: CellNames) -> None:
    half = parse_stack(dump(LIBRARY, (EARLIER, 5, "f")))
    assert place_of(half, names, whole=False) == Place(library=SOCKET)
    half = parse_stack(dump(LIBRARY, (EARLIER, 5, "f"), (CELL, 2, "g")))
    assert place_of(half, names, whole=False) == Place("", 2, "g", SOCKET)


def test_what_a_cell_magic_runs_is_numbered_from_the_line_below_it() -> None:
    names = CellNames()
    names.begin("timed", "\n%%time\nx = 1\n\nsocket.socket()\n")
    stack = dump(("<timed exec>", 3, "<module>"), BELOW, ("/tmp/ipykernel_2/5.py", 1, "<module>"))
    assert place_of(parse_stack(stack), names) == Place("", 5, "<module>")


def test_of_all_threads_only_one_may_run_a_cell(names: CellNames) -> None:
    one = dump(LIBRARY, (CELL, 5, "f"), header="Thread 0x00007f11 (most recent call first):")
    other = dump(BELOW, header="Current thread 0x00007f12 (most recent call first):")
    assert only_place(parse_stacks(one + b"\n" + other), names) == Place("", 5, "f", SOCKET)
    assert only_place(parse_stacks(one + b"\n" + one), names) is None
    assert only_place(parse_stacks(other), names) is None


def test_the_last_stack_counts_and_what_follows_it_is_no_frame() -> None:
    two = (
        dump((CELL, 1, "<module>")) + dump((CELL, 2, "<module>")) + b'not a frame\n  File "x", line 9 in y\n'
    )
    assert [frame.line for frame in parse_stack(two)] == [2]
    c_stack = b"Current thread's C stack trace (most recent call first):\n  Binary file ...\n"
    assert [frame.line for frame in parse_stack(dump((CELL, 4, "f")) + c_stack)] == [4]


def test_a_crash_is_read_from_its_last_words() -> None:
    words = b"Fatal Python error: Segmentation fault\n\n"
    extensions = b"\nExtension modules: zmq.backend, numpy.core (total: 2)\n"
    text = dump((CELL, 1, "f")) + words + dump((CELL, 9, "g")) + extensions
    assert [frame.line for frame in parse_crash(text)] == [9]
    assert parse_crash(dump((CELL, 1, "f"))) == ()
    assert parse_crash(words) == ()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (dump(LIBRARY, THREAD), True),
        (dump(LIBRARY, BOTTOM), True),
        (dump(LIBRARY) + b"  ...\n", True),
        (dump(LIBRARY, THREAD)[:-1], False),
        (dump(LIBRARY), False),
        (dump(("<string>", 2, "<module>")), False),
        (b"", False),
    ],
)
def test_a_stack_is_whole_once_its_bottom_is_there(text: bytes, *, whole: bool) -> None:
    assert is_whole(text) is whole


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (dump(LIBRARY, THREAD) + dump(LIBRARY, BOTTOM), True),
        (dump(LIBRARY, THREAD), False),
        (dump(LIBRARY, THREAD) + dump(LIBRARY), False),
        (dump(LIBRARY) + b"  ...\n", False),
        (dump(LIBRARY, BOTTOM)[:-1], False),
        (b"", False),
    ],
)
def test_the_stacks_of_all_threads_are_whole_once_the_main_threads_is(text: bytes, *, whole: bool) -> None:
    assert is_whole_of_all(text) is whole


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("/home/a/.venv/lib/python3.11/site-packages/requests/adapters.py", "requests/adapters.py"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"),
        ("/usr/lib/python3.11/asyncio/base_events.py", "asyncio/base_events.py"),
        ("/usr/lib64/python3.13t/socket.py", "socket.py"),
        ("/home/a/work/package/module.py", "package/module.py"),
        ("module.py", "module.py"),
        ("/" + "x" * 500, "x" * 200),
    ],
)
def test_a_library_is_named_as_people_do(file: str, shown: str) -> None:
    assert readable_file(file) == shown


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
    assert parse_stack(text) == ()


@given(
    st.binary(max_size=2 * MAXIMUM_BYTES)
    | st.lists(
        st.sampled_from(
            [HEADER, CELL, EARLIER, '  File "', '", line ', " in ", "7", "\n", "\x00", "Fatal Python error: "]
        )
    ).map(lambda parts: "".join(parts).encode())
)
def test_hostile_bytes_raise_nothing_and_stay_bounded(text: bytes) -> None:
    names = CellNames()
    names.begin("running", CODE)
    is_whole(text)
    is_whole_of_all(text)
    only_place(parse_stacks(text), names)
    for frames in (parse_stack(text), parse_crash(text)):
        assert len(frames) <= 100
        assert all(0 < frame.line <= 1_000_000 and len(frame.function) <= 100 for frame in frames)
        place = place_of(frames, names)
        if place is not None and place.library is not None:
            assert len(place.library.file) <= 200
