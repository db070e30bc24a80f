"""How far a cell may switch: magics come from where AI-written cells come from, so they have a ceiling."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.policy.compare import Surplus
    from sentinel_kernel.policy.profile import Profile

FREE, ASK, NEVER = "free", "ask", "never"
"""A magic may choose the profile; only if the person agrees; not at all."""


class Ceiling:
    """The widest profile a magic may choose: SENTINEL_CEILING, the shipped default, or what the kernel started with."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        """Return the ceiling's name."""
        from sentinel_kernel.policy.hints import DEFAULT_CEILING  # noqa: PLC0415 - not on the start path

        return self._settings.ceiling or DEFAULT_CEILING

    @property
    def locked(self) -> bool:
        """Whether a lab keeps every kernel under one profile."""
        return self._settings.lab is not None and self._settings.lab.locked

    def allows(self, profile: Profile) -> bool:
        """Tell whether a magic may choose ``profile`` without a question."""
        return self.grants(profile) == FREE

    def grants(self, profile: Profile) -> str:
        """Tell how a magic gets ``profile``: FREE, ASK or NEVER."""
        if profile.name == self._settings.profile:
            return FREE
        if self._settings.lab is not None:
            # The person at the notebook is not who laid this down: a yes of theirs does not count.
            from sentinel_kernel.policy.compare import no_larger  # noqa: PLC0415 - not on the start path

            free = not self.locked and self._within(profile, [self.name])
            most = self._load(self.name)
            return FREE if free and most is not None and no_larger(profile, most) else NEVER
        return FREE if self._within(profile, {self.name, self._settings.profile}) else ASK

    def widest(self) -> Profile | None:
        """Return the ceiling's profile; None where it can't be read, which allows nothing."""
        return self._load(self.name)

    def exceeded(self, name: str) -> Surplus:
        """Return what the profile of that name gives beyond the ceiling; nothing where it can't be told."""
        from sentinel_kernel.policy.compare import Surplus, surplus  # noqa: PLC0415 - not on the start path

        profile, ceiling = self._load(name), self._load(self.name)
        if profile is None or ceiling is None:
            return Surplus()
        return surplus(profile, ceiling, os.uname().machine)

    def _within(self, profile: Profile, names: Iterable[str]) -> bool:
        """Tell whether ``profile`` gives nothing that one of the others does not give."""
        from sentinel_kernel.policy.compare import is_within  # noqa: PLC0415 - not on the start path

        machine = os.uname().machine
        return any(
            is_within(profile, other, machine) for name in names if (other := self._load(name)) is not None
        )

    def _load(self, name: str) -> Profile | None:
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

        try:
            return load_profile(name, self._settings.profile_directories)
        except (SentinelError, OSError):
            return None  # a ceiling that can't be read allows nothing
