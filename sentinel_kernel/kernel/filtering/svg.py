"""SVG pictures of outputs, written anew from what is known to be a picture alone: no script, no link, nothing loaded.

Frontends show it in an image or put it into the page; converters put it into HTML. What is written here means the same
as XML and as HTML: no CDATA, no entities of its own, no foreign content.
"""

from __future__ import annotations

import hashlib
import re
from xml.parsers import expat

from sentinel_kernel.kernel.filtering import css

MOST_CHARACTERS = 8 * 1024 * 1024

_SVG = "http://www.w3.org/2000/svg "
_XLINK = "http://www.w3.org/1999/xlink "
_XML = "http://www.w3.org/XML/1998/namespace "

_ELEMENTS = frozenset(
    [
        "svg",
        "g",
        "defs",
        "symbol",
        "use",
        "title",
        "desc",
        "path",
        "rect",
        "circle",
        "ellipse",
        "line",
        "polyline",
        "polygon",
        "text",
        "tspan",
        "textPath",
        "image",
        "linearGradient",
        "radialGradient",
        "stop",
        "clipPath",
        "mask",
        "pattern",
        "marker",
        "style",
        "filter",
        "feBlend",
        "feColorMatrix",
        "feComponentTransfer",
        "feComposite",
        "feFlood",
        "feFuncA",
        "feFuncB",
        "feFuncG",
        "feFuncR",
        "feGaussianBlur",
        "feMerge",
        "feMergeNode",
        "feMorphology",
        "feOffset",
        "feTile",
        "feTurbulence",
        "feDropShadow",
        "switch",
        "view",
        "a",
    ]
)
_PLAIN_ATTRIBUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_DATA_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_LOCAL = re.compile(r"#[\w:.-]+")
_DEEPEST = 256
_MOST_ELEMENTS, _MOST_ATTRIBUTES = 60_000, 300_000
"""In a document: each costs some microseconds of the host's time."""


def clean(text: str) -> tuple[str, bool]:
    """Return the picture, and whether anything was left out; an empty text where it is none.

    A document that is not well-formed, too deep or too long is no picture.
    """
    if len(text) > MOST_CHARACTERS:
        return "", True
    start = text.find("<svg")
    if start < 0:
        return "", True
    # What stands before (a declaration, a document type with entities) is not needed.
    text = text[start:].rstrip("\0 \n\r\t")
    head = text[: text.find(">") + 1]
    if "xmlns=" not in head:
        text = text.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    if "xlink:" in text and "xmlns:xlink" not in head:
        text = text.replace("<svg", '<svg xmlns:xlink="http://www.w3.org/1999/xlink"', 1)
    writer = _Writer("so-" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.characters
    parser.StartDoctypeDeclHandler = writer.refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except (expat.ExpatError, _Refused):
        return "", True
    return writer.text(), writer.dropped


class _Refused(Exception):
    """The document is not one that is shown."""


class _Writer:
    """Writes what it is told of, as far as it is known."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._elements = self._attributes = self._sheets = 0
        self.dropped = False
        self._parts: list[str] = []
        self._depth = 0
        self._skipping = 0
        self._style: list[str] | None = None

    def text(self) -> str:
        return "".join(self._parts)

    def refuse(self, *_arguments: object) -> None:
        raise _Refused

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        self._attributes += len(attributes)
        if self._depth > _DEEPEST or self._elements > _MOST_ELEMENTS or self._attributes > _MOST_ATTRIBUTES:
            raise _Refused
        if self._skipping or not name.startswith(_SVG) or name[len(_SVG) :] not in _ELEMENTS:
            # RDF metadata and editors' own elements are no loss.
            self.dropped |= name.startswith(_SVG) and name[len(_SVG) :] != "metadata"
            self._skipping += 1
            return
        tag = name[len(_SVG) :]
        if tag == "style":
            self._style = []
            return
        written = []
        if self._depth == 1:
            written = [f'xmlns="{_SVG.strip()}" xmlns:xlink="{_XLINK.strip()}" data-scope="{self._scope}"']
        written += [one for key, value in attributes.items() if (one := self._attribute(tag, key, value))]
        self._parts.append(f"<{' '.join(('g' if tag == 'a' else tag, *written))}>")

    def end(self, name: str) -> None:
        self._depth -= 1
        if self._skipping:
            self._skipping -= 1
            return
        tag = name[len(_SVG) :]
        if self._style is not None:
            self._end_style("".join(self._style))
            self._style = None
            return
        self._parts.append(f"</{'g' if tag == 'a' else tag}>")

    def characters(self, text: str) -> None:
        if self._skipping:
            return
        if self._style is not None:
            self._style.append(text)
        else:
            self._parts.append(_escape(text))

    def _end_style(self, text: str) -> None:
        self._sheets += len(text)
        if self._sheets > css.MOST_CHARACTERS:
            raise _Refused
        rules, dropped, _moves = css.scoped(text, self._scope)
        self.dropped |= dropped
        # The picture may have an id of its own, which its parts name; its scope is therefore another attribute.
        own = f"svg[data-scope='{self._scope}']"
        self._parts.append(f"<style>{_escape(rules.replace(f'#{self._scope}', own))}</style>")

    def _attribute(self, tag: str, key: str, value: str) -> str:  # noqa: PLR0911 - one a kind
        if key in ("href", f"{_XLINK}href"):
            if _LOCAL.fullmatch(value) or (tag == "image" and _DATA_IMAGE.fullmatch(value)):
                return f'xlink:href="{_escape(value)}"'
            self.dropped |= tag != "a"
            return ""
        if key == f"{_XML}space":
            return f'xml:space="{_escape(value)}"'
        if " " in key or not _PLAIN_ATTRIBUTE.fullmatch(key) or key.lower().startswith("on"):
            self.dropped |= key.lower().startswith("on")
            return ""
        if key.lower() in ("class", "id") or key.startswith("data-"):
            return f'{key}="{_escape(value)}"' if not key.startswith("data-") else ""
        if key == "style":
            kept, dropped, _moves = css.declarations(value)
            self.dropped |= dropped
            return f'style="{_escape(kept)}"' if kept else ""
        lowered = value.lower()
        # Attributes are CSS, whose escapes spell url() in many ways.
        if not key.startswith("aria-") and ("\\" in value or ("(" in value and not css.is_value(value))):
            self.dropped = True
            return ""
        if "://" in value or "javascript:" in lowered or "//" in value:
            self.dropped = True
            return ""
        return f'{key}="{_escape(value)}"'


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
