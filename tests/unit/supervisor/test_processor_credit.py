"""Who computes little has credit; who goes on runs out of it and has it back after rest."""

from __future__ import annotations

from sentinel_kernel.supervisor.processor_credit import ProcessorCredit


def _spent(credit: ProcessorCredit, seconds: float, used_a_second: float, began: float) -> list[bool]:
    """Return what came of each tenth of a second."""
    found = []
    for tenth in range(1, round(seconds * 10) + 1):
        credit.spend(used_a_second / 10, began + tenth / 10)
        found.append(credit.is_spent)
    return found


def _rested() -> ProcessorCredit:
    """Return the credit of who has rested from -100 seconds on to 0."""
    credit = ProcessorCredit(-100.0)
    credit.spend(0.0, 0.0)
    return credit


def test_who_starts_gives_way_until_it_has_rested() -> None:
    credit = ProcessorCredit(0.0)
    assert credit.is_spent
    assert _spent(credit, 5, 0.0, 0.0).index(False) in (19, 20)


def test_who_works_cell_by_cell_never_gives_way() -> None:
    assert not any(_spent(_rested(), 600, 0.09, 0.0))


def test_a_second_of_work_is_free_and_what_comes_after_it_is_not() -> None:
    assert _spent(_rested(), 2, 1.0, 0.0).index(True) in (10, 11)  # a tenth of it was saved up meanwhile


def test_several_processors_are_spent_sooner() -> None:
    assert _spent(_rested(), 2, 8.0, 0.0).index(True) == 1


def test_on_a_busy_machine_a_fifth_of_a_processor_is_much() -> None:
    assert _spent(_rested(), 20, 0.2, 0.0).index(True) in (97, 98)


def test_rest_of_five_seconds_brings_it_back_however_long_it_has_computed() -> None:
    for seconds in (10, 1000):
        credit = _rested()
        _spent(credit, seconds, 2.0, 0.0)
        assert credit.seconds == -0.3
        assert _spent(credit, 10, 0.0, seconds).index(False) in (49, 50)
        assert not credit.is_spent


def test_it_is_not_back_before_some_is_saved_up() -> None:
    credit = _rested()
    _spent(credit, 2, 1.0, 0.0)
    assert all(_spent(credit, 3, 0.05, 2.0))


def test_no_more_than_a_second_is_saved_up() -> None:
    assert _rested().seconds == 1.0
    credit = _rested()
    credit.spend(0.0, 10_000.0)
    assert credit.seconds == 1.0
