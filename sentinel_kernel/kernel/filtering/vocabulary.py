"""The elements and attributes of HTML, and of SVG within it, that outputs may use in the page."""

from __future__ import annotations

SVG_TAGS = (
    "svg g defs symbol use title desc path rect circle ellipse line polyline polygon text tspan linearGradient "
    "radialGradient stop clipPath mask pattern marker"
)
TAGS = frozenset(
    (
        "a abbr acronym address article aside audio b bdi bdo big blockquote br button caption center cite code col "
        "colgroup data dd del details dfn div dl dt em fieldset figcaption figure font footer h1 h2 h3 h4 h5 h6 header "
        "hgroup hr i img input ins kbd label legend li main mark meter nav ol p picture pre "
        "progress q rp rt ruby s samp "
        "section small source span strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul var "
        f"video wbr {SVG_TAGS}"
    ).split()
)
QUIET = frozenset({"style", "html", "head", "body", "meta", "title"})
"""Elements that are no loss where they are left out."""

EVERYWHERE = frozenset(
    [
        "abbr",
        "align",
        "aria-hidden",
        "aria-label",
        "aria-labelledby",
        "aria-describedby",
        "aria-expanded",
        "aria-controls",
        "axis",
        "bgcolor",
        "border",
        "cellpadding",
        "cellspacing",
        "char",
        "class",
        "color",
        "cols",
        "colspan",
        "datetime",
        "dir",
        "disabled",
        "face",
        "headers",
        "height",
        "hidden",
        "high",
        "id",
        "lang",
        "low",
        "max",
        "min",
        "nowrap",
        "noshade",
        "open",
        "optimum",
        "reversed",
        "role",
        "rowspan",
        "rows",
        "rules",
        "scope",
        "size",
        "span",
        "start",
        "style",
        "summary",
        "tabindex",
        "title",
        "translate",
        "type",
        "valign",
        "value",
        "width",
        "checked",
        "for",
        "frame",
        "viewBox",
        "preserveAspectRatio",
        "d",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "points",
        "transform",
        "fill",
        "fill-opacity",
        "fill-rule",
        "stroke",
        "stroke-width",
        "stroke-linecap",
        "stroke-linejoin",
        "stroke-dasharray",
        "stroke-opacity",
        "opacity",
        "offset",
        "stop-color",
        "stop-opacity",
        "text-anchor",
        "dominant-baseline",
        "font-size",
        "font-family",
        "font-weight",
        "dx",
        "dy",
        "clip-path",
        "mask",
        "gradientTransform",
        "gradientUnits",
        "patternUnits",
        "clipPathUnits",
    ]
)
ATTRIBUTES = {
    "a": {"href", "name", "target"},
    "audio": {"src", "controls", "loop", "muted", "preload", "autoplay"},
    "img": {"src", "alt", "usemap"},
    "input": {"name"},
    "source": {"src"},
    "use": {"href", "xlink:href"},
    "video": {"src", "controls", "loop", "muted", "preload", "poster", "playsinline"},
}
REFERENCES = frozenset({"for", "headers", "aria-labelledby", "aria-describedby", "aria-controls"})
WORDS = frozenset({"abbr", "alt", "aria-label", "datetime", "href", "lang", "summary", "title", "value"})
"""Attributes that no reader takes for CSS, whatever they hold."""

LOWER_TAGS = frozenset(tag.lower() for tag in TAGS)
