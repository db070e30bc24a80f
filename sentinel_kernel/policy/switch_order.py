"""Which profiles a cell may change to, in which order they are proposed, and the line that changes to one."""

from __future__ import annotations

from sentinel_kernel.policy.compare import takes_fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.violation import Violation

CARRY = " --carry"
"""What is put behind the line that changes the profile, where that takes a fresh sandbox."""


def in_place_first(violation: Violation, leeway: Leeway, machine: str) -> list[Profile]:
    """Return the profiles that a cell may switch to, those that give least first, but behind those that keep all."""
    return sorted(
        leeway.reachable(violation.profile, machine),
        key=lambda profile: _is_fresh(profile, violation, leeway),
    )


def switch_line(profile: Profile, violation: Violation, leeway: Leeway) -> str:
    """Return the line that changes to ``profile``; for a fresh sandbox with the word that asks nobody."""
    return f"%sentinel_profile {profile.name}{CARRY if _is_fresh(profile, violation, leeway) else ''}"


def _is_fresh(profile: Profile, violation: Violation, leeway: Leeway) -> bool:
    current = leeway.profile(violation.profile)
    return current is not None and takes_fresh(current, profile, fenced=leeway.fenced)
