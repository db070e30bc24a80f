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
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec

# One for each: a thread that executes one stand-in may wait for an import of another thread, which may need a second
# stand-in on its way. The wait ends for the case that it needs the first.
_LOCK_SECONDS = 30
_locks: dict[str, threading.RLock] = {}
_waiting: set[str] = set()
_executing: set[str] = set()
_sources: dict[str, Mapping[str, str]] = {}
_companions: dict[str, Collection[str]] = {}


class LateModule(ModuleType):
    """A module that is executed when it is first asked for an attribute that it lacks."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # every import from a module asks whether it is a package; packages have it
            raise AttributeError(name)
        if name in _companions[self.__name__]:
            return importlib.import_module(f"{self.__name__}.{name}")
        source = _sources[self.__name__].get(name)
        if source is not None:
            return getattr(importlib.import_module(source), name)
        if execute(self):
            return getattr(self, name)
        if name in vars(self):  # another thread was faster
            return vars(self)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> Iterable[str]:
        execute(self)
        return {*ModuleType.__dir__(self), *_companions[self.__name__]}


def install(
    name: str,
    *,
    known: Mapping[str, object] | None = None,
    sources: Mapping[str, str] | None = None,
    companions: Collection[str] = (),
) -> bool:
    """Put a stand-in for the module ``name`` into sys.modules, unless it is there or can't be found.

    Asking for one of the ``known`` names, for one that a submodule of ``sources`` defines (name -> submodule), or for
    one of the ``companions`` (submodules that are imported when asked for) does not execute the module. Returns
    whether the stand-in is in place.
    """
    if name in sys.modules:
        return False
    spec = _find(name)
    if spec is None or spec.loader is None:
        return False
    module = importlib.util.module_from_spec(spec)
    module.__class__ = LateModule
    module.__dict__.update(known or {})
    _sources[name] = sources or {}
    _companions[name] = companions
    _locks[name] = threading.RLock()
    _waiting.add(name)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return True


def _find(name: str) -> ModuleSpec | None:
    """Return where ``name`` is, without importing the package that it is in."""
    parent = name.rpartition(".")[0]
    if not parent:
        return importlib.util.find_spec(name)
    package = sys.modules.get(parent)
    path = getattr(package, "__path__", None)
    if path is None:
        spec = _find(parent)
        path = spec.submodule_search_locations if spec is not None else None
    return PathFinder.find_spec(name, list(path)) if path is not None else None


def forget(name: str, *known: str) -> None:
    """Take names out of a stand-in again that only an importer of ours was to get."""
    if name in _waiting:
        for one in known:
            vars(sys.modules[name]).pop(one, None)


def execute(module: ModuleType) -> bool:
    """Execute the real module into its stand-in, once; return False where there is nothing new in it.

    Raises whatever the module raises; the next use tries again, as an import statement would.
    """
    name = module.__name__
    if name not in _waiting or not _locks[name].acquire(timeout=_LOCK_SECONDS):
        return False
    try:
        # Being executed, by this very thread: then it is half there, as a module is that imports itself.
        if name not in _waiting or name in _executing:
            return name not in _waiting
        _execute(module)
        return True
    finally:
        _locks[name].release()


def _execute(module: ModuleType) -> None:
    name = module.__name__
    loader = module.__spec__.loader if module.__spec__ is not None else None
    if loader is None:
        raise ImportError(f"module {name!r} has no loader", name=name)
    finder = _InstalledFirst()
    built_in = sum(known in sys.meta_path for known in (BuiltinImporter, FrozenImporter))
    _executing.add(name)
    # A new list each time: another thread's import may be half through the old one.
    sys.meta_path = [*sys.meta_path[:built_in], finder, *sys.meta_path[built_in:]]
    try:
        loader.exec_module(module)
        _waiting.discard(name)
    finally:
        sys.meta_path = [known for known in sys.meta_path if known is not finder]
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
