"""Changing the profile of a sandbox while its worker runs: what stands in the way, and what changes in place."""

from __future__ import annotations

import contextlib
import os
import resource

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.policy.own_limits import with_own
from sentinel_kernel.policy.plan import LENT_FILES, process_limits
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.policy.rung import FULL
from sentinel_kernel.record import MutableRecord, as_dict, fresh, replace
from sentinel_kernel.supervisor.by_number import set_processors, set_soft_limit
from sentinel_kernel.supervisor.preparation import chosen_processors, resolve_sizes
from sentinel_kernel.supervisor.processes import processes_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.floor import FixedRule
    from sentinel_kernel.policy.plan import Sizes
    from sentinel_kernel.policy.profile import Network, Profile
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.preparation import StartRequest

_CLEAN_LOOKS = 20
"""So many looks by the meter must find nothing to lower after the sizes have changed."""

_PASSES = 10
"""So many passes over all processes at most: something that forks without end is caught by a later call."""

_HELD_BY_GROUP = ("memory_bytes", "pids", "cpu_count", "cpu_quota")

SOFT_LIMITS = (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)
"""Those that follow the sizes in force."""


class Switching(MutableRecord):
    """What one sandbox's filter was made for; what is found out about a profile is kept."""

    policy: CompiledPolicy
    """That of the profile of its start."""
    reachable: tuple[Profile, ...]
    refused: tuple[FixedRule, ...] = ()
    """What the rung refuses, whatever a profile says."""
    filtered: CompiledPolicy | None = None
    known: dict[Profile, tuple[CompiledPolicy, tuple[str, ...]]] = fresh(default_factory=dict)
    """Profile -> its policy, and the calls that the filter decides otherwise."""

    gained: dict[tuple[Profile, Profile], list[str]] = fresh(default_factory=dict)
    """(profile, other) -> the calls of which the first lets more take effect."""

    def more(self, profile: Profile, than: Profile) -> list[str]:
        """Return the calls of which ``profile`` lets more take effect ``than`` the other."""
        from sentinel_kernel.policy.compare import gives_more  # noqa: PLC0415 - only who switches pays

        if (profile, than) not in self.gained:
            self.gained[profile, than] = gives_more(self.look_up(profile)[0], self.look_up(than)[0])
        return self.gained[profile, than]

    def look_up(self, profile: Profile) -> tuple[CompiledPolicy, tuple[str, ...]]:
        """Return the policy of ``profile`` and the calls that the loaded filter can't decide as it does."""
        if profile not in self.known:
            # Not at the start: only who switches pays.
            from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415
            from sentinel_kernel.policy.reach import unserved  # noqa: PLC0415
            from sentinel_kernel.supervisor.filter import filtered_policy  # noqa: PLC0415

            if self.filtered is None:
                self.filtered = filtered_policy(self.policy, self.reachable, self.refused)
            policy = compile_policy(profile, self.policy.architecture.machine, self.refused)
            self.known[profile] = policy, tuple(unserved(self.filtered, policy))
        return self.known[profile]


def change_profile(
    current: Current,
    request: StartRequest,
    name: str,
    used_bytes: Callable[[int], int],
    *,
    rules_on_files: bool,
) -> tuple[StartRequest, dict[str, Any]]:
    """Change ``current`` to profile ``name``, if that can be done in place; ``used_bytes`` as of :func:`too_full`.

    Returns the request that a replacement of the sandbox is made by from now on, and what the host is told: whether
    it is done (``live``); if so the sizes ``before`` and ``after`` and those that are ``full``, which keep theirs, and
    what gets out by itself before and after (``commit``; only where a profile's rule counts, ``rules_on_files``);
    if not the ``obstacles``: "filesystem", "network", "memory" (then ``in_use``, ``memory_bytes``), names of calls.
    """
    try:
        profile = load_profile(name, request.profile_directories)
        _check_rung(current, profile)
        policy, calls = current.switching.look_up(profile)
    except (SentinelError, OSError) as error:
        return request, {"live": False, "obstacles": [], "message": str(error)}
    obstacles = list(calls)
    old = current.preparation.profile
    if replace(profile.filesystem, commit=old.filesystem.commit) != old.filesystem:
        obstacles.insert(0, "filesystem")
    if profile.network.leads_out and not current.preparation.plan.fenced:
        obstacles.insert(0, "network")
    elif _made_for(profile.network) != _made_for(old.network):
        obstacles.insert(0, "proxy")
    before = current.preparation.plan.sizes
    after = resolve_sizes(profile, len(os.sched_getaffinity(0)))
    after = with_own(after, request.limits, current.preparation.ceiling)
    more: dict[str, Any] = {}
    if not obstacles and (in_use := too_full(before, after, used_bytes)) is not None:
        obstacles.append("memory")
        more = {"in_use": in_use, "memory_bytes": after.memory_bytes}
    if obstacles:
        return request, {"live": False, "obstacles": obstacles, **more}
    full = apply_sizes(current, after)
    after = current.preparation.plan.sizes
    current.preparation = replace(current.preparation, profile=profile)
    told = {
        "live": True,
        "before": as_dict(before),
        "after": as_dict(after),
        "full": full,
        "own": [name for name, _ in request.limits],
        "opened": current.switching.more(profile, old),
        "closed": current.switching.more(old, profile),
    }
    if rules_on_files:
        told["commit"] = [old.filesystem.commit, profile.filesystem.commit]
    current.handler.policy = policy
    return replace(request, profile=name), told


def _check_rung(current: Current, profile: Profile) -> None:
    """Raise SentinelError where the profile asks for more isolation than the sandbox has."""
    if current.rung != FULL and profile.minimum_isolation == FULL:
        raise SentinelError(
            f"The profile {profile.name!r} asks for the full rung, and this sandbox is on the landlock rung.",
            "See what this machine lacks (sentinel-kernel doctor), or choose a profile whose minimum_isolation is "
            "landlock.",
        )


def too_full(before: Sizes, after: Sizes, used_bytes: Callable[[int], int]) -> int | None:
    """Return how much memory is in use where ``after`` allows less, and less than before: the worker would be killed.

    ``used_bytes`` tells that, exactly where it is more than it is called with.
    """
    most = after.memory_bytes
    if most is None or (before.memory_bytes is not None and before.memory_bytes <= most):
        return None
    used = used_bytes(most)
    return used if used > most else None


def _made_for(network: Network) -> tuple[object, ...]:
    """Return what a sandbox's proxy and its environment are made for at the start."""
    return network.http, network.secrets, network.index


def apply_sizes(current: Current, sizes: Sizes) -> list[str]:
    """Give the running sandbox these limits; return the names of those that hold more now, which keep their size."""
    before = current.preparation.plan.sizes
    full = current.sandbox.resize(sizes)
    try:
        full += current.backend.set(sizes)
    except OSError:
        # The group takes none of it, or has gone: what it holds is what it held.
        with contextlib.suppress(OSError):
            current.backend.set(before)
        full += [field for field in _HELD_BY_GROUP if getattr(sizes, field) != getattr(before, field)]
    sizes = replace(sizes, **{field: getattr(before, field) for field in full})
    processors = sorted(os.sched_getaffinity(0))
    cpus = tuple(chosen_processors(sizes.cpu_count, processors))
    _limit_all(current, sizes, set(cpus or processors), exactly=True)
    current.unsettled = _CLEAN_LOOKS
    plan = replace(current.preparation.plan, sizes=sizes, cpus=cpus)
    current.preparation = replace(current.preparation, plan=plan)
    return full


def hold_again(current: Current) -> None:
    """Lower to the sizes in force what a process has more of, for some time after they have changed.

    A chain of processes that fork and end can run away from a pass over all of them, and each link takes after the
    one before.
    """
    cpus = current.preparation.plan.cpus or os.sched_getaffinity(0)
    found = _limit_all(current, current.preparation.plan.sizes, set(cpus), exactly=False)
    current.unsettled = _CLEAN_LOOKS if found else current.unsettled - 1


def _limit_all(current: Current, sizes: Sizes, processors: set[int], *, exactly: bool) -> bool:
    """Limit every process of the sandbox, until two passes find none with other limits; tell whether any had."""
    limits = dict(process_limits(sizes))
    found, clean = False, 0
    for _ in range(_PASSES):
        changed = False
        for pid in processes_below(current.sandbox.pid):
            changed |= limit_process(pid, current.sandbox.pid, limits, exactly=exactly)
            if pid != current.sandbox.pid:
                changed |= place_threads(pid, current.sandbox.pid, processors, exactly=exactly)
        found |= changed
        clean = 0 if changed else clean + 1
        if clean == 2:
            break
    return found


def limit_process(pid: int, first: int, limits: dict[int, int], *, exactly: bool = True) -> bool:
    """Set the soft limits (prlimit(2)) as far as the hard ones, made for the ceiling, allow; tell whether any differed.

    Of a process of the sandbox whose init is ``first``, whoever has the number ``pid`` by then. Without ``exactly``
    they are only lowered, but for RLIMIT_DATA, which the meter writes for each process.
    """
    changed = False
    for what in SOFT_LIMITS:
        try:
            before, hard = resource.prlimit(pid, what)
            soft = limits.get(what, hard)
            if hard != resource.RLIM_INFINITY:
                soft = min(soft, hard) if soft != resource.RLIM_INFINITY else hard
            lent = LENT_FILES if what == resource.RLIMIT_NOFILE else 0
            more = soft != resource.RLIM_INFINITY and (
                before == resource.RLIM_INFINITY or before > soft + lent
            )
            if soft != before if exactly else more and what != resource.RLIMIT_DATA:
                set_soft_limit(pid, first, what, soft)
                changed = True
        except ProcessLookupError:
            break
        except OSError:
            changed = True  # it has lowered its own hard limit meanwhile
    return changed


def place_threads(pid: int, first: int, processors: set[int], *, exactly: bool) -> bool:
    """Keep every thread of a process on these processors; tell whether any was on others.

    One that can't be set keeps the others from nothing.
    """
    changed = False
    with contextlib.suppress(OSError):
        for thread in map(int, os.listdir(f"/proc/{pid}/task")):
            with contextlib.suppress(OSError):
                allowed = os.sched_getaffinity(thread)
                if allowed != processors if exactly else allowed - processors:
                    set_processors(thread, first, processors)
                    changed = True
    return changed
