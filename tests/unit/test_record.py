"""Records mean what dataclasses mean: fields, defaults, equality, freezing, replacing."""

from __future__ import annotations

import pytest

from sentinel_kernel.record import MutableRecord, Record, as_dict, field_names, fresh, replace


class Point(Record):
    """A value."""

    x: int
    y: int = 2


class Named(Point):
    """A value with one field more."""

    name: str = "origin"


class Box(MutableRecord):
    """A thing with an owner."""

    content: list[int] = fresh(default_factory=list)


def test_fields_come_by_place_by_name_and_by_default() -> None:
    assert (Point(1).x, Point(1).y) == (1, 2)
    assert Point(1, 3) == Point(y=3, x=1)
    assert as_dict(Named(5)) == {"x": 5, "y": 2, "name": "origin"}
    assert field_names(Named) == ("x", "y", "name")


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})])
def test_wrong_fields_are_an_error(values: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*values, **named)


def test_values_are_equal_and_hashed_by_their_fields_and_kind() -> None:
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_a_value_never_changes() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 2
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert replace(point, x=9) == Point(9)
    assert point == Point(1)


def test_a_mutable_default_is_made_anew() -> None:
    first, second = Box(), Box()
    first.content.append(1)
    assert second.content == []
    assert first != second


def test_there_are_slots_and_a_readable_form() -> None:
    assert not hasattr(Point(1), "__dict__")
    assert repr(Named(1)) == "Named(x=1, y=2, name='origin')"


def test_a_class_of_which_many_are_made_means_the_same() -> None:
    class Often(Record):
        x: int
        y: int = 2
        more: list[int] = fresh(default_factory=list)

    class Other(Often):
        z: str = "z"

    class Changing(MutableRecord):
        x: int
        more: list[int] = fresh(default_factory=list)

    for _ in range(200):
        assert as_dict(Often(1)) == {"x": 1, "y": 2, "more": []}
        assert as_dict(Often(y=3, x=1, more=[4])) == {"x": 1, "y": 3, "more": [4]}
        assert as_dict(Other(1)) == {"x": 1, "y": 2, "more": [], "z": "z"}
        assert Often(1).more is not Often(1).more
        changing = Changing(5)
        changing.x = 6
        assert as_dict(changing) == {"x": 6, "more": []}
        for values, named in (((), {}), ((1, 2, [], 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})):
            with pytest.raises(TypeError, match="Often"):
                Often(*values, **named)
        with pytest.raises(AttributeError, match="frozen"):
            Often(1).x = 2
        assert replace(Other(1), y=9) == Other(1, 9)
