"""How far a kernel's cells may go without anybody's yes: profiles, limits and places, as remedies may use them."""

from __future__ import annotations

from sentinel_kernel.policy.compare import is_within, least_first, no_larger
from sentinel_kernel.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sentinel_kernel.policy.profile import Profile

DEFAULT_CEILING = "datascience"
"""How far a kernel may switch where nobody set another ceiling."""


class Leeway(Record):
    """What may be proposed. ``sizes`` and ``most`` are by the names of own_limits.OWN_LIMITS; None is no limit.

    ``most`` is how far each limit can be set on this machine; where a name is missing, the ceiling's profile is asked.
    ``workspace`` and ``python`` (the interpreter whose environment cells run in) are the host's paths, or "".
    """

    profiles: tuple[Profile, ...] = ()
    ceiling: str | None = DEFAULT_CEILING
    """The widest profile; None: no ceiling."""
    started: str = ""
    """The profile that the kernel was started with, to which a cell may always go back."""
    locked: bool = False
    """Whether a lab keeps every kernel under one profile."""
    lab: bool = False
    """Whether a lab laid down the ceiling, so that no limit goes beyond it either."""
    sizes: Mapping[str, float | None] = fresh(default_factory=dict)
    most: Mapping[str, float | None] = fresh(default_factory=dict)
    workspace: str = ""
    home: str = ""
    """The home folder inside, or ""."""
    python: str = ""
    asks: bool = False
    """Whether the person can be asked for more."""
    shown: tuple[tuple[str, str], ...] = ()
    """Folders that are shown while the sandbox runs: the host's path, and where it is inside."""
    asked: tuple[tuple[str, str], ...] = ()
    """Folders that the profile wants written, and where they are: "" where the person has not agreed (so far)."""
    wheels: frozenset[str] = frozenset()
    """Packages that the host has fetched wheels of, by their names as PEP 503 has them: cells can install those."""
    fenced: bool = False
    """Whether the sandbox in use was made for a way out, so that a profile with hosts takes no fresh one."""
    rung: str = "full"
    """The rung of the isolation ladder that the sandbox is on."""
    rung_words: Mapping[str, str] = fresh(default_factory=dict)
    """Of a lesser one: why it is that, the repair, and where cells may write (policy/plan.py, PathLists)."""

    def profile(self, name: str | None) -> Profile | None:
        """Return the profile of that name, None where it is not known."""
        return next((profile for profile in self.profiles if profile.name == name), None)

    def reachable(self, current: str, machine: str) -> list[Profile]:
        """Return the profiles that a cell may switch to from ``current``, those that give least first."""
        if self.locked:
            return []
        most = self.profile(self.ceiling)
        if self.ceiling is not None and most is None:
            return []
        found = [
            profile
            for profile in self.profiles
            if profile.name != current
            and (
                profile.name == self.started
                or most is None
                or (is_within(profile, most, machine) and (not self.lab or no_larger(profile, most)))
            )
        ]
        return least_first(found, machine)

    def most_of(self, name: str) -> tuple[bool, float | None]:
        """Return whether it is known how far the limit ``name`` can be set, and how far (None: freely)."""
        if name in self.most:
            return True, self.most[name]
        bounds = [
            getattr(profile.resources, name)
            for wanted in dict.fromkeys((self.ceiling, self.started))
            if (profile := self.profile(wanted)) is not None
        ]
        if not bounds or any(isinstance(bound, str) for bound in bounds):
            return False, None  # a share of a memory whose size nobody said
        return True, None if None in bounds else max(bounds)
