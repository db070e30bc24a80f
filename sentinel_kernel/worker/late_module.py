"""Modules that stand in for real ones until something of theirs is used.

ipykernel imports, at its start, two things that most notebooks never use: the debugger (a fifth of all
instructions of a start) and the client side of jupyter_client (a fourteenth). Whoever uses them finds them as
ever: the stand-in executes the real module into itself at the first attribute that it does not have yet.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec

_lock = threading.RLock()
_executing: set[str] = set()
_sources: dict[str, Mapping[str, str]] = {}
_companions: dict[str, Sequence[str]] = {}


class LateModule(ModuleType):
    """A module that is executed when it is first asked for an attribute that it lacks."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # every import from a module asks whether it is a package; packages have it
            raise AttributeError(name)
        source = _sources.get(self.__name__, {}).get(name)
        if source is not None:
            return getattr(importlib.import_module(source), name)
        execute(self)
        return getattr(self, name)

    def __dir__(self) -> Iterable[str]:
        execute(self)
        return ModuleType.__dir__(self)  # its class is no longer this one


def install(
    name: str,
    *,
    known: Mapping[str, object] | None = None,
    sources: Mapping[str, str] | None = None,
    companions: Sequence[str] = (),
) -> bool:
    """Put a stand-in for the module ``name`` into sys.modules, unless it is there or can't be found.

    Asking for one of the ``known`` names, or for one that a submodule of ``sources`` defines (name -> submodule),
    does not execute the module. When it is executed its ``companions`` (submodules) are imported, too. Returns
    whether the stand-in is in place.
    """
    if name in sys.modules:
        return False
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return False
    module = importlib.util.module_from_spec(spec)
    module.__class__ = LateModule
    module.__dict__.update(known or {})
    _sources[name] = sources or {}
    _companions[name] = companions
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return True


def execute(module: ModuleType) -> None:
    """Execute the real module into its stand-in; a second call does nothing.

    Raises whatever the module raises; the next use tries again, as an import statement would.
    """
    with _lock:
        name = module.__name__
        if type(module) is not LateModule:
            return
        if name in _executing:  # by this very thread: the module is half there, as in any import of itself
            raise AttributeError(f"module {name!r} is being imported")
        loader = module.__spec__.loader if module.__spec__ is not None else None
        if loader is None:
            raise ImportError(f"module {name!r} has no loader", name=name)
        _executing.add(name)
        finder = _InstalledFirst()
        built_in = sum(known in sys.meta_path for known in (BuiltinImporter, FrozenImporter))
        sys.meta_path.insert(built_in, finder)
        try:
            loader.exec_module(module)
            for companion in _companions[name]:
                importlib.import_module(f"{name}.{companion}")
            module.__class__ = ModuleType  # type: ignore[assignment] # as importlib.util.LazyLoader does
        finally:
            sys.meta_path.remove(finder)
            _executing.discard(name)


class _InstalledFirst:
    """Finds top-level modules anywhere but in the notebook's folder, for the thread that made it.

    An import at ipykernel's start happens before the notebook's folder is on the path. A late one must not find a
    code.py or queue.py of the user's there; imports of other threads go on as ever meanwhile.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder; None where another finder should go on."""
        if path is not None or threading.get_ident() != self._thread:
            return None
        return PathFinder.find_spec(name, [entry for entry in sys.path if entry], target)
