"""What a rule opens beyond one host of the internet, for who is asked to allow it; pure."""

from __future__ import annotations

from sentinel_kernel.policy.network import METADATA, PUBLIC, kind_of, parse_rule

_FEW_HOSTS = 256
"""A range of no more addresses is that of one network, as a rule."""

ALL, MANY, SUFFIX = "all", "many", "suffix"

OPENINGS = {
    ALL: ("this is every host of the internet", "这包括互联网上的所有主机"),
    MANY: ("this is {count} addresses, not one host", "这包括 {count} 个地址，而不是一台主机"),
    SUFFIX: (
        "this is every name that ends in {name}, whoever owns it",
        "这包括所有以 {name} 结尾的名称，无论归谁所有",
    ),
    METADATA: (
        "there a cloud gives out this machine's credentials, which cells could then read",
        "云平台在此发放本机的凭据，单元格将能读取这些凭据",
    ),
    "near": (
        "this is no host of the internet but of a network around this machine, which may trust who is in it",
        "这不是互联网主机，而属于本机周围的网络，该网络可能信任其中的任何访问者",
    ),
}
"""What is opened -> in words, English and Chinese."""


def opens(text: str) -> tuple[str, str]:
    """Return what the rule ``text`` opens, in English and in Chinese; empty texts for one host of the internet.

    Raises:
        ValueError: it is no rule.

    """
    rule = parse_rule(text)
    if not rule.network:
        # One label (``*.com``), or two short ones (``*.co.uk``), belong to nobody in particular.
        labels = rule.name.split(".")
        wide = rule.below and (len(labels) == 1 or (len(labels) == 2 and max(map(len, labels)) <= 3))
        return _said(SUFFIX, name=f".{rule.name}") if wide else ("", "")
    if rule.prefix == 0:
        return _said(ALL)
    kind = kind_of(rule.network)
    if kind != PUBLIC:
        return _said(METADATA if kind == METADATA else "near")
    count = 1 << (len(rule.network) * 8 - rule.prefix)
    return _said(MANY, count=f"{count:,}") if count > _FEW_HOSTS else ("", "")


def _said(what: str, **values: str) -> tuple[str, str]:
    english, chinese = OPENINGS[what]
    return english.format(**values), chinese.format(**values)
