"""HTTP rules of a profile: which requests the sandbox's proxy passes on, and which secrets it adds to them; pure."""

from __future__ import annotations

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.json_document import Reader
from sentinel_kernel.policy.network import HostRule, NetworkPolicy, host_name, parse_address, parse_rule
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.profile import Network

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Characters of methods and header names (RFC 9110, 5.6.2)."""

_NOTES = ("_", "comment", "$")
_NEVER_METHODS = frozenset({"TRACE", "TRACK"})
"""They send a request's headers back, and a secret is one of them."""

_NOT_SECRETS = frozenset(
    {
        *(
            "host",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
        ),
        *("expect", "proxy-authorization", "proxy-connection", "proxy-authenticate"),
    }
)
"""Headers that say how a message is framed or passed on: no secret can be one."""

ANY_PATH = "/*"

PORTS = {"https": 443, "http": 80}


class HttpRule(Record):
    """Requests that are passed on: ``methods`` (none: any but CONNECT) to ``host``, whose path matches ``path``.

    ``scheme`` is how the proxy speaks with the host. A cell always asks for ``http://HOST/PATH``: inside, nothing needs
    to be encrypted, and only so the proxy sees what is asked for. A rule with the method CONNECT opens a
    tunnel instead, in which only the host's name is known.
    """

    methods: tuple[str, ...]
    host: HostRule
    """With one port: the one that the proxy connects to."""
    scheme: str
    path: str

    @property
    def port(self) -> int:
        """Return the port of the host."""
        return self.host.first_port

    @property
    def text(self) -> str:
        """Return what is passed on, as it is shown: methods, host and path."""
        return (
            f"{', '.join(self.methods) or '*'} {self.host.text}{'' if self.path == ANY_PATH else self.path}"
        )

    def has_host(self, host: str) -> bool:
        """Tell whether the rule is about ``host``, a name in small letters or an address."""
        address = parse_address(host)
        return self.host.has_name(host) if address is None else self.host.has_address(address)


class Secret(Record):
    """A header that the proxy adds to requests to ``host``: ``prefix`` and what ``source`` holds."""

    host: HostRule
    header: str
    source: str
    """``env:NAME`` or ``keyring:SERVICE/NAME``, of the host."""
    prefix: str


def read_requests(reader: Reader, network: Network) -> Network:
    """Return ``network`` with the rules, secrets and index of a profile's section; rules are added to the parent's.

    Raises:
        ProfileError: one can't be used.

    """
    rules = network.http + tuple(_rule(item, place) for item, place in reader.objects("http"))
    secrets = list(network.secrets)
    for item, place in reader.objects("secrets"):
        secret = _secret(item, place)
        if not any(rule.has_host(secret.host.name) and rule.methods != ("CONNECT",) for rule in rules):
            raise ProfileError(
                f"No rule of 'http' passes requests to {secret.host.name} on, so that nothing can be added to them.",
                f"{place}.host",
                'Add one: {"method": "GET", "host": "' + secret.host.name + '", "path": "/*"}.',
            )
        secrets.append(secret)
    index = reader.text("index", network.index, maximum=1000)
    scheme, mark, rest = index.partition("://")
    if index and (
        scheme not in PORTS or not mark or not index.isascii() or not index.isprintable() or not rest
    ):
        raise ProfileError(
            "An index is the URL of its simple pages.",
            reader.place("index"),
            'Write "https://pypi.org/simple".',
        )
    if "@" in rest:
        raise ProfileError(
            "An index has no user name in its URL: cells would read it.",
            reader.place("index"),
            "Leave it out.",
        )
    return replace(network, http=rules, secrets=tuple(secrets), index=index)


def _rule(item: object, place: str) -> HttpRule:
    reader = Reader(item, place, free_prefixes=_NOTES)
    methods = _methods(reader, place)
    scheme = reader.choice("scheme", ("https", "http"), "https")
    usual = PORTS["https" if "CONNECT" in methods else scheme]
    host = _host(reader.text("host", maximum=300), f"{place}.host", usual)
    path = reader.text("path", ANY_PATH, maximum=1000)
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or "?" in path or "#" in path:
        raise ProfileError(
            "A path begins with '/' and is printable ASCII without '?' and '#'; '*' stands for anything.",
            f"{place}.path",
        )
    reader.finish()
    if methods == ("CONNECT",) and path != ANY_PATH:
        raise ProfileError(
            "Of a tunnel no path is known: it is encrypted.",
            f"{place}.path",
            "Leave 'path' out, or name the methods: then the cell asks for http://HOST/PATH, and the proxy encrypts.",
        )
    return HttpRule(methods, host, scheme, path)


def _methods(reader: Reader, place: str) -> tuple[str, ...]:
    """Return the methods of a rule: a text with commas between, ``*`` and nothing for any."""
    names = tuple(name.strip() for name in reader.text("method", "*", maximum=300).split(","))
    if names == ("*",):
        return ()
    for name in names:
        if not name or not _TOKEN.issuperset(name) or name != name.upper():
            raise ProfileError(
                f"{name[:60]!r} is no method.", f"{place}.method", 'Write "GET", "GET, HEAD" or "*".'
            )
        if name in _NEVER_METHODS:
            raise ProfileError(f"{name} is never passed on: it echoes secrets.", f"{place}.method")
    if "CONNECT" in names and len(names) > 1:
        raise ProfileError(
            "CONNECT stands alone: in a tunnel, the other methods can't be told apart.",
            f"{place}.method",
            "Write a rule of its own for CONNECT.",
        )
    return names


def _secret(item: object, place: str) -> Secret:
    reader = Reader(item, place, free_prefixes=_NOTES)
    host = _host(reader.text("host", maximum=300), f"{place}.host", 0)
    if host.below or host.network:
        raise ProfileError(
            "A secret is for one host.", f"{place}.host", "Give its name in full, without '*'."
        )
    header = reader.text("header", maximum=100)
    if not header or not _TOKEN.issuperset(header) or header.lower() in _NOT_SECRETS:
        raise ProfileError(
            f"{header[:60]!r} is no header for a secret.", f"{place}.header", 'Write "Authorization".'
        )
    source = reader.text("from", maximum=300)
    kind, _, name = source.partition(":")
    service, _, entry = name.partition("/")
    if not name.isprintable() or not (
        (kind == "env" and name.isidentifier()) or (kind == "keyring" and service and entry)
    ):
        raise ProfileError(
            "A secret comes from the host's environment or keyring.",
            f"{place}.from",
            'Write "env:API_TOKEN" or "keyring:SERVICE/NAME".',
        )
    prefix = reader.text("prefix", "", maximum=100)
    if not prefix.isascii() or not prefix.isprintable():
        raise ProfileError("A prefix is printable ASCII.", f"{place}.prefix", 'Write "Bearer ".')
    reader.finish()
    return Secret(host, header, source, prefix)


def _host(text: str, place: str, usual_port: int) -> HostRule:
    """Return the host; ``usual_port`` is the one where none is given (0: all)."""
    try:
        rule = parse_rule(text)
    except ValueError as error:
        raise ProfileError(f"{error}.", place, 'Write "api.example.org" or "api.example.org:8443".') from None
    if rule.first_port == rule.last_port:
        return rule
    if (rule.first_port, rule.last_port) != (1, 65535):
        raise ProfileError("An HTTP rule has one port.", place, "Write a rule for each.")
    if not usual_port:
        return rule
    return replace(rule, first_port=usual_port, last_port=usual_port)


def path_matches(pattern: str, path: str) -> bool:
    """Tell whether ``path`` matches; each ``*`` stands for any characters, ``/`` too."""
    first, *rest = pattern.split("*")
    if not rest:
        return path == pattern
    if not path.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        found = path.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(path) - at >= len(rest[-1]) and path.endswith(rest[-1])


class HttpPolicy(Record):
    """What the proxy passes on: what ``network`` lets programs reach themselves, and requests by ``rules``."""

    network: NetworkPolicy
    rules: tuple[HttpRule, ...] = ()
    secrets: tuple[Secret, ...] = ()

    def rule_for_request(self, method: str, host: str, port: int, path: str | None) -> HttpRule | None:
        """Return the first rule that passes a request for ``http://host:port/path`` on.

        ``path`` None is one that can be read in two ways: it matches rules for all paths alone. The port is
        the rule's own, or 80 where the rule's is its scheme's: cells leave it out.
        """
        for rule in self.rules:
            if rule.methods == ("CONNECT",) or not rule.has_host(host):
                continue
            if port != rule.port and not (port == PORTS["http"] and rule.port == PORTS[rule.scheme]):
                continue
            if rule.methods and method not in rule.methods:
                continue
            if rule.path == ANY_PATH or (path is not None and path_matches(rule.path, path)):
                return rule
        return None

    def rule_for_tunnel(self, host: str, port: int) -> HttpRule | None:
        """Return the first rule that opens a tunnel to ``host``."""
        for rule in self.rules:
            if rule.methods == ("CONNECT",) and rule.port == port and rule.has_host(host):
                return rule
        return None

    def tunnel_ports(self, host: str) -> tuple[int, ...]:
        """Return the ports to which rules open tunnels to ``host``, in their order."""
        found = (rule.port for rule in self.rules if rule.methods == ("CONNECT",) and rule.has_host(host))
        return tuple(dict.fromkeys(found))

    def names(self, host: str) -> bool:
        """Tell whether any rule is about ``host``: then a refusal is one of method, path or port."""
        return any(rule.has_host(host) for rule in self.rules)

    def reach(self, rule: HttpRule | None) -> NetworkPolicy:
        """Return what decides about the addresses of a request that ``rule`` passes on (None: no rule of HTTP)."""
        if rule is None:
            return self.network
        return replace(self.network, rules=(*self.network.rules, rule.host))

    def secrets_for(self, host: str, port: int) -> list[Secret]:
        """Return the secrets that a request to ``host`` gets."""
        return [secret for secret in self.secrets if secret.host.name == host and secret.host.has_port(port)]


def plain_host(text: str) -> str:
    """Return the host of a request as rules name it: small letters, no dot at its end; empty where it is none.

    What the C library alone would take for an address (``127.1``, ``0x7f.1``) is none.
    """
    address = parse_address(text)
    if address is None:
        return host_name(text)
    inner = text[1:-1] if text.startswith("[") else text
    return inner if ":" in inner or _is_dotted(inner) else ""


def _is_dotted(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(part.isdigit() and part == str(int(part)) for part in parts)
