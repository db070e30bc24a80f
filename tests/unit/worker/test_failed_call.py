"""What a failed call asked for is read from values at hand; nothing of the program's runs for it."""

from __future__ import annotations

import io
import linecache
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.worker.failed_call import asked_bytes, file_written, largest_amount, opens_to_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="frames have no positions of expressions")

SPIES = """
class Proxy:
    def __getattribute__(self, name):
        ran.append(name)
        raise LookupError(name)

class Property:
    size = property(lambda self: ran.append("size"))
    __dict__ = property(lambda self: ran.append("__dict__"))
    __class__ = property(lambda self: ran.append("__class__"))
    def __getattr__(self, name):
        ran.append(name)
        return self

class File(io.FileIO):
    name = property(lambda self: ran.append("name"), lambda self, value: None)

class Plain:
    size = 512

class Error(MemoryError):
    _total_size = property(lambda self: ran.append("_total_size"))

class Text(str):
    def __iter__(self):
        ran.append("iter")
        return iter(())
    def __len__(self):
        ran.append("len")
        return 1

def fail(*arguments):
    raise Error

def call(function, *arguments):
    function(*arguments)

plain, proxy, odd, mode, count = Plain(), Proxy(), Property(), Text("w"), 1000
own = Plain()
own.size = 2000
file = File(path, "w")
real = open(path, "w")
ran.clear()
"""


def failed(line: str, folder: Path) -> tuple[BaseException, TracebackType, list[str]]:
    """Return the error of ``line``, its traceback at the line, and what of the program ran since (filled later)."""
    name = str(folder / "cell.py")
    ran: list[str] = []
    scope: dict[str, Any] = {"ran": ran, "path": str(folder / "file"), "__builtins__": __builtins__, "io": io}
    exec(compile(SPIES, "spies", "exec"), scope)
    linecache.cache[name] = (len(line), None, [line + "\n"], name)
    with pytest.raises((LookupError, TypeError, MemoryError)) as raised:
        exec(compile(line, name, "exec"), scope)
    inner = raised.value.__traceback__ and raised.value.__traceback__.tb_next
    assert inner is not None
    ran.clear()
    return raised.value, inner, ran


def close(at: TracebackType) -> None:
    """Close the files of a program."""
    for name in ("file", "real"):
        at.tb_frame.f_globals[name].close()


@pytest.mark.parametrize(
    ("line", "look", "expected"),
    [
        ("fail(bytearray(count * 8) if 0 else 0)", lambda _, at: asked_bytes(MemoryError(), at), 8000),
        ("fail(own.size)", lambda _, at: largest_amount(at), 2000),
        ("fail(plain.size)", lambda _, at: largest_amount(at), 512),
        ("fail(proxy.size)", lambda _, at: largest_amount(at), None),
        ("fail(odd.size)", lambda _, at: largest_amount(at), None),
        ("fail(0)", asked_bytes, None),
        ("proxy.write('x')", lambda _, at: file_written(at), (None, False)),
        ("odd.write('x')('x')", lambda _, at: file_written(at), (None, False)),
        ("file.write('x')", lambda _, at: file_written(at), (None, False)),
        ("call(fail)", lambda _, at: opens_to_write(at), False),
    ],
)
def test_nothing_of_the_program_runs(
    tmp_path: Path, line: str, look: Callable[[BaseException, TracebackType], object], expected: object
) -> None:
    error, at, ran = failed(line, tmp_path)
    assert look(error, at) == expected
    assert not ran
    close(at)


def test_the_file_of_pythons_own_objects_is_told(tmp_path: Path) -> None:
    _, at, ran = failed("real.write(1)", tmp_path)
    assert file_written(at) == (str(tmp_path / "file"), False)
    assert not ran
    close(at)
