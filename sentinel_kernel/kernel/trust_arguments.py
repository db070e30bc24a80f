"""What is typed behind `%sentinel_trust_output`."""

from __future__ import annotations

from sentinel_kernel.record import Record

TRUST = "sentinel_trust_output"
USAGE = {TRUST: " [scripts | HOST ... | off]"}
MOST_HOSTS = 20


class TrustWanted(Record):
    """What a line asks for: hosts that outputs may load from, scripts in frames, all of it back, or the page of it."""

    hosts: tuple[str, ...] = ()
    scripts: bool = False
    off: bool = False


def read_line(text: str) -> TrustWanted | None:
    """Return what the line asks for, None where it is not understood."""
    words = text.split()
    if words in (["scripts"], ["off"], []):
        return TrustWanted(scripts=words == ["scripts"], off=words == ["off"])
    from sentinel_kernel.policy.outputs_document import host_problem  # noqa: PLC0415 - not on the start path

    if len(words) > MOST_HOSTS or any(host_problem(word) for word in words):
        return None
    return TrustWanted(tuple(words))
