"""Sets of system call arguments: intersection, difference, membership."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.policy.regions import (
    EVERYTHING,
    ArgumentTest,
    Region,
    boundary_values,
    difference,
    differences,
    holds,
    intersection,
)

BITS = 3
ARGUMENTS = list(product(range(1 << BITS), repeat=2))


def test_of(index: int) -> st.SearchStrategy[ArgumentTest]:
    masks = st.integers(1, (1 << BITS) - 1)
    return masks.flatmap(
        lambda mask: st.integers(0, mask).map(lambda value: ArgumentTest(index, mask, value & mask))
    )


test_of.__test__ = False  # type: ignore[attr-defined] # a strategy, in spite of its name
regions: st.SearchStrategy[Region] = st.tuples(st.none() | test_of(0), st.none() | test_of(1)).map(
    lambda pair: tuple(test for test in pair if test is not None)
)


def members(region: Region) -> set[tuple[int, int]]:
    return {pair for pair in ARGUMENTS if holds(region, (*pair, 0, 0, 0, 0))}


@given(regions, regions)
def test_an_intersection_holds_what_both_hold(first: Region, second: Region) -> None:
    both = intersection(first, second)
    assert (members(both) if both is not None else set()) == members(first) & members(second)


@given(regions, regions)
def test_a_difference_is_exact_and_disjoint(region: Region, removed: Region) -> None:
    pieces = [members(piece) for piece in difference(region, removed)]
    assert set().union(*pieces) == members(region) - members(removed)
    assert sum(map(len, pieces)) == len(members(region) - members(removed))


@given(regions, st.lists(regions, max_size=3))
def test_several_can_be_taken_away(region: Region, removed: list[Region]) -> None:
    pieces = [members(piece) for piece in differences(region, removed)]
    expected = members(region).difference(*map(members, removed))
    assert set().union(*pieces) == expected
    assert sum(map(len, pieces)) == len(expected)


def test_everything_without_everything_is_nothing() -> None:
    assert differences(EVERYTHING, [EVERYTHING]) == []


def test_high_bits_do_not_tell_two_calls_apart() -> None:
    test = ArgumentTest(1, 0xFFFFFFFF, 0x5412)
    assert test.holds((0, 0x1_0000_5412, 0, 0, 0, 0))


def test_boundary_values_are_on_both_sides_of_every_edge() -> None:
    test = ArgumentTest(0, 0xFFFFFFFF, 2)
    values = boundary_values([test])
    inside = [value for value in values if test.holds((value, 0, 0, 0, 0, 0))]
    assert inside
    assert len(values) - len(inside) > 32
    assert any(value >> 32 for value in inside)
