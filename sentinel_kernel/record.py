"""Values with named fields, for the code that runs before a kernel answers.

They are written like dataclasses and mean the same to a type checker (dataclass_transform(), Python 3.11). The
standard library's import ``inspect`` and compile a constructor for each class: a third of the supervisor's start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, TypeVar, dataclass_transform

    _T = TypeVar("_T")
else:

    def dataclass_transform(**_options):  # noqa: ANN003, ANN201, D103
        return lambda decorated: decorated


_MADE_OFTEN = 64
"""From that many records on, their class gets a constructor of its own, three times as fast as the common one."""


class _Fresh:
    """A default that is made anew for each record."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fresh(*, default_factory: Callable[[], _T]) -> _T:
    """Return the default of a field whose value is made anew by ``default_factory`` for each record."""
    return _Fresh(default_factory)  # type: ignore[return-value]


@dataclass_transform(frozen_default=False, field_specifiers=(fresh,))
class _RecordType(type):
    """Makes a class with one slot for each annotated name."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: bool
    ) -> _RecordType:
        own = tuple(namespace.get("__annotations__", ()))
        inherited = next((getattr(base, "_names") for base in bases if isinstance(base, _RecordType)), ())
        defaults = dict(
            next((getattr(base, "_defaults") for base in bases if isinstance(base, _RecordType)), {})
        )
        defaults |= {field: namespace.pop(field) for field in own if field in namespace}
        slots = (*own, "_hash") if name == "Record" else own
        namespace |= {"__slots__": slots, "_names": (*inherited, *own), "_defaults": defaults, "_made": 0}
        if any(isinstance(base, _RecordType) for base in bases):
            # Each class has one of its own: that of another one may be replaced by one of that one's fields.
            namespace.setdefault("__init__", MutableRecord.__init__)
        made: _RecordType = super().__new__(mcs, name, bases, namespace)
        return made

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_options: bool
    ) -> None:
        super().__init__(name, bases, namespace)


class MutableRecord(metaclass=_RecordType):
    """A value with the annotated fields; compared by identity, as it has an owner."""

    if TYPE_CHECKING:
        _names: ClassVar[tuple[str, ...]]
        _defaults: ClassVar[dict[str, Any]]
        _made: ClassVar[int]

    def __init__(self, *values: Any, **named: Any) -> None:  # noqa: ANN401 - the checker sees the fields
        names = type(self)._names
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} fields, not {len(values)}")
        for name, value in zip(names, values, strict=False):
            object.__setattr__(self, name, value)
        defaults = type(self)._defaults
        for name in names[len(values) :]:
            if name in named:
                value = named.pop(name)
            elif name in defaults:
                value = defaults[name]
                if type(value) is _Fresh:
                    value = value.make()
            else:
                raise TypeError(f"{type(self).__name__} needs {name}")
            object.__setattr__(self, name, value)
        if named:
            raise TypeError(f"{type(self).__name__} has no fields {', '.join(named)}")
        if (made := type(self)._made) >= 0:
            _count(type(self), made + 1)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._names)})"
        )


def _count(kind: type[MutableRecord], made: int) -> None:
    """Compile the constructor of a class of which many records are made; it means the same, but for words of errors."""
    if made < _MADE_OFTEN:
        kind._made = made
        return
    kind._made = -1
    names, defaults = kind._names, kind._defaults
    optional = [name in defaults for name in names]
    if kind.__init__ is not MutableRecord.__init__ or optional != sorted(optional):
        return
    parameters = [f"{name}=_{name}" if name in defaults else name for name in names]
    frozen = isinstance(kind, _FrozenType)
    lines = [f"def __init__(self, {', '.join(parameters)}):"]
    for name in names:
        value = name
        if type(defaults.get(name)) is _Fresh:
            value = f"_{name}.make() if {name} is _{name} else {name}"
        lines.append(f"    _set(self, {name!r}, {value})" if frozen else f"    self.{name} = {value}")
    scope: dict[str, Any] = {"_set": object.__setattr__}
    scope |= {f"_{name}": value for name, value in defaults.items()}
    exec("\n".join(lines), scope)  # noqa: S102 - as dataclasses do; the names are those of a class
    scope["__init__"].__qualname__ = f"{kind.__qualname__}.__init__"
    kind.__init__ = scope["__init__"]  # type: ignore[method-assign]


@dataclass_transform(frozen_default=True, field_specifiers=(fresh,))
class _FrozenType(_RecordType):
    """As _RecordType, for values that never change."""


class Record(MutableRecord, metaclass=_FrozenType):
    """A value with the annotated fields that never changes; compared and hashed by them."""

    if TYPE_CHECKING:
        _hash: ClassVar[int]

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    def __hash__(self) -> int:
        # Kept: a profile's is asked for at each look into a cache, and takes a hundred microseconds.
        try:
            return self._hash
        except AttributeError:
            value = hash(tuple(getattr(self, name) for name in self._names))
            object.__setattr__(self, "_hash", value)
            return value


def replace(record: _T, **changes: Any) -> _T:  # noqa: ANN401 - the record's own fields
    """Return a record of the same kind with some fields changed."""
    values = {name: getattr(record, name) for name in type(record)._names}  # type: ignore[attr-defined]
    return type(record)(**(values | changes))


def as_dict(record: MutableRecord) -> dict[str, Any]:
    """Return the fields of a record by name; nested records stay as they are."""
    return {name: getattr(record, name) for name in type(record)._names}


def field_names(kind: type[MutableRecord]) -> tuple[str, ...]:
    """Return the names of a record's fields in order."""
    return kind._names
