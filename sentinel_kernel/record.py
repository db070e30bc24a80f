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
        namespace |= {"__slots__": slots, "_names": (*inherited, *own), "_defaults": defaults}
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

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._names)})"
        )


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
