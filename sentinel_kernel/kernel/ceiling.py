"""How far a cell may switch: magics come from where AI-written cells come from, so they have a ceiling."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.policy.profile import Profile


class Ceiling:
    """The widest profile a magic may choose: SENTINEL_CEILING, the shipped default, or what the kernel started with."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        """Return the ceiling's name."""
        from sentinel_kernel.policy.hints import DEFAULT_CEILING  # noqa: PLC0415 - not on the start path

        return self._settings.ceiling or DEFAULT_CEILING

    def allows(self, profile: Profile) -> bool:
        """Tell whether ``profile`` gives nothing that the ceiling, or the profile of the start, does not give."""
        from sentinel_kernel.policy.compare import is_within  # noqa: PLC0415 - not on the start path
        from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - not on the start path

        if profile.name == self._settings.profile:
            return True
        machine = os.uname().machine
        for name in {self.name, self._settings.profile}:
            try:
                if is_within(profile, load_profile(name, self._settings.profile_directories), machine):
                    return True
            except (SentinelError, OSError):
                continue  # a ceiling that can't be read allows nothing
        return False
