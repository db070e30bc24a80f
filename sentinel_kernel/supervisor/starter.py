"""Finds the line of the cell that has started a process, by its note or by who waits for it now."""

from __future__ import annotations

from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.stack_dump import Place
    from sentinel_kernel.supervisor.current import Current


def find_starter(
    current: Current, process: int, done: Callable[[Place | None], object], go_on: Callable[[], object]
) -> None:
    """Call ``done`` with the line that has started ``process``, and then ``go_on``, which answers its held call.

    What leaves no note (os.system) is waited for as long as its call is held: the line that waits is the likely one.
    """
    line, started, worker = current.held_line, current.started, current.worker_pid
    if line is None or started is None or process == worker:
        done(None)
        go_on()
    elif (place := started.started_at(process, worker, line.names)) is not None:
        done(place)
        go_on()
    else:

        def waits(place: Place | None) -> None:
            done(None if place is None else replace(place, sure=False))

        line.ask_who_waits(worker, waits, go_on)
