"""The tools that tell of profiles: which there are, what each allows, and what one does with a call and why."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.mcp.running_tools import Answer
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.explain import explain
from sentinel_kernel.policy.in_words import calls, limits, network
from sentinel_kernel.policy.profile import list_profiles, load_profile

if TYPE_CHECKING:
    from sentinel_kernel.kernel.settings import Settings
    from sentinel_kernel.mcp.asking import Job
    from sentinel_kernel.mcp.kernel_pool import PoolOptions
    from sentinel_kernel.policy.profile import Profile

Json = dict[str, Any]


class ProfileTools:
    """Reads the profiles anew at each call: a person may edit theirs."""

    def __init__(self, options: PoolOptions, environment: dict[str, str]) -> None:
        self._options = options
        self._environment = environment
        self._machine = os.uname().machine

    def settings(self) -> Settings:
        """Return the settings that this server's kernels have: profile, ceiling, a lab's rules."""
        environment = {**self._environment, "SENTINEL_PROFILE": self._options.profile}
        return read_settings(["-f", "-"], environment, self._options.workspace)

    def profile(self, name: str) -> Profile:
        """Return a profile. Raises ProfileError where there is none of that name."""
        return load_profile(name, self.settings().profile_directories)

    async def list_profiles(self, _job: Job, _arguments: Json) -> Answer:
        """List every profile and what it allows."""
        settings = self.settings()
        ceiling = Ceiling(settings)
        names = list_profiles(settings.profile_directories)
        return Answer(
            {
                "started_with": settings.profile,
                "ceiling": ceiling.name,
                "profiles": [self._listed(name, settings, ceiling) for name in names],
            }
        )

    def _listed(self, name: str, settings: Settings, ceiling: Ceiling) -> Json:
        try:
            profile = load_profile(name, settings.profile_directories)
        except SentinelError as error:
            return {"name": name, "error": str(error)}
        return {**self._told(profile), "may_switch": ceiling.grants(profile)}

    def _told(self, profile: Profile) -> Json:
        policy = compile_policy(profile, self._machine)
        files = profile.filesystem
        return {
            "name": profile.name,
            "description": profile.description,
            "network": network(policy),
            "limits": list(limits(profile.resources)),
            "writes": "held in the sandbox" if files.allow_write_overlay else "refused in the workspace",
            "minimum_isolation": profile.minimum_isolation,
            "folders": [f"{mount.path} ({mount.mode})" for mount in files.mounts],
        }

    async def explain_profile(self, _job: Job, arguments: Json) -> Answer:
        """Tell what a profile does with one call, or sum it up."""
        profile = self.profile(str(arguments["profile"]))
        policy = compile_policy(profile, self._machine)
        syscall = arguments.get("syscall")
        text = explain(policy, syscall)
        groups = {} if syscall else {title: len(names) for title, names in calls(policy).items()}
        settings = self.settings()
        told = {
            **self._told(profile),
            "may_switch": Ceiling(settings).grants(profile),
            "syscall": syscall,
            "text": text,
            "calls": groups,
        }
        return Answer(told)
