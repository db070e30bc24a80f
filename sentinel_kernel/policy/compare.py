"""Comparing policies: what else would allow a call, and whether one policy stays within another."""

from __future__ import annotations

import os.path
from functools import lru_cache

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.bpf import arguments_to_try
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.resources import limit_names
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sentinel_kernel.policy.compiled import CompiledPolicy, CompiledRule
    from sentinel_kernel.policy.profile import Network, Profile

_LETS_THROUGH = (ActionKind.ALLOW, ActionKind.LOG)
_MAY_LET_THROUGH = (*_LETS_THROUGH, ActionKind.ASK)


@lru_cache(maxsize=64)
def compiled(profile: Profile, machine: str, rung: str = "full") -> CompiledPolicy:
    """Return :func:`compile_policy`'s result, made once for each profile, machine and rung of isolation."""
    if rung != "full":
        from sentinel_kernel.policy.rung import rules_of  # noqa: PLC0415 - few kernels are on a lesser one

        return compile_policy(profile, machine, rules_of(same_user=True))
    return compile_policy(profile, machine)


def lets_through(policy: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether ``policy`` lets the native call ``number`` with these registers take effect."""
    return policy.decide(policy.architecture.audit_arch, number, arguments).action.kind in _LETS_THROUGH


def may_let_through(policy: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether the call takes effect, or would if the person were asked and agreed."""
    return policy.decide(policy.architecture.audit_arch, number, arguments).action.kind in _MAY_LET_THROUGH


def _exceeds(inner: CompiledPolicy, outer: CompiledPolicy, number: int, arguments: Sequence[int]) -> bool:
    """Tell whether ``inner`` gives a call that ``outer`` does not: an answer of the person counts as given."""
    if lets_through(inner, number, arguments):
        return not lets_through(outer, number, arguments)
    return may_let_through(inner, number, arguments) and not may_let_through(outer, number, arguments)


@lru_cache(maxsize=64)
def is_within(profile: Profile, ceiling: Profile, machine: str) -> bool:
    """Tell whether ``profile`` gives nothing that ``ceiling`` does not give.

    Compared are the calls (at the edges of every argument test of both), the network, and the folders.
    """
    if profile.name == ceiling.name:
        return True
    more = _beyond(profile, ceiling)
    return not (
        more.network
        or more.names
        or more.hosts
        or more.requests
        or more.folders
        or more.unhidden
        or more.commits
        or more.outputs
    ) and not any(_calls_beyond(profile, ceiling, machine))


class Surplus(Record):
    """What one profile gives that another does not."""

    calls: tuple[str, ...] = ()
    """Calls that take effect, at least with some arguments, or would if the person agreed."""
    network: bool = False
    names: bool = False
    """Whether names may be looked up."""
    hosts: tuple[str, ...] = ()
    """Rules of hosts (policy/network.py) that can be reached."""
    requests: tuple[str, ...] = ()
    """Requests of HTTP that are passed on, secrets that are added to them."""
    folders: tuple[str, ...] = ()
    unhidden: tuple[str, ...] = ()
    commits: bool = False
    """Whether new files that cells wrote reach the host by themselves."""
    outputs: tuple[str, ...] = ()
    """What outputs may do in the browser: scripts in frames, hosts, types, modules of widgets, comms."""


def surplus(profile: Profile, ceiling: Profile, machine: str) -> Surplus:
    """Return what ``profile`` gives that ``ceiling`` does not; nothing where :func:`is_within` holds."""
    return replace(_beyond(profile, ceiling), calls=tuple(_calls_beyond(profile, ceiling, machine)))


def _beyond(profile: Profile, ceiling: Profile) -> Surplus:
    """Return what ``profile`` gives more besides calls."""
    folders = set(ceiling.filesystem.mounts)
    hidden = set(profile.filesystem.hidden)
    tree = profile.filesystem.rootfs
    return Surplus(
        network=profile.network.allow and not ceiling.network.allow,
        names=profile.network.allow_dns and not ceiling.network.allow_dns,
        hosts=_hosts_beyond(profile, ceiling),
        requests=_requests_beyond(profile.network, ceiling.network),
        folders=(
            *(f"{one.path} ({one.mode})" for one in profile.filesystem.mounts if one not in folders),
            *([f"{tree} (rootfs)"] if tree not in ("", ceiling.filesystem.rootfs) else []),
        ),
        unhidden=tuple(path for path in ceiling.filesystem.hidden if path not in hidden),
        commits=profile.filesystem.commit != "none" and ceiling.filesystem.commit == "none",
        outputs=_outputs_beyond(profile, ceiling),
    )


def _requests_beyond(network: Network, most: Network) -> tuple[str, ...]:
    """Return the hosts of rules and the sources of secrets that are not word by word the ceiling's too."""
    rules = [f"HTTP {rule.host.text}" for rule in network.http if rule not in most.http]
    return (*rules, *(secret.source for secret in network.secrets if secret not in most.secrets))


def _outputs_beyond(profile: Profile, ceiling: Profile) -> tuple[str, ...]:
    if profile.outputs == ceiling.outputs:
        return ()
    from sentinel_kernel.policy.outputs_document import outputs_beyond  # noqa: PLC0415 - few profiles differ there

    return outputs_beyond(profile.outputs, ceiling.outputs)


def _hosts_beyond(profile: Profile, ceiling: Profile) -> tuple[str, ...]:
    if not profile.network.leads_out or profile.network == ceiling.network:
        return ()
    from sentinel_kernel.policy.network_document import hosts_beyond  # noqa: PLC0415 - for profiles with hosts alone

    return hosts_beyond(profile.network, ceiling.network)


def _calls_beyond(profile: Profile, ceiling: Profile, machine: str) -> Iterator[str]:
    """Yield the calls that ``profile`` gives where ``ceiling`` does not."""
    inner, outer = compiled(profile, machine), compiled(ceiling, machine)
    for number, rules in inner.rules.items():
        others = outer.rules.get(number, ())
        if not _decide_alike(rules, others) and any(
            _exceeds(inner, outer, number, arguments) for arguments in arguments_to_try((*rules, *others))
        ):
            yield rules[-1].syscall


def _decide_alike(rules: Sequence[CompiledRule], others: Sequence[CompiledRule]) -> bool:
    """Tell whether two profiles' rules of one call are the same but for where they are written: most are."""
    return len(rules) == len(others) and all(
        rule.action == other.action and rule.tests == other.tests
        for rule, other in zip(rules, others, strict=True)
    )


def no_larger(profile: Profile, ceiling: Profile) -> bool:
    """Tell whether no limit of ``profile`` is above the one that ``ceiling`` sets, on any machine."""
    return all(
        _at_most(getattr(profile.resources, name), getattr(ceiling.resources, name)) for name in limit_names()
    )


def _at_most(size: object, most: object) -> bool:
    """Compare two limits; a share of the memory and a number of bytes can't be told, and are not the same."""
    if most is None or size == most:
        return True
    if isinstance(size, str) and isinstance(most, str):
        return int(size[:-1]) <= int(most[:-1])
    return isinstance(size, int | float) and isinstance(most, int | float) and size <= most


def gives_more(policy: CompiledPolicy, than: CompiledPolicy) -> list[str]:
    """Return the names of the calls that ``policy`` lets take effect where the other does not, at least in part."""
    return [
        rules[-1].syscall
        for number, rules in policy.rules.items()
        if not _decide_alike(rules, than.rules.get(number, ()))
        and any(
            lets_through(policy, number, arguments) and not lets_through(than, number, arguments)
            for arguments in arguments_to_try((*rules, *than.rules.get(number, ())))
        )
    ]


def _network(profile: Profile) -> tuple[bool, bool, int]:
    return profile.network.allow, profile.network.allow_dns, len(profile.network.hosts)


def takes_fresh(old: Profile, new: Profile, *, fenced: bool) -> bool:
    """Tell whether a change of profile takes a fresh sandbox for sure: other folders, or another way out.

    ``fenced``: the sandbox was made for a way out, whatever profile it is under by now. What else depends on it, its
    filter and the memory in use, is known to the supervisor alone.
    """
    folders = replace(new.filesystem, commit=old.filesystem.commit) != old.filesystem
    way_out = (new.network.leads_out and not (fenced or old.network.leads_out)) or (
        (new.network.http, new.network.secrets, new.network.index)
        != (old.network.http, old.network.secrets, old.network.index)
    )
    return folders or way_out


def least_first(profiles: Iterable[Profile], machine: str) -> list[Profile]:
    """Return ``profiles`` with those that give least in front; of those that give alike, the shipped ones."""
    shipped = os.path.join(shipped_directory("profiles"), "")

    def key(profile: Profile) -> tuple[object, ...]:
        own = not profile.path.startswith(shipped)
        return _privileges(profile, machine), *_network(profile), own, profile.name

    return sorted(profiles, key=key)


@lru_cache(maxsize=64)
def _privileges(profile: Profile, machine: str) -> int:
    rules = compiled(profile, machine).rules.values()
    return sum(any(rule.action.kind in _LETS_THROUGH for rule in of_call) for of_call in rules)
