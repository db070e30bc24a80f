"""What is typed behind `%sentinel_allow` and `%sentinel_net`."""

from __future__ import annotations

from sentinel_kernel.record import Record

ALLOW, NET = "sentinel_allow", "sentinel_net"
USAGE = {ALLOW: " HOST[:PORT] [--carry|--fresh]", NET: " [--json]"}


class NetworkWanted(Record):
    """What a line asks for: the hosts of ``rule`` (policy/network.py), or without one what was tried.

    ``how`` says what becomes of the variables where it takes a fresh sandbox (carry, fresh, or "": to be chosen).
    """

    rule: str = ""
    as_data: bool = False
    how: str = ""


def read_line(name: str, text: str) -> NetworkWanted | None:
    """Return what the line asks for, None where it is not understood."""
    words = text.split()
    if name == NET:
        return NetworkWanted(as_data=bool(words)) if words in ([], ["--json"]) else None
    how = words.pop()[2:] if len(words) == 2 and words[1] in ("--carry", "--fresh") else ""
    if len(words) != 1:
        return None
    from sentinel_kernel.policy.network import parse_rule  # noqa: PLC0415 - not on the start path

    try:
        return NetworkWanted(parse_rule(words[0]).text, how=how)
    except ValueError:
        return None
