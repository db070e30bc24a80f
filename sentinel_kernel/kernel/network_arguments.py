"""What is typed behind `%sentinel_allow` and `%sentinel_net`."""

from __future__ import annotations

from sentinel_kernel.errors import SentinelError
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


class NetworkTyped(SentinelError):
    """What is typed names no hosts that can be allowed; ``message`` says why in English, ``chinese`` in Chinese."""

    def __init__(self, message: str, chinese: str) -> None:
        super().__init__(message)
        self.chinese = chinese


def read_line(name: str, text: str) -> NetworkWanted | None:
    """Return what the line asks for, None where it is not understood.

    Raises:
        NetworkTyped: it names no hosts, or none that can be allowed.

    """
    words = text.split()
    if name == NET:
        return NetworkWanted(as_data=bool(words)) if words in ([], ["--json"]) else None
    how = words.pop()[2:] if len(words) == 2 and words[1] in ("--carry", "--fresh") else ""
    if not words:
        raise NetworkTyped("It names no host.", "没有写明主机。")
    if len(words) != 1:
        return None
    from sentinel_kernel.policy.network import parse_rule  # noqa: PLC0415 - not on the start path

    try:
        return NetworkWanted(parse_rule(words[0]).text, how=how)
    except ValueError as error:
        raise NetworkTyped(*_why_none(words[0], str(error))) from None


def _why_none(text: str, error: str) -> tuple[str, str]:
    """Return why ``text`` is no rule of hosts, as ``error`` says, in English and Chinese."""
    if "loopback" in error:
        return (
            "This machine's own services can't be allowed: localhost is the sandbox's own here.",
            "无法允许访问本机自身的服务：在这里 localhost 属于沙箱自身。",
        )
    if "://" in text or ("/" in text and "no range" in error):
        return "Leave out http:// and the path.", "请去掉 http:// 和路径。"
    if "no port" in error:
        return "Ports go from 1 to 65535.", "端口范围为 1 到 65535。"
    return f"{error[:1].upper()}{error[1:]}.", "这不是主机名、地址或地址范围。"
