"""One MIME bundle of the worker's: each representation is made harmless, or left out where it can't be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import held, recordings, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.filtering.work import Work
    from sentinel_kernel.policy.profile import Outputs

PASSING = frozenset(
    {
        "application/json",
        "application/vnd.jupyter.widget-view+json",
        "application/vnd.dataresource+json",
    }
)
_BITMAPS = re.compile(r"image/(?:png|jpe?g|gif|webp|bmp|avif|tiff|x-icon)")
_RECORDINGS = re.compile(r"(?:audio|video)/[a-z0-9.+-]+")
_VEGA = re.compile(r"application/vnd\.vega(?:lite)?\.v\d+\+json")
_LATER_VEGA = re.compile(r"application/vnd\.(vega(?:lite)?)\.v(?:[6-9][.+]json|[1-5]\.json)")
_TEXTS = ("application/vnd.jupyter.stdout", "application/vnd.jupyter.stderr", "application/vnd.jupyter.error")
_RECORDS = re.compile(r"application/(?:papermill|scrapbook)\.[a-z0-9./+-]+")
"""What tools leave in a notebook for themselves; no page shows it."""

_TYPE = re.compile(
    r"(?:text|image|audio|video|application|model|multipart|chemical)/[^\s/]+(?:/[^\s]+)?", re.IGNORECASE
)
_NOT_BASE64 = "\"<>'&\\"


def is_bundle(value: dict[str, Any]) -> bool:
    """Tell whether one of the object's keys is a MIME type, spelled as :func:`clean` takes it for one."""
    return any("/" in key and _TYPE.fullmatch(key.strip()) is not None for key in value)


def clean(data: dict[str, Any], rules: Outputs, work: Work) -> tuple[bool, set[str]]:
    """Make a bundle harmless in place; tell whether it was changed, and the kinds of what was held back."""
    changed, kinds = False, set()
    for key in list(data):
        value = data[key]
        kind = key.strip().lower()
        kind = kind if kind in rules.types else _known_to_pages(kind)
        made, held_back = _one(kind, value, rules, work)
        kinds |= held_back
        if made is value and key == kind:
            continue
        changed = True
        del data[key]
        if made is not None:
            data[kind] = made
    return changed, kinds


def _known_to_pages(kind: str) -> str:
    """Return the type by which a page knows a chart of a version that it has no name for yet.

    Altair 6 says ``application/vnd.vegalite.v6.json``, which no page draws; JupyterLab's names end with version 5,
    whose library draws what the next one's specs have in common with its own.
    """
    found = _LATER_VEGA.fullmatch(kind)
    return f"application/vnd.{found[1]}.v5+json" if found else kind


def clean_metadata(metadata: dict[str, Any], rules: Outputs) -> tuple[bool, set[str]]:
    """Leave what lays out in a bundle's metadata; tell whether it was changed, and the kinds of what was held back."""
    from sentinel_kernel.kernel.filtering import layout  # noqa: PLC0415 - most outputs have no metadata

    return layout.clean(metadata, rules.types)


def _one(kind: str, value: Any, rules: Outputs, work: Work) -> tuple[Any, set[str]]:  # noqa: ANN401, PLR0911 - what JSON holds; one a kind
    """Return what stands for ``value`` (None: nothing, the value itself: it passes), and what was held back."""
    if kind in PASSING or kind in rules.types:
        return value, set()
    if isinstance(value, list) and all(isinstance(line, str) for line in value) and not kind.endswith("json"):
        value = "".join(value)  # as notebooks keep texts
    handler = _text if kind in _TEXTS else _HANDLERS.get(kind)
    if handler is not None:
        if not isinstance(value, str):
            return None, {held.TYPE}
        return handler(value, rules) if work.takes(kind, value) else (None, {held.TOO_LONG})
    if _BITMAPS.fullmatch(kind):
        harmless = isinstance(value, str) and not any(mark in value for mark in _NOT_BASE64)
        return (value, set()) if harmless else (None, {held.TYPE})
    if _RECORDINGS.fullmatch(kind):
        return (
            (value, set())
            if isinstance(value, str) and recordings.is_text_of_one(value)
            else (None, {held.RECORDING})
        )
    if _VEGA.fullmatch(kind) or kind == "application/vnd.plotly.v1+json":
        return _chart(kind, value, rules.hosts, work)
    if _RECORDS.fullmatch(kind):
        return value, set()
    return None, held.named(held.TYPE, kind, *([":bokeh"] if "bokehjs_" in kind else []))


def _html(value: str, rules: Outputs) -> tuple[str | None, set[str]]:
    from sentinel_kernel.kernel.filtering import html  # noqa: PLC0415 - when it is first needed

    made, kinds = html.filtered(value, rules)
    return (value if made == value else made) or None, kinds


def _markdown(value: str, rules: Outputs) -> tuple[str | None, set[str]]:
    from sentinel_kernel.kernel.filtering import markdown  # noqa: PLC0415 - when it is first needed

    # Terminals that show it obey what is for them; taken out first, as nothing may be once it is judged.
    made, kinds = markdown.filtered(terminal.plain(value), rules.hosts)
    return value if made == value else made, kinds


def _latex(value: str, _rules: Outputs) -> tuple[str, set[str]]:
    from sentinel_kernel.kernel.filtering import markdown  # noqa: PLC0415 - when it is first needed

    made = markdown.latex(terminal.plain(value))
    return value if made == value else made, set()


def _svg(value: str, _rules: Outputs) -> tuple[str | None, set[str]]:
    from sentinel_kernel.kernel.filtering import svg  # noqa: PLC0415 - when it is first needed

    made, dropped = svg.clean(value)
    if not made:
        return None, {held.TOO_LONG}
    return made, {held.ACTIVE} if dropped else set()


def _diagram(value: str, _rules: Outputs) -> tuple[str | None, set[str]]:
    from sentinel_kernel.kernel.filtering import markdown  # noqa: PLC0415 - when it is first needed

    return (value, set()) if markdown.is_harmless_diagram(value) else (None, {held.REMOTE})


def _text(value: str, _rules: Outputs) -> tuple[str, set[str]]:
    return terminal.plain(value), set()


_HANDLERS: dict[str, Callable[[str, Outputs], tuple[str | None, set[str]]]] = {
    "text/plain": _text,
    "text/html": _html,
    "text/markdown": _markdown,
    "text/latex": _latex,
    "image/svg+xml": _svg,
    "text/vnd.mermaid": _diagram,
    "text/csv": _text,
}


def _chart(kind: str, value: Any, hosts: Sequence[str], work: Work) -> tuple[Any, set[str]]:  # noqa: ANN401 - what JSON holds
    """Return a chart if it loads nothing. It is sent again as it was read: settings of the page are taken out.

    What tags of its texts may do is taken out too.
    """
    from sentinel_kernel.kernel.filtering import chart_texts, specs  # noqa: PLC0415 - when it is first needed

    if not isinstance(value, dict):
        return None, {held.TYPE}
    before = value.get("usermeta"), value.get("config")
    is_plotly = "plotly" in kind
    if not (specs.clean_plotly if is_plotly else specs.clean_vega)(value, hosts):
        return None, held.named(held.REMOTE, kind, *specs.hosts(value))
    same = (value.get("usermeta"), value.get("config")) == before
    changed, kinds = chart_texts.clean(value, work) if is_plotly else (False, set[str]())
    if held.TOO_LONG in kinds:
        return None, kinds
    return (value if same and not changed else dict(value)), kinds
