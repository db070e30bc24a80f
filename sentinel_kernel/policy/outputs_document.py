"""The section ``outputs`` of a profile: strict JSON to :class:`Outputs`; and which of two profiles gives more there."""

from __future__ import annotations

import re

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.profile import OUTPUT_HTML, Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.policy.json_document import Reader

_MOST, _LONGEST = 100, 200
_NAME = r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)"
_HOST = re.compile(rf"(?:\*\.)?{_NAME}(?:\.{_NAME})*\.[a-z][a-z0-9-]*[a-z0-9]")
_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+_-]*")
_WORD = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9._/-]*")
_NOT_TYPES = re.compile(
    r"(?:application|text)/(?:x-)?(?:java|ecma|j|live)script|application/(?:vnd|x)[.-]sentinel"
)
_OWN_NAMES = ("localhost", "local", "internal", "home", "lan", "arpa", "onion")
"""Last labels of names that lead to the person's own machine or network, where a GET may act."""


def read_outputs(document: Reader, base: Outputs) -> Outputs:
    """Return ``base`` with what ``document`` says on top: lists add up, as all lists of a profile do.

    Raises:
        ProfileError: something in it is not understood.

    """
    result = Outputs(
        javascript=document.choice("javascript", ("hold",), base.javascript),
        html=document.choice("html", OUTPUT_HTML, base.html),
        hosts=base.hosts + _texts(document, "hosts", _check_host, 'Write "cdn.plot.ly" or "*.example.org".'),
        types=base.types + _texts(document, "types", _check_type, 'Write "application/geo+json".'),
        widget_modules=base.widget_modules
        + _texts(document, "widget_modules", _check_word, 'Write "ipyvolume".'),
        comm_targets=base.comm_targets
        + _texts(document, "comm_targets", _check_word, 'Write "hv-extension-comm".'),
    )
    document.finish()
    return result


def host_problem(text: str) -> str:
    """Return why ``text`` is no host that outputs may load from; empty where it is one."""
    if not _HOST.fullmatch(text) or len(text) > _LONGEST:
        return "it is not the name of a host, in small letters, without a scheme, port or path"
    if text.rpartition(".")[2] in _OWN_NAMES:
        return "it is a name of this machine or network"
    if text.startswith("*.") and text.count(".") == 1:
        return "it would be every host of a whole domain"
    return ""


def outputs_beyond(inner: Outputs, outer: Outputs) -> tuple[str, ...]:
    """Return what ``inner`` lets outputs do that ``outer`` does not, in words of the profile."""
    if inner == outer:
        return ()
    more = [f"html: {inner.html}"] if OUTPUT_HTML.index(inner.html) > OUTPUT_HTML.index(outer.html) else []
    more += [host for host in inner.hosts if not any(holds(one, host) for one in outer.hosts)]
    for given, known in (
        (inner.types, outer.types),
        (inner.widget_modules, outer.widget_modules),
        (inner.comm_targets, outer.comm_targets),
    ):
        more += [one for one in given if one not in known]
    return tuple(dict.fromkeys(more))


def holds(listed: str, host: str) -> bool:
    """Tell whether the listed host, which may be ``*.``, gives ``host``."""
    return listed == host or (listed.startswith("*.") and host.removeprefix("*.").endswith(listed[1:]))


def _texts(document: Reader, key: str, problem: Callable[[str], str], remedy: str) -> tuple[str, ...]:
    texts = document.list_of_texts(key, _LONGEST)
    if len(texts) > _MOST:
        raise ProfileError(f"{len(texts)} are more than {_MOST}.", document.place(key))
    for index, text in enumerate(texts):
        if why := problem(text):
            raise ProfileError(
                f"{text[:60]!r} can't be listed: {why}.", document.place(f"{key}[{index}]"), remedy
            )
    return texts


def _check_host(text: str) -> str:
    return host_problem(text)


def _check_type(text: str) -> str:
    if not _TYPE.fullmatch(text):
        return "it is not a MIME type"
    return "no profile lets it pass" if _NOT_TYPES.match(text) else ""


def _check_word(text: str) -> str:
    return "" if _WORD.fullmatch(text) else "it is not a name"
