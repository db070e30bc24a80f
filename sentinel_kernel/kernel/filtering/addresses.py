"""Texts of widgets that a page may take for addresses: which ones would have it load from a host that is not listed."""

from __future__ import annotations

import re

_URL = re.compile(
    r"(?:https?|wss?|ftp):/|^(?:https?|wss?|ftp|file|blob|filesystem|vbscript):|^//|javascript:"
    r"|data:(?:text|application)|url\s*\(",
    re.IGNORECASE,
)
_UNREAD = re.compile(r"\A[\x00-\x20]+|[\t\n\r]")
"""What browsers skip in an address; a backslash is a slash to them (WHATWG URL, "URL parsing")."""

_LISTED = re.compile(
    r"\s*https://(\{s\}\.)?([a-z0-9.-]+)(?::443)?(?:[/?#][^\s<>\"']*)?\Z", re.IGNORECASE | re.ASCII
)
"""No scheme has letters beyond those of ASCII, and no other spaces are passed over before one."""

_SCHEMES = ("https", "wss", "ftp", "file", "filesystem", "blob", "data", "javascript", "vbscript")
_BEGINNINGS = "|".join(sorted({one[:length] for one in _SCHEMES for length in range(1, len(one) + 1)}))
_FILLED = re.compile(
    rf"(?:/|{_BEGINNINGS})\{{[\w -]+\}}|\{{[\w -]+\}}(?:/|[a-z]{{0,10}}(?::[^ ]|\{{))",
    re.IGNORECASE | re.ASCII,
)
"""A text that may become any address when its ``{name}`` is filled: scheme and host are not over before it.

Maps fill one from whatever of the layer's state its ``options`` name, the ``{s}`` of a host too (Leaflet,
Util.template; ipyleaflet, get_options). What fills it was judged by itself: alone, or before what goes on with
no scheme and no host, it is no address either.
"""

_PARTS = frozenset({"s", "subdomains"})
_ENDS_HOST = re.compile(r"[/\\?#]")
_USUAL = ("a.", "b.", "c.")
"""What Leaflet puts for ``{s}.`` unless told otherwise (L.TileLayer, ``subdomains``)."""


def loads(text: str, hosts: tuple[str, ...]) -> bool:
    """Tell whether a page that takes ``text`` for an address would load from another host than the listed ones."""
    read = _UNREAD.sub("", text).replace("\\", "/")
    if "{" in read and _FILLED.match(read) is not None:
        return True
    return _URL.search(read) is not None and not _is_listed(text, hosts)


def is_part(key: str) -> bool:
    """Tell whether texts at ``key`` of a layer's state are put where a host's address has ``{s}``."""
    return key.lower() in _PARTS  # ipyleaflet makes small letters of them (camel_case)


def ends_host(text: str) -> bool:
    """Tell whether a host that ``text`` is the beginning of would end in it."""
    return _ENDS_HOST.search(text) is not None


def _is_listed(value: str, hosts: tuple[str, ...]) -> bool:
    from sentinel_kernel.kernel.filtering.html import is_host_listed  # noqa: PLC0415 - when it is first needed

    found = _LISTED.match(value)
    if found is None:
        return False
    return all(is_host_listed(f"{part}{found[2].lower()}", hosts) for part in (_USUAL if found[1] else ("",)))
