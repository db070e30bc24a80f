"""Judges what a call comes to: system calls by the policy, network addresses, and places that are written."""

from __future__ import annotations

import errno
import posixpath
import re

from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.in_words import reaches_itself
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.preflight_finding import Facts, Judged, subject
from sentinel_kernel.policy.preflight_names import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sentinel_kernel.policy.compiled import CompiledRule

_AF_INET, _SOCK_STREAM = 2, 1
_URL = re.compile(
    r"(?P<scheme>https?|ftps?|wss?|ssh|git)://(?:[^/@?#\s]*@)?(?P<host>\[[^\]]*\]|[^/:?#\s]*)(?P<end>[/:?#]?)"
)
_DOTTED = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_INSIDE = frozenset(("", "localhost", "sentinel", "ip6-localhost", "0.0.0.0", "::", "::1", "0"))  # noqa: S104 - names to compare with
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_ELSEWHERE = ("/dev", "/proc")
"""Where the sandbox has files of its own, and what can be written depends on which."""


class System:
    """The sandbox as preflight knows it."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._policy = facts.policy
        self.has_loopback = reaches_itself(facts.policy)
        """Whether network sockets can be had; they reach the sandbox, and the hosts that are listed."""
        self._network = facts.policy.profile.network
        self.installs = self._network.leads_out or bool(facts.granted) or facts.has_wheels
        """Whether packages may be had: which ones is not known here."""

    def syscall(
        self, name: str, what: str, arguments: Mapping[int, int] | None = None, *, raises: bool = True
    ) -> Judged | None:
        """Return why the call is refused, with ``arguments`` as far as they are known; None where it may not be."""
        number = self._policy.architecture.syscalls.get(name)
        rule = None if number is None else self._deciding(number, arguments or {})
        if rule is None or not rule.action.refuses or rule.action.errno == errno.ENOSYS:
            return None  # what Linux may not have at all, programs do without
        kills = rule.action.kind is ActionKind.KILL
        return Judged(
            cause="call",
            kind="kill" if kills else "call",
            what=what,
            rule=_rule_text(rule, self._policy.profile_name),
            syscall=rule.syscall,
            registers=tuple((arguments or {}).get(index, 0) for index in range(6)),
            kills=kills,
            raises=raises,
        )

    def numbered(self, number: int, what: str, arguments: Mapping[int, int]) -> Judged | None:
        """Return why call ``number``, made by syscall(2), is refused."""
        names = (name for name, value in self._policy.architecture.syscalls.items() if value == number)
        name = next(names, None)
        return None if name is None else self.syscall(name, what, arguments, raises=False)

    def _deciding(self, number: int, arguments: Mapping[int, int]) -> CompiledRule | None:
        """Return the rule that decides, or the first of those that may where all of them refuse alike."""
        possible: list[CompiledRule] = []
        for rule in self._policy.rules.get(number, ()):
            known = [test for test in rule.tests if test.index in arguments]
            if any(arguments[test.index] & test.mask != test.value for test in known):
                continue
            possible.append(rule)
            if len(known) == len(rule.tests):
                break
        if not possible or any(rule.action.refuses != possible[0].action.refuses for rule in possible):
            return None
        # That it kills is only said where it can't be otherwise.
        return min(possible, key=lambda rule: rule.action.kind is ActionKind.KILL)

    def host(self, host: Text | None, what: str, *, always: bool, raises: bool = True) -> Judged | None:
        """Return why a connection to ``host`` fails; ``always`` tells that one is made whatever the host is."""
        name = None if host is None or not host.complete else host.value.strip("[]").lower()
        remote = name is not None and name not in _INSIDE and not _is_loopback(name)
        if name is not None and remote and not (_HOST_NAME.fullmatch(name) or ":" in name):
            return None  # no name at all: that it fails is not the sandbox's doing
        about = subject("host", name) if name else None
        if not self.has_loopback and (remote or always):
            refused = self.syscall("socket", what, {0: _AF_INET, 1: _SOCK_STREAM}, raises=raises)
            if refused is not None:
                return _about(refused, "network", about)
        if not remote or name is None:
            return None
        if self._leads_out:
            return self._refused_host(name, what, raises=raises)
        numeric = _DOTTED.fullmatch(name) is not None or ":" in name
        return Judged(
            cause="network_unreachable" if numeric else "name_lookup",
            kind="outside",
            what=what,
            rule="network: the sandbox's own loopback alone",
            subject=about,
            raises=raises,
        )

    def name(self, host: Text | None, what: str) -> Judged | None:
        """Return why looking up ``host`` fails. Numbers and the sandbox's own names need no name server."""
        if host is None or not host.complete or not _HOST_NAME.fullmatch(host.value):
            return None
        name = host.value.lower()
        if name in _INSIDE or _is_loopback(name) or _DOTTED.fullmatch(name):
            return None
        if self._leads_out:
            return self._refused_host(name, what, raises=True)
        return Judged("name_lookup", "outside", what, "network: no name server", subject("host", name))

    @property
    def _leads_out(self) -> bool:
        return self._network.leads_out or bool(self.facts.granted)

    def _refused_host(self, name: str, what: str, *, raises: bool) -> Judged | None:
        """Return that ``name`` is no host of the profile; ports are left open, and names that may lead to a range."""
        from sentinel_kernel.policy.network import host_name, parse_address  # noqa: PLC0415 - for profiles with hosts
        from sentinel_kernel.policy.network_document import rules_of  # noqa: PLC0415 - as above

        address, plain = parse_address(name), host_name(name)
        rules = [*rules_of(self._network, self.facts.granted), *(rule.host for rule in self._network.http)]
        if address is None and (not plain or "." not in plain):
            return None
        if any(rule.has_name(plain) if address is None else rule.has_address(address) for rule in rules):
            return None
        if address is None and any(rule.network for rule in rules):
            return None  # the name may lead to an address that is listed
        about = subject("host", name)
        return Judged("host_refused", "host", what, "network.hosts: not-listed", about, raises=raises)

    def url(self, url: Text | None, what: str, *, always: bool, raises: bool = True) -> Judged | None:
        """Return why fetching ``url`` fails; ``always`` tells that what is no URL would go to the network too."""
        match = None if url is None else _URL.match(url.value)
        if match is None or url is None:
            known = url is not None and (url.complete or ":" in url.value)
            return self.host(None, what, always=always and not known, raises=raises)
        complete = url.complete or bool(match["end"])
        return self.host(Text(match["host"], complete), what, always=True, raises=raises)

    def write(  # noqa: PLR0911 - one return a reason for knowing nothing
        self, path: Text | None, what: str, *, moved: bool = False, raises: bool = True
    ) -> Judged | None:
        """Return why ``path`` can't be written, None where it can or that is not known.

        ``moved`` tells that the working folder may be another than the notebook's.
        """
        if path is None or not path.value or "\0" in path.value:
            return None
        facts = self.facts
        if not path.value.startswith("/"):
            away = not path.complete or path.value.startswith(("~", "..")) or "/.." in path.value
            if facts.workspace_writable or moved or away or "://" in path.value:
                return None
            return _not_written("workspace", what, path.value, "allow_write_overlay = false", raises=raises)
        if not facts.writable or (not path.complete and ".." in path.value):
            return None
        place = posixpath.normpath(path.value)
        if path.complete:
            if any(is_within(place, folder) for folder in (*facts.writable, *_ELSEWHERE)):
                return None
        elif any(
            folder.startswith(path.value) or is_within(place, folder)
            for folder in (*facts.writable, *_ELSEWHERE)
        ):
            return None
        return _not_written("place", what, path.value, "root of the sandbox: read-only", raises=raises)


def _not_written(kind: str, what: str, path: str, rule: str, *, raises: bool) -> Judged:
    return Judged("path_read_only", kind, what, rule, subject("path", path), raises=raises)


def _about(judged: Judged, kind: str, about: tuple[str, str] | None) -> Judged:
    return Judged(
        judged.cause,
        judged.kind if judged.kills else kind,
        judged.what,
        judged.rule,
        about,
        judged.syscall,
        judged.registers,
        judged.kills,
        judged.raises,
    )


def _rule_text(rule: CompiledRule, profile: str) -> str:
    tests = f" ({' and '.join(map(str, rule.tests))})" if rule.tests else ""
    return f"{rule.syscall}{tests}: {rule.action}, {rule.place or f'{profile}: {rule.origin}'}"


def _is_loopback(name: str) -> bool:
    return (_DOTTED.fullmatch(name) is not None and name.startswith("127.")) or name.startswith("::ffff:127.")
