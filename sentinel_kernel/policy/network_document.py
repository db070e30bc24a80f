"""The hosts of a profile: strict JSON to rules; and which of two profiles gives more of them."""

from __future__ import annotations

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.network import PUBLIC, HostRule, NetworkPolicy, kind_of, parse_rule
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.json_document import Reader
    from sentinel_kernel.policy.profile import Network

_MOST_HOSTS, _LONGEST = 200, 300


def read_hosts(network: Reader, base: Network) -> Network:
    """Return ``base`` with the hosts of ``network`` on top: they add up, as all lists of a profile do.

    Raises:
        ProfileError: a rule of hosts is none, or it names hosts that can't be looked up.

    """
    hosts = []
    texts = network.list_of_texts("hosts", _LONGEST)
    if len(texts) > _MOST_HOSTS:
        raise ProfileError(
            f"{len(texts)} rules of hosts are more than {_MOST_HOSTS}.",
            network.place("hosts"),
            'Write "*.example.org".',
        )
    for index, text in enumerate(texts):
        try:
            hosts.append(parse_rule(text).text)
        except ValueError as error:
            raise ProfileError(
                f"{text[:60]!r} is no rule of hosts: {error}.",
                network.place(f"hosts[{index}]"),
                'Write "example.org:443", "*.example.org", "192.0.2.0/24:5432" or "[2001:db8::1]:443".',
            ) from None
    result = replace(base, hosts=tuple(dict.fromkeys((*base.hosts, *hosts))))
    if result.allow and not result.allow_dns and any(parse_rule(text).name for text in result.hosts):
        raise ProfileError(
            "Hosts are listed by name, and no name may be looked up.",
            network.place("hosts"),
            'Write "allow_dns": true.',
        )
    return result


def rules_of(network: Network, granted: Iterable[str] = ()) -> tuple[HostRule, ...]:
    """Return the rules in force: those of the profile, if it lets anything out, and those of the person's own."""
    texts = dict.fromkeys((*network.hosts, *granted) if network.allow else ())
    return tuple(parse_rule(text) for text in texts)


def policy_of(network: Network, own: frozenset[bytes], granted: Iterable[str] = ()) -> NetworkPolicy:
    """Return who may be reached on a machine with the addresses ``own``."""
    return NetworkPolicy(rules_of(network, granted), own)


def hosts_beyond(network: Network, ceiling: Network) -> tuple[str, ...]:
    """Return the rules of ``network`` that give hosts which ``ceiling`` does not."""
    if not network.hosts or not network.allow:
        return ()
    given = rules_of(ceiling)
    return tuple(rule.text for rule in rules_of(network) if not any(_holds(one, rule) for one in given))


def is_given(rule: HostRule, network: Network) -> bool:
    """Tell whether ``network`` gives all that ``rule`` does."""
    return any(_holds(one, rule) for one in rules_of(network))


def _holds(outer: HostRule, inner: HostRule) -> bool:
    """Tell whether ``outer`` gives all that ``inner`` does; what is not certain counts as no."""
    if not (outer.first_port <= inner.first_port and inner.last_port <= outer.last_port):
        return False
    if inner.name:
        if not outer.name:
            return False
        if outer.below:
            return inner.name.endswith(f".{outer.name}") or (inner.below and inner.name == outer.name)
        return not inner.below and inner.name == outer.name
    if not outer.has_address(inner.network) or outer.prefix > inner.prefix:
        return False
    # A wide range means public addresses alone (policy/network.py): it does not hold a narrow one that lists others.
    return (outer.network, outer.prefix) == (inner.network, inner.prefix) or _is_one_public(inner)


def _is_one_public(rule: HostRule) -> bool:
    """Tell whether the range is a single address, and public."""
    return rule.prefix == len(rule.network) * 8 and kind_of(rule.network) == PUBLIC
