"""Looks at code before it runs: what its profile would refuse, and what is dangerous."""

from __future__ import annotations

from typing import Any

from sentinel_kernel.kernel.settings import profile_directories
from sentinel_kernel.policy.profile import Profile, load_profile

Json = dict[str, Any]


class CodeCheck:
    """Finds what would be refused; the profiles are read anew each time, as a person may edit theirs."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def profile(self, name: str) -> Profile:
        """Return a profile. Raises ProfileError where there is none of that name."""
        return load_profile(name, profile_directories(self._environment))

    def known_profile(self, name: object) -> str:
        """Return the name of a profile that there is; empty where none is named."""
        return self.profile(str(name)).name if name else ""

    def findings(self, code: str, profile: str, dangerous: str) -> list[Json]:
        """Return what is found in ``code``, in the order of its lines."""
        found: list[Json] = []
        if dangerous != "off" and code.strip():
            self.profile(profile)
        return found

    def refusal(self, findings: list[Json]) -> str:
        """Return why code with these findings is not run, and what to do; empty where it may run."""
        return " ".join(
            str(finding.get("hint")) for finding in findings if finding.get("rules") == "dangerous"
        )
