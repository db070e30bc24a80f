"""Charts that a page draws from JSON (Vega, Vega-Lite, Plotly): data is data, what loads or leads elsewhere is not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.filtering import held, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

_VEGA_LOADS = frozenset(
    {"url", "href", "loader", "baseurl", "usermeta", "patch", "editorurl", "sourceheader", "sourcefooter"}
)
_PLOTLY_LOADS = frozenset(
    {"source", "src", "url", "href", "topojsonurl", "plotlyserverurl", "sourcelayer", "accesstoken"}
)
_MAP = re.compile(r"(?:.*mapbox|.*map|.*geo|choropleth)\d*", re.IGNORECASE)
_OUTLINED = ("choropleth", "scattergeo")
_OUTLINES_FROM = "cdn.plot.ly"
"""Where plotly.js takes outlines of countries (its attribute ``topojsonURL``, which pages alone set)."""

_SECURE = re.compile(r"https://([a-z0-9.-]+)(?:/|\Z)")
_MAP_PARTS = frozenset({"tiles", "sprite", "glyphs", "sources"})
"""Of a map's style, which is loaded with the map."""

_PATH = re.compile(r"[.\[]")
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
_ROWS: dict[str, type] = {"values": list, "datasets": dict}
_CONFIG = frozenset(
    {"responsive", "scrollZoom", "displayModeBar", "displaylogo", "staticPlot", "locale", "editable"}
)


def clean_vega(spec: dict[str, Any], hosts: Sequence[str] = ()) -> bool:
    """Take the page's settings out of a Vega or Vega-Lite spec; tell whether what is left loads nothing.

    Rows may come from the listed ``hosts``.
    """
    usermeta = layout.clean_usermeta(spec.pop("usermeta", None))  # options of the page that shows it
    if not _loads_nothing(spec, hosts):
        return False
    if usermeta:
        spec["usermeta"] = usermeta
    return True


def _loads_nothing(spec: dict[str, Any], listed: Sequence[str]) -> bool:
    waiting: list[Any] = [spec]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(one for one in value if isinstance(one, dict | list))
            continue
        for key, inner in value.items():
            lowered = key.lower()
            if isinstance(inner, _ROWS.get(key, ())):
                continue  # rows, whatever their columns are called
            if key == "url" and _is_listed(inner, listed):
                continue
            if lowered in _VEGA_LOADS or (lowered in ("mark", "type") and inner == "image"):
                return False
            if key == "bind" and _binds_elsewhere(inner):
                return False
            if isinstance(inner, str) and _is_elsewhere(inner) and key != "$schema":
                return False
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return True


def clean_plotly(figure: dict[str, Any], hosts: Sequence[str] = ()) -> bool:
    """Take out of a Plotly figure what its page may be set to; tell whether what is left loads nothing.

    Its texts are :mod:`chart_texts`'s to look at. Outlines of countries may come from their own host, where it is one
    of the listed ``hosts``.
    """
    outlines = _OUTLINES_FROM in hosts
    _clean_config(figure)
    waiting: list[Any] = [figure.get("data"), _without_styles(figure.get("layout")), figure.get("frames")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(one for one in value if isinstance(one, dict | list))
        elif isinstance(value, dict):
            for key, inner in value.items():
                # Buttons and frames name an attribute by its path: images[0].source
                name = _PATH.split(key.lower())[-1]
                if _is_of_a_map(name, inner) or (name in _PLOTLY_LOADS and not _is_harmless_source(inner)):
                    return False
                if name == "type" and _is_map(inner, outlines=outlines):
                    return False
                if isinstance(inner, dict | list):
                    waiting.append(inner)
                    waiting.extend(_named_by_path(name, inner))
    return True


def hosts(chart: dict[str, Any]) -> list[str]:
    """Return the first hosts that a chart that loads something names; what it draws is not looked at."""
    found: list[str] = []
    waiting: list[Any] = [chart]
    while waiting and len(found) <= held.MOST_NAMED:
        value = waiting.pop()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key in ("$schema", "values", "datasets", "x", "y", "z", "text", "customdata"):
                continue
            if key == "type" and inner in _OUTLINED:
                found.append(_OUTLINES_FROM)
            elif isinstance(inner, str) and "//" in inner:
                found.extend(held.hosts_in(inner))
            elif isinstance(inner, dict | list) and key != "template":
                waiting.append(inner)
    return list(dict.fromkeys(found))


def _is_listed(address: object, listed: Sequence[str]) -> bool:
    found = _SECURE.match(address) if isinstance(address, str) else None
    if found is None or not listed:
        return False
    from sentinel_kernel.kernel.filtering import html  # noqa: PLC0415 - where there is an address

    return html.is_host_listed(found[1], tuple(listed))


def _binds_elsewhere(bind: object) -> bool:
    """Tell whether an input of a Vega chart names an element to be put into: a selector finds it in the whole page."""
    if not isinstance(bind, dict):
        return False
    return any("element" in one for one in (bind, *(one for one in bind.values() if isinstance(one, dict))))


def _is_of_a_map(name: str, value: object) -> bool:
    """Tell whether an attribute is a map's style or shapes that are loaded: an address, a style, a part of one."""
    if name == "geojson":
        return isinstance(value, str)
    if name != "style":
        return name in _MAP_PARTS
    if isinstance(value, dict):
        return "layers" in value or "version" in value
    return isinstance(value, str) and (":" in value or "/" in value or "\\" in value)


def _clean_config(figure: dict[str, Any]) -> None:
    config = figure.get("config")
    if config is not None:
        figure["config"] = (
            {key: config[key] for key in _CONFIG & config.keys() if isinstance(config[key], bool | str)}
            if isinstance(config, dict)
            else {}
        )


def _is_elsewhere(text: str) -> bool:
    return "//" in text or "javascript:" in text.lower()


def _named_by_path(name: str, inner: Any) -> list[Any]:  # noqa: ANN401 - what JSON holds
    """Return what a button's two arguments set, as an object of one key."""
    pair = name in ("args", "args2") and isinstance(inner, list) and inner[1:] and isinstance(inner[0], str)
    return [{inner[0]: inner[1]}] if pair else []


def _is_map(kinds: object, *, outlines: bool) -> bool:
    """Tell whether a trace of this kind, or of one of these, loads a map; ``outlines`` of countries may be loaded."""
    harmless = ("treemap", "heatmap", *(_OUTLINED if outlines else ()))
    return any(
        isinstance(kind, str) and kind not in harmless and _MAP.fullmatch(kind) is not None
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    )


def _is_harmless_source(value: object) -> bool:
    """Tell whether ``value`` is a picture itself, or numbers (the links of a Sankey diagram)."""
    if isinstance(value, dict):
        return value.keys() <= {"dtype", "bdata", "shape"}
    if isinstance(value, list):
        return all(isinstance(one, int | float) for one in value)
    return isinstance(value, str) and _DATA.fullmatch(value) is not None


def _without_styles(layout_of: object) -> Any:  # noqa: ANN401 - what JSON holds
    """Return a layout without the types of its template's traces, which are styles: no trace comes of them.

    The style of one kind that says it is another stays: a trace without a type takes it from there.
    """
    template = layout_of.get("template") if isinstance(layout_of, dict) else None
    styles = template.get("data") if isinstance(template, dict) else None
    if not isinstance(layout_of, dict) or not isinstance(template, dict) or not isinstance(styles, dict):
        return layout_of
    looked_at = [
        {key: value for key, value in style.items() if key != "type" or value != kind}
        if isinstance(style, dict)
        else style
        for kind, some in styles.items()
        for style in (some if isinstance(some, list) else [some])
    ]
    return [layout_of | {"template": template | {"data": looked_at}}]
