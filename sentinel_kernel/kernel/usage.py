"""What the sandbox uses: the last minute of the supervisor's samples, which come only while somebody looks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sentinel_kernel.record import Record
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.lifecycle import Lifecycle
    from sentinel_kernel.kernel.wire import Json

KEPT_MS = 60_000
_MOST_SAMPLES = 2000
"""More than a minute ever has: a clock that is set back leaves samples that are not older than the newest."""

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


class Usage:
    """Keeps the last minute of what the supervisor tells the ``lifecycle``; ``seen`` is called after each sample."""

    def __init__(self, lifecycle: Lifecycle, seen: Callable[[], None]) -> None:
        self._lifecycle = lifecycle
        lifecycle.told[protocol.EVENT_USAGE] = self._take
        self._seen = seen
        self._watchers: set[str] = set()
        self._limits: Json = {}
        self.samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)

    @property
    def newest(self) -> Sample | None:
        """The newest sample, if there is one."""
        return self.samples[-1] if self.samples else None

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
        self.samples.append(sample)
        while self.samples[0].ms < sample.ms - KEPT_MS:
            self.samples.popleft()
        self._seen()

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
