"""Saving a cell's variables one by one as bytes, and taking them up again in another worker; inside the sandbox only.

The host passes the bytes on and never looks into them; why one stays behind is one of the words that it knows
(kernel/left_behind.py). Each variable is pickled by itself, so that one that can't be does not cost the others; what
two variables share is therefore two things afterwards.
"""

from __future__ import annotations

import copyreg
import importlib
import importlib.util
import io
import pickle
import re
import types
from collections import ChainMap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

_OF_IPYTHON = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open", "display"})
_MOST_NAMES = 2000
_NAME_CHARACTERS = 200
_FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.FileIO)
_MODULE, _PICKLE = "module", "pickle"
_NOT_PICKLED = re.compile(r"cannot pickle '([\w.]+)' object")
"""What copyreg and object.__reduce_ex__ say of a type that has no way to be saved (CPython 3.10 to 3.14)."""


class _TooLargeError(Exception):
    """More bytes than may be carried."""


class _OpenFileError(Exception):
    """What is saved is an open file, or holds one."""


class _Bounded(io.BytesIO):
    """A file that takes so many bytes and no more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever pickle writes
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise _TooLargeError
        return super().write(data)


def answer(
    content: Mapping[str, Any], buffers: list[Any], namespace: dict[str, Any], hidden: Mapping[str, Any]
) -> tuple[dict[str, Any], list[bytes]]:
    """Answer one request of the host: ``do`` is list, save or load. Never raises, save for what must end the worker."""
    try:
        return _do(content, buffers, namespace, hidden)
    except _TooLargeError:
        return _left("too-large"), []
    except _OpenFileError:
        return _left("open-file"), []
    except KeyboardInterrupt:
        return _left("late"), []
    except MemoryError:
        return _left("memory"), []
    except BaseException as error:  # noqa: BLE001 - a variable's own code runs here, and may raise what it likes
        found = _NOT_PICKLED.fullmatch(_text(error))
        return _left("not-pickled", found[1]) if found else _left("raised", type(error).__name__), []


def _do(
    content: Mapping[str, Any], buffers: list[Any], namespace: dict[str, Any], hidden: Mapping[str, Any]
) -> tuple[dict[str, Any], list[bytes]]:
    match content.get("do"):
        case "list":
            return {"status": "ok", "names": _names(namespace, hidden)}, []
        case "save":
            return _save(namespace[content["name"]], int(content["most_bytes"]))
        case "load":
            _load(str(content["name"]), str(content["kind"]), buffers, namespace)
            return {"status": "ok"}, []
        case _:
            return _left("unknown"), []


def _left(reason: str, type_name: str = "") -> dict[str, Any]:
    return {"status": "error", "reason": reason, "type": type_name}


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - its __str__ is the variable's, too
        return ""


def _names(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[str]:
    """Return the names that cells have given: not IPython's own, and none that begins with an underscore."""
    missing = object()
    found = [
        name
        for name, value in namespace.items()
        if len(name) <= _NAME_CHARACTERS
        and not name.startswith("_")
        and name not in _OF_IPYTHON
        and hidden.get(name, missing) is not value
    ]
    return found[:_MOST_NAMES]


def _save(value: object, most_bytes: int) -> tuple[dict[str, Any], list[bytes]]:
    if isinstance(value, types.ModuleType):
        if value.__name__ == "__main__" or importlib.util.find_spec(value.__name__) is None:
            return _left("module"), []
        return {"status": "ok", "kind": _MODULE}, [value.__name__.encode()]
    by_value = _by_value()
    pickler = _without_files(by_value or pickle.Pickler)
    if by_value is None and _is_of_a_cell(value):
        return _left("of-a-cell"), []
    file = _Bounded(most_bytes)
    pickler(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return {"status": "ok", "kind": _PICKLE}, [file.getvalue()]


def _by_value() -> type[pickle.Pickler] | None:
    """Return cloudpickle's pickler, which carries what cells have defined; None where the environment has none."""
    if importlib.util.find_spec("cloudpickle") is None:
        return None
    kind: type[pickle.Pickler] = importlib.import_module("cloudpickle").CloudPickler
    return kind


def _without_files(kind: type[pickle.Pickler]) -> type[pickle.Pickler]:
    """Return the pickler, which refuses open files: cloudpickle makes of one a StringIO that reaches no disk."""
    others: Any = copyreg.dispatch_table if kind is pickle.Pickler else kind.dispatch_table
    table = ChainMap(dict.fromkeys(_FILES, _refuse), others)
    return type("_Pickler", (kind,), {"dispatch_table": table})


def _refuse(_: object) -> Never:
    raise _OpenFileError


def _is_of_a_cell(value: object) -> bool:
    """Tell whether plain pickle would only note a name that the next worker does not have."""
    kind = value if isinstance(value, type | types.FunctionType) else type(value)
    return getattr(kind, "__module__", None) == "__main__"


def _load(name: str, kind: str, buffers: list[Any], namespace: dict[str, Any]) -> None:
    data = bytes(buffers[0])
    if kind == _MODULE:
        namespace[name] = importlib.import_module(data.decode())
        return
    value = pickle.loads(data)  # noqa: S301 - the person's own variables, in the sandbox that they are for
    if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
        value = _at_home(value, namespace)
    namespace[name] = value


def _at_home(function: types.FunctionType, namespace: dict[str, Any]) -> types.FunctionType:
    """Return a cell's function over the notebook's variables: it comes with a copy of those that it uses."""
    for used, value in function.__globals__.items():
        namespace.setdefault(used, value)
    moved = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    moved.__kwdefaults__ = function.__kwdefaults__
    moved.__annotations__ = function.__annotations__
    moved.__doc__, moved.__qualname__, moved.__module__ = function.__doc__, function.__qualname__, "__main__"
    moved.__dict__.update(function.__dict__)
    return moved
