"""Metadata of outputs: sizes and the like, by a list for each type. All else is an option of the page's, and goes.

Pages hand metadata to the programs that draw: JupyterLab gives ``embed_options`` to vega-embed, which loads patches
and settings from addresses, writes style sheets into the page, and HTML into a window of the server's own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import held

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_SIZE = re.compile(r"\d{1,5}(?:\.\d{1,6})?(?:px|%|em)?")
_WORDS = re.compile(r"[^\x00-\x1f\x7f-\x9f<>\"'&`\\]{0,500}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,99}")
_VEGA = re.compile(r"application/vnd\.vega(?:lite)?\.v\d+\+json")
_MOST = 100_000


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST


def _is_size(value: object) -> bool:
    return _is_number(value) or (isinstance(value, str) and _SIZE.fullmatch(value) is not None)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _are_words(value: object) -> bool:
    return isinstance(value, str) and _WORDS.fullmatch(value) is not None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_background(value: object) -> bool:
    return value in ("light", "dark")


def _are_actions(value: object) -> bool:
    """Tell whether ``value`` says which entries a chart's menu has."""
    known = {"export", "source", "compiled", "editor", "png", "svg"}
    if not isinstance(value, dict):
        return isinstance(value, bool)
    return value.keys() <= known and all(
        isinstance(one, bool) or (isinstance(one, dict) and key == "export" and _are_actions(one))
        for key, one in value.items()
    )


_PICTURES: dict[str, Callable[[object], bool]] = {
    "width": _is_size,
    "height": _is_size,
    "needs_background": _is_background,
    "unconfined": _is_flag,
    "alt": _are_words,
    "expanded": _is_flag,  # of application/json, as is the next
    "root": _are_words,
}
_RECORDS: dict[str, Callable[[object], bool]] = {
    "name": _are_words,
    "data": _is_flag,
    "display": _is_flag,
    "mime_prefix": _are_words,
}
"""What scrapbook, MyST and papermill keep of an output, under ``scrapbook`` and ``papermill``; no page reads it."""

EMBEDDED: dict[str, Callable[[object], bool]] = {
    "actions": _are_actions,
    "mode": lambda value: value in ("vega", "vega-lite"),
    "renderer": lambda value: value in ("canvas", "svg"),
    "theme": lambda value: isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9]{1,30}", value) is not None,
    "width": _is_number,
    "height": _is_number,
    "padding": _is_number,
    "scaleFactor": _is_number,
    "downloadFileName": _is_name,
    "defaultStyle": _is_flag,
    "hover": _is_flag,
    "tooltip": _is_flag,
    "ast": _is_flag,
}
"""Options of vega-embed that load nothing, write nothing and reach no further than the chart."""


def clean(metadata: dict[str, Any], types: Collection[str] = ()) -> tuple[bool, set[str]]:
    """Clean a bundle's metadata in place; tell whether it was changed, and the kinds of what was held back.

    ``types`` are those that the profile lists: what they may hold, their metadata may.
    """
    changed, kinds = False, set[str]()
    for key, value in list(metadata.items()):
        if "/" in key and isinstance(value, dict):
            if key in types and not _VEGA.fullmatch(key):
                continue
            options = value.get("embed_options") if _VEGA.fullmatch(key) else None
            kept = _kept(value, _PICTURES)
            if isinstance(options, dict):
                kept["embed_options"] = _kept(options, EMBEDDED)
                kinds |= {held.ACTIVE} if kept["embed_options"] != options else set()
        elif key in ("scrapbook", "papermill") and isinstance(value, dict):
            kept = _kept(value, _RECORDS)
        elif key in _PICTURES and _PICTURES[key](value):
            continue
        else:
            del metadata[key]
            changed = True
            continue
        if kept != value:
            metadata[key] = kept
            changed = True
    return changed, kinds


def clean_usermeta(usermeta: object) -> dict[str, Any]:
    """Return what a Vega spec's ``usermeta`` may say to the page that embeds it; an empty one where that is nothing."""
    options = usermeta.get("embedOptions") if isinstance(usermeta, dict) else None
    kept = _kept(options, EMBEDDED) if isinstance(options, dict) else {}
    return {"embedOptions": kept} if kept else {}


def _kept(holder: dict[str, Any], known: dict[str, Callable[[object], bool]]) -> dict[str, Any]:
    return {key: value for key, value in holder.items() if key in known and known[key](value)}
