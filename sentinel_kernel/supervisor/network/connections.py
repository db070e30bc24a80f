"""The connections of one sandbox: to whom, by which name, allowed or not, how much was sent, and when they ended."""

from __future__ import annotations

import time

from sentinel_kernel.linux.network import live_sockets, read_ends, watch_ends
from sentinel_kernel.policy.network import show_address
from sentinel_kernel.record import MutableRecord, as_dict
from sentinel_kernel.supervisor.network.noted import Noted
from sentinel_kernel.supervisor.network.sockets import counts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.linux.network import LiveSocket

_MOST_OPEN = 512
_MOST_TOLD = 500
_ENDS_SECONDS = 0.05
"""After some ends were told, the next ones may wait so long: whoever makes many connections does not wait for that."""


class Connection(MutableRecord):
    """One connection, or one that was refused; times are epoch milliseconds, ``error`` is an errno or 0."""

    host: str
    address: str
    port: int
    verdict: str
    """allowed, refused, or failed: allowed, and not established (port 0: its name could not be looked up)."""
    rule: str
    started_ms: int
    ended_ms: int | None = None
    error: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    count: int = 1
    """How often the same was refused, or failed."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return as_dict(self)


class Connections:
    """What the person is shown, and the audit keeps; ``note`` is told of those that are over."""

    def __init__(self, note: Callable[[Connection], None]) -> None:
        """Watch for ends from the first connection on."""
        self._noted = Noted(note)
        self._refused: dict[tuple[str, str, int, str], Connection] = {}
        """What is told as refused, or unknown: repeats are counted there."""
        self._open: dict[bytes, tuple[Connection, int]] = {}
        """Cookie of the socket -> the connection, and the socket's inode."""
        self._ends: socket.socket | None = None
        self._ends_at = 0.0
        """When the next ends are looked at, at the earliest (monotonic seconds)."""
        self.told: list[Connection] = []

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        if len(self._open) >= _MOST_OPEN:
            self.serve()
        return len(self._open) >= _MOST_OPEN

    @property
    def has_open(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def begin(self, host: str, address: bytes, port: int, rule: str) -> Connection:
        """Return the record of a connection that is tried."""
        if self._ends is None:
            self._ends = watch_ends()
        made = Connection(host, show_address(address), port, "allowed", rule, _now())
        self._tell(made)
        return made

    def refused(self, host: str, address: str, port: int, rule: str) -> None:
        """Take note of one that was refused."""
        self._repeated(Connection(host, address, port, "refused", rule, now := _now(), now))

    def unknown(self, host: str) -> None:
        """Take note of a host that may be reached, and whose name could not be looked up."""
        self._repeated(Connection(host, "", 0, "failed", "", now := _now(), now))

    def was_unknown(self, host: str, seconds: float) -> bool:
        """Tell whether the name could not be looked up not longer ago than that."""
        told = self._refused.get((host, "", 0, ""))
        return told is not None and (told.ended_ms or 0) >= _now() - seconds * 1000

    def _repeated(self, made: Connection) -> None:
        self._noted.add(made)
        key = (made.host, made.address, made.port, made.rule)
        shown = self._refused.get(key)
        if shown is not None:
            shown.count += 1
            shown.ended_ms = made.ended_ms
            return
        while len(self._refused) >= _MOST_TOLD:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = made
        self._tell(made)

    def requested(self, made: Connection) -> None:
        """Take note of a request that the proxy has passed on, or refused, and that is over."""
        if made.verdict == "refused":
            self.refused(made.host, made.address, made.port, made.rule)
            return
        self._tell(made)
        self._noted.add(made)

    def _tell(self, made: Connection) -> None:
        self.told.append(made)
        for old in self.told[:-_MOST_TOLD]:
            self._refused.pop((old.host, old.address, old.port, old.rule), None)
        del self.told[:-_MOST_TOLD]

    def established(self, made: Connection, cookie: bytes, inode: int) -> None:
        """Take note that the sandbox has the socket of ``cookie``; it is counted until it is closed there."""
        self._open[cookie] = (made, inode)

    def failed(self, made: Connection, error: int) -> None:
        """Take note that it could not be established."""
        made.verdict, made.error, made.ended_ms = "failed", error, _now()
        self._noted.add(made)

    def inodes(self, is_meant: Callable[[Connection], bool]) -> dict[int, Connection]:
        """Return the open connections that are meant, by their sockets' inodes."""
        return {inode: made for made, inode in self._open.values() if is_meant(made)}

    def still_held(self, is_meant: Callable[[Connection], bool]) -> list[LiveSocket]:
        """Return those that are meant, were not shut down, and are somebody's: the Linux kernel tells of all.

        Raises:
            OSError: it does not.

        """
        cookies = [cookie for cookie, (made, _) in self._open.items() if is_meant(made)]
        if not cookies:
            return []
        live = live_sockets()
        return [live[cookie] for cookie in cookies if cookie in live and live[cookie].inode]

    def due_seconds(self) -> float | None:
        """Return when repeats are to be noted, or ends may be looked at again."""
        due = self._noted.due_seconds()
        ends = self._ends_at - time.monotonic()
        if not self._open or ends <= 0.0:
            return due
        return ends if due is None else min(due, ends)

    def flush(self) -> None:
        """Note the repeats whose time has come."""
        self._noted.flush()

    def shut(self, inodes: dict[int, bytes]) -> None:
        """Take note of those that were shut down, by inode with their ``struct tcp_info``: nothing gets through."""
        for cookie, (made, inode) in list(self._open.items()):
            if inode in inodes:
                del self._open[cookie]
                made.bytes_out, made.bytes_in, _ = counts_of(inodes[inode])
                made.ended_ms = _now()
                self._noted.add(made)

    def descriptors(self) -> list[int]:
        """Return what tells of ends."""
        if self._ends is None or not self._open or time.monotonic() < self._ends_at:
            return []
        return [self._ends.fileno()]

    def serve(self) -> None:
        """Take note of what has ended."""
        if self._ends is None:
            return
        self._ends_at = time.monotonic() + _ENDS_SECONDS
        missed = False
        for cookie, info in read_ends(self._ends):
            missed = missed or not cookie
            entry = self._open.pop(cookie, None)
            if entry is not None:
                made = entry[0]
                made.bytes_out, made.bytes_in, established = counts_of(info)
                if not established:
                    made.verdict = "failed"
                made.ended_ms = _now()
                self._noted.add(made)
        if missed:
            self._drop_ended()

    def _drop_ended(self) -> None:
        """Take note of the ends that were not told: there were too many at once."""
        try:
            live = live_sockets()
        except OSError:
            return  # the next one that is missed asks again
        for cookie in [one for one in self._open if one not in live]:
            made = self._open.pop(cookie)[0]
            made.ended_ms = _now()
            self._noted.add(made)

    def close(self) -> None:
        """Take note of all that is open still: the sandbox has ended, and they with it."""
        self.serve()
        for made, _ in self._open.values():
            made.ended_ms = _now()
            self._noted.add(made)
        self._open.clear()
        self._noted.flush(force=True)
        if self._ends is not None:
            self._ends.close()
            self._ends = None


def _now() -> int:
    return int(time.time() * 1000)
