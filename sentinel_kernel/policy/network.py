"""Which hosts a sandbox may reach: rules of a profile, and the decision about one connection; pure and total."""

from __future__ import annotations

import socket
from functools import lru_cache

from sentinel_kernel.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

MAXIMUM_NAME: Final = 253
"""The longest name of a host, without the dot at its end (RFC 1035, 2.3.4)."""

_MAXIMUM_LABEL: Final = 63
_LABEL_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_HIGHEST_PORT: Final = 65535
_MAPPED: Final = bytes(10) + b"\xff\xff"
_V4, _V6 = 4, 16
_LOOPBACK_IS_INSIDE: Final = (
    "loopback is the sandbox's own: this machine is reached by its address in the network, if it is listed"
)
_REMEMBERED: Final = 256
"""How many names and addresses are read once; a connection has its own read three times."""

PUBLIC, OWN, UNREADABLE = "public", "own", "unreadable"
LOOPBACK, METADATA, MULTICAST, RESERVED = "loopback", "metadata", "multicast", "reserved"
PRIVATE, LINK_LOCAL, SHARED = "private", "link-local", "shared"

LISTED, PORT, NOT_LISTED, NO_NETWORK = "listed", "port", "not-listed", "no-network"
FULL, UNWATCHED = "full", "unwatched"
"""An allowed host all the same: as many connections are open as may be; it can't be told which epoll sets watch the
program's socket, and the one in its place would be missed there."""


class HostRule(Record):
    """One entry of a profile's ``network.hosts``: a name, names below one, or a range of addresses; and ports."""

    text: str
    """As it is shown: lower case, numbers in their usual form."""
    name: str = ""
    below: bool = False
    """Whether it stands for the names below ``name`` (``*.example.org``), which itself is none of them."""
    network: bytes = b""
    """The first address of a range, 4 or 16 bytes; empty where the rule is one of names."""
    prefix: int = 0
    first_port: int = 1
    last_port: int = _HIGHEST_PORT

    def has_port(self, port: int) -> bool:
        """Tell whether ``port`` is one of the rule's."""
        return self.first_port <= port <= self.last_port

    def has_name(self, name: str) -> bool:
        """Tell whether the rule names ``name``, which :func:`host_name` has made."""
        if not self.name:
            return False
        return name.endswith(f".{self.name}") if self.below else name == self.name

    def has_address(self, address: bytes) -> bool:
        """Tell whether ``address`` lies in the rule's range."""
        return bool(self.network) and _within(address, self.network, self.prefix)


class Decision(Record):
    """Whether a connection is allowed; ``reason`` is listed, or why not (a kind of address, port, not-listed ...)."""

    allowed: bool
    reason: str
    rule: str = ""
    """The text of the rule that allows it."""


class NetworkPolicy(Record):
    """The hosts that a sandbox may reach; ``own`` are the addresses of this machine, in 4 or 16 bytes."""

    rules: tuple[HostRule, ...] = ()
    own: frozenset[bytes] = fresh(default_factory=frozenset)

    def resolves(self, name: str) -> bool:
        """Tell whether ``name`` may be looked up: a rule names it."""
        wanted = host_name(name)
        return bool(wanted) and any(rule.has_name(wanted) for rule in self.rules)

    def decide(self, name: str, address: bytes, port: int) -> Decision:
        """Return whether ``address`` (4 or 16 bytes) may be reached at ``port``; never raises.

        ``name`` is the one that was resolved to that very address, empty where there was none. What is not public
        needs a rule of its own that lists it by address, whatever name leads there.
        """
        address = plain_address(address)
        if len(address) not in (_V4, _V6) or not 0 < port <= _HIGHEST_PORT:
            return Decision(allowed=False, reason=UNREADABLE)
        if not self.rules:
            return Decision(allowed=False, reason=NO_NETWORK)
        kind = OWN if address in self.own else kind_of(address)
        if kind == LOOPBACK:
            return Decision(allowed=False, reason=LOOPBACK)
        wanted = host_name(name) if name else ""
        near = NOT_LISTED
        for rule in self.rules:
            if rule.has_address(address):
                if kind != PUBLIC and not _lists(rule, kind):
                    continue
            elif kind != PUBLIC or not wanted or not rule.has_name(wanted):
                continue
            if rule.has_port(port):
                return Decision(allowed=True, reason=LISTED, rule=rule.text)
            near = PORT
        return Decision(allowed=False, reason=near if kind == PUBLIC or near == PORT else kind)


def parse_rule(text: str) -> HostRule:
    """Return the rule that ``text`` is: ``NAME``, ``*.NAME``, an address or a range of them; ``:PORT`` or ``:A-B``.

    IPv6 with a port stands in brackets. Without a port, all are meant.

    Raises:
        ValueError: it is none; the message says what is wrong, for the person who wrote it.

    """
    text = text.strip()
    if "://" in text:
        meant = text.partition("://")[2].partition("/")[0]
        what = f"leave out http:// and the path: write {meant[:60] or 'example.org'}"
        raise ValueError(what)
    host, first, last, ports = _split(text)
    wild = host.startswith("*.")
    if host == "*":
        what = "a rule names hosts; '*' would be all there are"
        raise ValueError(what)
    address, slash, length = host.partition("/")
    number = None if wild else _numeric(address)
    if number is None:
        if slash:
            what = (
                f"{host[:60]!r} is no range of addresses: write 192.0.2.0/24 or [2001:db8::/32], and no path "
                "behind a host"
            )
            raise ValueError(what)
        name = host_name(host[2:] if wild else host)
        if not name:
            what = f"{host[:60]!r} is no name of a host, and no address"
            raise ValueError(what)
        if f".{name}".endswith(".localhost"):
            raise ValueError(_LOOPBACK_IS_INSIDE)
        return HostRule(f"{'*.' if wild else ''}{name}{ports}", name, wild, b"", 0, first, last)
    prefix = _prefix(length, len(number)) if slash else len(number) * 8
    if kind_of(number) == LOOPBACK and _lies_in(number, prefix, LOOPBACK):
        raise ValueError(_LOOPBACK_IS_INSIDE)
    if _first(number, prefix) != number:
        what = f"{host} has bits behind its first {prefix}: write {show_address(_first(number, prefix))}/{prefix}"
        raise ValueError(what)
    shown = show_address(number) + (f"/{prefix}" if slash and prefix < len(number) * 8 else "")
    if len(number) == _V6 and ports:
        shown = f"[{shown}]"
    return HostRule(
        f"{shown}{ports}", "", below=False, network=number, prefix=prefix, first_port=first, last_port=last
    )


@lru_cache(maxsize=_REMEMBERED)
def host_name(text: str) -> str:
    """Return ``text`` as a name of a host: lower case, ASCII, without a dot at its end; empty where it is none.

    What the C library would take for an address (``0x7f.1``) is none.
    """
    name = text.removesuffix(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return ""
    name = name.lower()
    labels = name.split(".")
    if (
        not 0 < len(name) <= MAXIMUM_NAME
        or not all(
            0 < len(label) <= _MAXIMUM_LABEL and _LABEL_CHARACTERS.issuperset(label) for label in labels
        )
        or _is_numeric_label(labels[-1])
        or _numeric(name) is not None
    ):
        return ""
    return name


def parse_address(text: str) -> bytes | None:
    """Return the address that the C library takes ``text`` for, in 4 or 16 bytes; None where it is none.

    Read are the short, octal, hexadecimal and decimal forms of inet_aton(3) too; IPv4 in IPv6 comes out as IPv4.
    """
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return _numeric(inner)


def plain_address(address: bytes) -> bytes:
    """Return ``address``, as the four bytes of IPv4 where it is that, mapped into IPv6."""
    if len(address) == _V6 and address.startswith(_MAPPED):
        return address[len(_MAPPED) :]
    return address


def show_address(address: bytes) -> str:
    """Return ``address`` (4 or 16 bytes) in its usual form."""
    return socket.inet_ntop(socket.AF_INET if len(address) == _V4 else socket.AF_INET6, address)


@lru_cache(maxsize=_REMEMBERED)
def kind_of(address: bytes) -> str:
    """Return what ``address`` is: public, or of which range that leads elsewhere than to a host of the internet.

    The ranges set aside for documentation (192.0.2.0/24, 2001:db8::/32 ...) count as public: they lead nowhere.
    """
    address = plain_address(address)
    if len(address) == _V4:
        return next((kind for kind, first, prefix in _RANGES_4 if _within(address, first, prefix)), PUBLIC)
    if len(address) != _V6:
        return UNREADABLE
    for first, prefix, start in _TRANSLATED:
        if _within(address, first, prefix):
            return kind_of(address[start : start + _V4])
    return next((kind for kind, first, prefix in _RANGES_6 if _within(address, first, prefix)), RESERVED)


def _lists(rule: HostRule, kind: str) -> bool:
    """Tell whether a range that holds an address of ``kind`` means it: 0.0.0.0/0 means no private ones.

    This machine's own addresses and those that give out a cloud's credentials are meant one by one alone.
    """
    if rule.prefix == len(rule.network) * 8:
        return True
    if kind in (OWN, METADATA):
        return False
    return _lies_in(rule.network, rule.prefix, kind)


def _lies_in(network: bytes, prefix: int, kind: str) -> bool:
    """Tell whether the range is part of one that is of ``kind`` as a whole."""
    ranges = _RANGES_4 if len(network) == _V4 else _RANGES_6
    return any(
        kind == other and prefix >= length and _within(network, first, length)
        for other, first, length in ranges
    )


def _split(text: str) -> tuple[str, int, int, str]:
    """Return host, first and last port of a rule, and the ports as they are shown."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            what = f"{text[:60]!r} has a bracket without its other half"
            raise ValueError(what)
        ports = rest[1:] if rest else None
    elif text.count(":") > 1:
        host, ports = text, None
    else:
        host, colon, behind = text.partition(":")
        ports = behind if colon else None
    if ports is None:
        return host, 1, _HIGHEST_PORT, ""
    low, dash, high = ports.partition("-")
    first = _port(low, ports)
    last = _port(high, ports) if dash else first
    if last < first:
        what = f"{ports!r} ends before it begins"
        raise ValueError(what)
    return host, first, last, f":{first}-{last}" if dash else f":{first}"


def _port(text: str, ports: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _HIGHEST_PORT:
        return int(text)
    what = f"{ports[:20]!r} is no port (ports go from 1 to {_HIGHEST_PORT}) and no range of them (8000-8999)"
    raise ValueError(what)


def _prefix(text: str, length: int) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= length * 8:
        return int(text)
    what = f"'/{text[:20]}' is no length of a range (0 to {length * 8})"
    raise ValueError(what)


def _numeric(text: str) -> bytes | None:
    if ":" in text:
        try:
            return plain_address(socket.inet_pton(socket.AF_INET6, text))
        except (OSError, ValueError):
            return None
    parts = text.split(".")
    if parts[-1] == "" and len(parts) > 1:
        parts.pop()
    if not 0 < len(parts) <= _V4:
        return None
    numbers = [_number(part) for part in parts]
    whole = [number for number in numbers if number is not None]
    if len(whole) < len(numbers) or any(number > 255 for number in whole[:-1]):
        return None
    rest = _V4 - (len(whole) - 1)
    if whole[-1] >= 1 << (8 * rest):
        return None
    return bytes(whole[:-1]) + whole[-1].to_bytes(rest, "big")


def _number(text: str) -> int | None:
    """Return one part of an address, as inet_aton(3) reads it."""
    if not text.isascii() or not text.isalnum() or len(text) > 16:
        return None
    try:
        if text[:2] in ("0x", "0X"):
            return int(text[2:] or "0", 16)
        return int(text, 8) if text.startswith("0") else int(text)
    except ValueError:
        return None


def _is_numeric_label(label: str) -> bool:
    """Tell whether a name that ends so is none: no top-level domain is a number (RFC 3696, 2)."""
    return label.isdigit() or (label.startswith("0x") and all(c in "0123456789abcdef" for c in label[2:]))


def _within(address: bytes, first: bytes, prefix: int) -> bool:
    if len(address) != len(first):
        return False
    shift = len(first) * 8 - prefix
    return int.from_bytes(address, "big") >> shift == int.from_bytes(first, "big") >> shift


def _first(address: bytes, prefix: int) -> bytes:
    shift = len(address) * 8 - prefix
    return (int.from_bytes(address, "big") >> shift << shift).to_bytes(len(address), "big")


def _ranges(family: int, table: Iterable[tuple[str, str]]) -> tuple[tuple[str, bytes, int], ...]:
    found = []
    for kind, text in table:
        first, _, prefix = text.partition("/")
        found.append((kind, socket.inet_pton(family, first), int(prefix)))
    return tuple(found)


# IANA's registries of special-purpose addresses, and where clouds give out credentials; the first that matches tells.
_RANGES_4 = _ranges(
    socket.AF_INET,
    (
        (METADATA, "169.254.169.254/32"),  # AWS, Azure, Google, OpenStack
        (METADATA, "169.254.170.2/32"),  # credentials of tasks on AWS ECS
        (METADATA, "169.254.170.23/32"),  # and of pods on EKS
        (METADATA, "100.100.100.200/32"),  # Alibaba
        (METADATA, "192.0.0.192/32"),  # Oracle
        (METADATA, "168.63.129.16/32"),  # Azure's platform
        (LOOPBACK, "127.0.0.0/8"),
        (LOOPBACK, "0.0.0.0/32"),
        (RESERVED, "0.0.0.0/8"),
        (PRIVATE, "10.0.0.0/8"),
        (PRIVATE, "172.16.0.0/12"),
        (PRIVATE, "192.168.0.0/16"),
        (SHARED, "100.64.0.0/10"),
        (LINK_LOCAL, "169.254.0.0/16"),
        (RESERVED, "192.0.0.0/24"),
        (RESERVED, "192.88.99.0/24"),
        (RESERVED, "198.18.0.0/15"),
        (MULTICAST, "224.0.0.0/4"),
        (RESERVED, "240.0.0.0/4"),
    ),
)
_RANGES_6 = _ranges(
    socket.AF_INET6,
    (
        (METADATA, "fd00:ec2::254/128"),
        (METADATA, "fd00:ec2::23/128"),
        (METADATA, "fd20:ce::254/128"),
        (LOOPBACK, "::/128"),
        (LOOPBACK, "::1/128"),
        (PRIVATE, "fc00::/7"),
        (PRIVATE, "64:ff9b:1::/48"),
        (LINK_LOCAL, "fe80::/10"),
        (PRIVATE, "fec0::/10"),
        (MULTICAST, "ff00::/8"),
        (RESERVED, "2001::/23"),
        (PUBLIC, "2000::/3"),
    ),
)
# IPv4 carried in IPv6 leads where the IPv4 does: (range, its length, where the four bytes begin).
_TRANSLATED = (
    (socket.inet_pton(socket.AF_INET6, "64:ff9b::"), 96, 12),
    (socket.inet_pton(socket.AF_INET6, "2002::"), 16, 2),
)
