"""Charts that a page draws from JSON (Vega, Vega-Lite, Plotly): data is data, what loads or leads elsewhere is not."""

from __future__ import annotations

import re
from typing import Any

from sentinel_kernel.kernel.filtering import layout

_VEGA_LOADS = frozenset(
    {"url", "href", "loader", "baseurl", "usermeta", "patch", "editorurl", "sourceheader", "sourcefooter"}
)
_PLOTLY_LOADS = frozenset(
    {"source", "src", "url", "href", "topojsonurl", "plotlyserverurl", "sourcelayer", "accesstoken"}
)
_MAP = re.compile(r"(?:.*mapbox|.*map|.*geo|choropleth)\d*", re.IGNORECASE)
_ELSEWHERE = re.compile(r"(?:https?:|wss?:)?//|javascript:", re.IGNORECASE)
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
_NAMES_OF_DATA = frozenset({"values", "datasets"})
_CONFIG = frozenset(
    {"responsive", "scrollZoom", "displayModeBar", "displaylogo", "staticPlot", "locale", "editable"}
)


def clean_vega(spec: dict[str, Any]) -> bool:
    """Take the page's settings out of a Vega or Vega-Lite spec; tell whether what is left loads nothing."""
    usermeta = layout.clean_usermeta(spec.pop("usermeta", None))  # options of the page that shows it
    if not _loads_nothing(spec):
        return False
    if usermeta:
        spec["usermeta"] = usermeta
    return True


def _loads_nothing(spec: dict[str, Any]) -> bool:
    waiting: list[Any] = [spec]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(one for one in value if isinstance(one, dict | list))
            continue
        for key, inner in value.items():
            lowered = key.lower()
            if key == "values" and isinstance(inner, list):
                continue  # rows, whatever their columns are called
            if key == "datasets" and isinstance(inner, dict):
                continue
            if lowered in _VEGA_LOADS or (lowered in ("mark", "type") and inner == "image"):
                return False
            if isinstance(inner, str) and _ELSEWHERE.search(inner) and key != "$schema":
                return False
            if isinstance(inner, dict | list):
                waiting.append(inner)
    return True


def clean_plotly(figure: dict[str, Any]) -> bool:
    """Take out of a Plotly figure what its page may be set to; tell whether what is left loads nothing."""
    config = figure.get("config")
    if config is not None:
        figure["config"] = (
            {key: config[key] for key in _CONFIG & config.keys() if isinstance(config[key], bool | str)}
            if isinstance(config, dict)
            else {}
        )
    waiting: list[Any] = [figure.get("data"), figure.get("layout"), figure.get("frames")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(one for one in value if isinstance(one, dict | list))
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key.lower() in _PLOTLY_LOADS and not (isinstance(inner, str) and _DATA.fullmatch(inner)):
                    return False
                if (
                    key == "type"
                    and isinstance(inner, str)
                    and _MAP.fullmatch(inner)
                    and inner not in ("treemap", "heatmap")
                ):
                    return False
                if (
                    isinstance(inner, str)
                    and "<" in inner
                    and re.search(r"(?i)href|javascript:|url\s*\(", inner)
                ):
                    return False
                if isinstance(inner, dict | list):
                    waiting.append(inner)
    return True
