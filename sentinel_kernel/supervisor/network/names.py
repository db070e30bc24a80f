"""Names that are looked up for a sandbox: which addresses each led to, and when; asked outside once at a time."""

from __future__ import annotations

import time

from sentinel_kernel.policy.network import host_name
from sentinel_kernel.record import MutableRecord, fresh
from sentinel_kernel.supervisor.network.resolver import Resolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.network import NetworkPolicy

    Done = Callable[["tuple[bytes, ...] | None"], None]

_KEPT_SECONDS, _KEPT_NONE_SECONDS = 60.0, 5.0
_PINNED_SECONDS = 3600.0
"""So long after it was last looked up an address may be connected to by its name: programs keep addresses."""

_MOST_NAMES, _MOST_PINS = 1024, 8192
_MOST_OF_ONE = 16
"""So many names are known to have led to one address: all are looked at when it is connected to."""

_BURST, _A_SECOND = 60, 1.0
"""Names that are asked outside: a name may carry something to who answers for it, so not as many as one likes."""


class _Known(MutableRecord):
    """What is known of one name; ``waiting`` are those whom its look-up will be told."""

    until: float = 0.0
    addresses: tuple[bytes, ...] = ()
    waiting: list[Done] = fresh(default_factory=list)


class Names:
    """The names of one sandbox."""

    def __init__(self, learnt: Callable[[], None] = lambda: None) -> None:
        """Know nothing yet; ``learnt`` is called whenever :meth:`of` may give another answer for an address."""
        self._learnt = learnt
        self.resolver = Resolver()
        self._known: dict[str, _Known] = {}
        self._pins: dict[bytes, dict[str, float]] = {}
        self._tokens = float(_BURST)
        self._counted = time.monotonic()

    def look_up(self, name: str, policy: NetworkPolicy, done: Done) -> None:
        """Call ``done`` with the addresses of ``name`` that ``policy`` lets be reached; None: nobody can tell now.

        Precondition: ``policy`` resolves the name, which :func:`host_name` has made.
        """
        known = self._known.get(name)
        now = time.monotonic()
        if known is not None and known.waiting:
            known.waiting.append(done)
            return
        if known is not None and now < known.until:
            for address in known.addresses:
                self._pin(address, name, now)
            done(known.addresses)
            return
        self._tokens = min(float(_BURST), self._tokens + (now - self._counted) * _A_SECOND)
        self._counted = now
        if self._tokens < 1.0:
            done(None)
            return
        self._tokens -= 1.0
        if len(self._known) >= _MOST_NAMES:
            self._known = {one: entry for one, entry in self._known.items() if entry.waiting}
        entry = self._known[name] = _Known(waiting=[done])
        self.resolver.look_up(name, lambda found: self._found(name, entry, policy, found))

    def _found(
        self, name: str, entry: _Known, policy: NetworkPolicy, found: tuple[bytes, ...] | None
    ) -> None:
        waiting, entry.waiting = entry.waiting, []
        now = time.monotonic()
        if found is None:
            self._known.pop(name, None)
        else:
            entry.addresses = tuple(address for address in found if may_be(policy, name, address))
            entry.until = now + (_KEPT_SECONDS if entry.addresses else _KEPT_NONE_SECONDS)
            for address in entry.addresses:
                self._pin(address, name, now)
        for done in waiting:
            done(None if found is None else entry.addresses)

    def _pin(self, address: bytes, name: str, now: float) -> None:
        self._learnt()
        if len(self._pins) >= _MOST_PINS:
            self._pins.clear()
        names = self._pins.setdefault(address, {})
        names.pop(name, None)  # the dict is in the order of the last time
        names[name] = now
        for one in [one for one, at in names.items() if at < now - _PINNED_SECONDS]:
            del names[one]
        while len(names) > _MOST_OF_ONE:
            del names[next(iter(names))]

    def of(self, address: bytes) -> list[str]:
        """Return the names that led to ``address`` not long ago, the last one first."""
        since = time.monotonic() - _PINNED_SECONDS
        names = self._pins.get(address, {})
        return [name for name, at in sorted(names.items(), key=lambda one: -one[1]) if at >= since]

    def forget(self) -> None:
        """Ask anew for what is asked from here on: the hosts that may be reached are others."""
        self._known = {name: entry for name, entry in self._known.items() if entry.waiting}

    def close(self) -> None:
        """End what is under way."""
        self.resolver.close()


def may_be(policy: NetworkPolicy, name: str, address: bytes) -> bool:
    """Tell whether ``address`` may be reached by ``name`` at some port."""
    ports = {
        rule.first_port
        for rule in policy.rules
        if rule.has_name(host_name(name)) or rule.has_address(address)
    }
    return any(policy.decide(name, address, port).allowed for port in ports)
