"""What the sandbox uses: the last minute of the supervisor's samples, which come only while somebody looks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.record import MutableRecord, Record
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.lifecycle import Lifecycle
    from sentinel_kernel.kernel.wire import Json

SECONDS = 60
"""How long the last minute is."""

_WINDOW_SECONDS = 1.0
_FIRST_SECONDS, _LONGEST_SECONDS = 0.1, 2.5
"""What the first sample is taken to tell of; each other one tells of the time since the one before, within reason."""

_WATCH_SECONDS = 30.0


class Sample(Record):
    """One look at the sandbox; what its limits' back end can't tell is None."""

    ms: int
    """Milliseconds since 1970."""
    memory_bytes: int | None
    memory_peak_bytes: int | None
    """The most in this cell."""
    cpu_percent: float | None
    """100 is one processor."""
    cpu_seconds: float | None
    """This cell's."""
    pids: int | None
    disk_bytes: int | None
    files: dict[str, int]
    """Bytes in each file system in memory: disk_bytes (the notebook's folder), tmp_bytes, home, shm_bytes."""
    running: bool
    """Whether a cell runs."""


class Second(MutableRecord):
    """One second of the last minute that something is known of."""

    number: int
    """Seconds since 1970."""
    memory_bytes: int | None = None
    """The most in it."""
    cpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    """Of how long ``cpu_seconds`` tells."""

    @property
    def cpu_percent(self) -> float | None:
        """The mean in it; 100 is one processor."""
        return 100 * self.cpu_seconds / self.measured_seconds if self.measured_seconds else None


class Usage:
    """Keeps the last minute of what the supervisor tells the ``lifecycle``; ``seen`` is called after each sample."""

    def __init__(self, lifecycle: Lifecycle, seen: Callable[[], None]) -> None:
        self._lifecycle = lifecycle
        lifecycle.told[protocol.EVENT_USAGE] = self._take
        self._seen = seen
        self._watchers: set[str] = set()
        self._limits: Json = {}
        self._window: deque[tuple[float, float]] = deque()
        """How long each of the newest samples tells of, and the processor time in it."""
        self.newest: Sample | None = None
        self.minute: deque[Second] = deque(maxlen=SECONDS)
        """The last minute, the newest second last; seconds that nothing is known of are left out."""

    @property
    def cpu_percent(self) -> float | None:
        """The processor use of the last second. The Linux kernel counts in ticks: a short sample is wrong by one."""
        lasted = sum(seconds for seconds, _ in self._window)
        return 100 * sum(used for _, used in self._window) / lasted if lasted else None

    def limit(self, name: str) -> int | None:
        """Return a limit that is in force (``memory_bytes``, ``pids``, ...), None where there is none."""
        return _integer(self._limits.get(name))

    @property
    def watched(self) -> bool:
        """Whether samples are wanted."""
        return bool(self._watchers)

    def watch(self, who: str, *, on: bool) -> None:
        """Have samples sent, or no more, for ``who``; they come as long as anybody wants them."""
        before = bool(self._watchers)
        if on:
            self._watchers.add(who)
        else:
            self._watchers.discard(who)
        if bool(self._watchers) != before:
            self._ask()

    def sandbox_ready(self) -> None:
        """Take note of a sandbox that is another one: its supervisor may not know that somebody looks."""
        if self._watchers:
            self._ask()

    def _take(self, event: Json) -> None:
        """Keep the sample of an EVENT_USAGE."""
        limits, told = event.get("limits"), event.get("sample")
        if isinstance(limits, dict):
            self._limits = limits
        if not isinstance(told, dict):
            return
        files = told.get("files")
        files = files if isinstance(files, dict) else {}
        sample = Sample(
            _integer(told.get("ms")) or 0,
            _integer(told.get("memory_bytes")),
            _integer(told.get("memory_peak_bytes")),
            _number(told.get("cpu_percent")),
            _number(told.get("cpu_seconds")),
            _integer(told.get("pids")),
            _integer(told.get("disk_bytes")),
            {str(name): size for name, held in files.items() if (size := _integer(held)) is not None},
            told.get("running") is True,
        )
        self._count(sample)
        self.newest = sample
        self._seen()

    def _count(self, sample: Sample) -> None:
        before, number = self.newest, sample.ms // 1000
        lasted = _FIRST_SECONDS
        if before is not None:
            lasted = min(_LONGEST_SECONDS, max(0.001, (sample.ms - before.ms) / 1000))
        if not self.minute or self.minute[-1].number != number:
            self.minute.append(Second(number))
        second = self.minute[-1]
        if sample.memory_bytes is not None:
            second.memory_bytes = max(second.memory_bytes or 0, sample.memory_bytes)
        if sample.cpu_percent is None:
            return
        used = sample.cpu_percent / 100 * lasted
        second.cpu_seconds += used
        second.measured_seconds += lasted
        self._window.append((lasted, used))
        while (
            len(self._window) > 1
            and sum(seconds for seconds, _ in self._window) - self._window[0][0] >= _WINDOW_SECONDS
        ):
            self._window.popleft()

    def _ask(self) -> None:
        link = self._lifecycle.link
        if link is not None:
            link.request(protocol.OP_WATCH, {"on": bool(self._watchers)}, lambda _reply: None, _WATCH_SECONDS)


def _number(value: object) -> float | None:
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        else None
    )


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
