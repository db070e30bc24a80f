"""Sets of system call arguments, as conjunctions of masked comparisons.

A region is a tuple of :class:`ArgumentTest`, at most one an argument, in their order; ``()`` is everything.
"""

from __future__ import annotations

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LOW_32_BITS = 0xFFFFFFFF
"""Most arguments are ``int`` in the Linux kernel: it drops what a caller put above (CVE-2019-10063)."""


class ArgumentTest(Record):
    """``(argument & mask) == value``, where ``index`` counts the arguments from 0."""

    index: int
    mask: int
    value: int

    def __lt__(self, other: ArgumentTest) -> bool:
        return (self.index, self.mask, self.value) < (other.index, other.mask, other.value)

    def holds(self, arguments: Sequence[int]) -> bool:
        """Tell whether the call's ``arguments`` (six unsigned 64-bit values) pass."""
        return arguments[self.index] & self.mask == self.value

    def __str__(self) -> str:
        """Return the test for a person."""
        if self.mask in (LOW_32_BITS, (1 << 64) - 1):
            return f"arg{self.index} == {self.value:#x}"
        return f"arg{self.index} & {self.mask:#x} == {self.value:#x}"


Region = tuple[ArgumentTest, ...]
EVERYTHING: Region = ()


def holds(region: Region, arguments: Sequence[int]) -> bool:
    """Tell whether the call's ``arguments`` lie in ``region``."""
    return all(test.holds(arguments) for test in region)


def intersection(first: Region, second: Region) -> Region | None:
    """Return what lies in both, or None where nothing does."""
    by_index = {test.index: test for test in first}
    for test in second:
        known = by_index.get(test.index)
        if known is None:
            by_index[test.index] = test
            continue
        if (known.value ^ test.value) & known.mask & test.mask:
            return None
        by_index[test.index] = ArgumentTest(test.index, known.mask | test.mask, known.value | test.value)
    return tuple(by_index[index] for index in sorted(by_index))


def difference(region: Region, removed: Region) -> list[Region]:
    """Return disjoint regions that together are ``region`` without ``removed``.

    One region for each bit that ``removed`` fixes and ``region`` leaves free: it agrees with ``removed`` in
    the bits before and differs in that one. Bits go from the highest down: far values are told early.
    """
    if intersection(region, removed) is None:
        return [region]
    pieces: list[Region] = []
    agreed: Region = region
    for test in removed:
        for position in range(63, -1, -1):
            bit = 1 << position
            if not test.mask & bit:
                continue
            wanted = test.value & bit
            other = intersection(agreed, (ArgumentTest(test.index, bit, bit ^ wanted),))
            if other is not None:
                pieces.append(other)
            same = intersection(agreed, (ArgumentTest(test.index, bit, wanted),))
            if same is None:  # the region fixes this bit the other way; ruled out by the check above
                return pieces
            agreed = same
    return pieces


class TooManyRegionsError(Exception):
    """A difference falls into more regions than the caller can use."""


def differences(region: Region, removed: Iterable[Region], most: int = 4096) -> list[Region]:
    """Return disjoint regions that together are ``region`` without any of ``removed``.

    Raises:
        TooManyRegionsError: there are more than ``most`` of them; each hole can multiply their number.

    """
    left = [region]
    for hole in removed:
        pieces: list[Region] = []
        for part in left:
            pieces += difference(part, hole)
            if len(pieces) > most:
                raise TooManyRegionsError
        left = pieces
    return left


def nearest_values(tests: Iterable[ArgumentTest]) -> list[int]:
    """Return values of one argument that pass one of ``tests``, or fail it by one bit."""
    values = set()
    for test in tests:
        values |= {test.value} | {
            test.value ^ 1 << position for position in range(32) if test.mask >> position & 1
        }
    return sorted(values)


def boundary_values(tests: Iterable[ArgumentTest]) -> list[int]:
    """Return values of one argument at and around the edges of ``tests``, with and without high bits."""
    values = {0, 1, LOW_32_BITS, 1 << 32, (1 << 64) - 1}
    for test in tests:
        outside = ~test.mask & LOW_32_BITS
        values |= {test.value, test.value | outside, test.value | 1 << 32, test.value | 0xFFFFFFFF << 32}
        values |= {test.value ^ 1 << position for position in range(32) if test.mask >> position & 1}
        values |= {max(0, test.value - 1), test.value + 1}
    return sorted(value & (1 << 64) - 1 for value in values)
