"""Style sheets and style attributes of outputs: what loads, covers the page or reaches other elements is left out.

A style sheet holds for the whole page. Each selector is therefore put below the output's own element; what is not
understood is dropped. This is no parser of CSS: it takes a subset in which braces, strings and comments mean the
same to every reader (CSS Syntax Level 3), and refuses the rest.
"""

from __future__ import annotations

import re
from functools import lru_cache

MOST_CHARACTERS = 512 * 1024
MOST_RULES, MOST_COMMAS, MOST_DECLARATIONS = 20_000, 100_000, 2000
MOST_REMEMBERED = 512
"""Characters of a text that a cache may keep: what is longer would fill the memory with what the code has sent."""

_STRINGS = re.compile(
    r"\"(?:[^\"\\\n\r\f<]++|\\[0-9A-Fa-f]{1,6}+ ?+)*+\"|'(?:[^'\\\n\r\f<]++|\\[0-9A-Fa-f]{1,6}+ ?+)*+'"
)
"""All that end a line end a string (CSS Syntax Level 3, "Preprocessing the input stream")."""

COMMENT = "/*"
"""Quotes within one are none, and within quotes it is none: where it stays, nothing is told of what is behind it."""

_NAME = re.compile(r"-?-?[a-zA-Z][a-zA-Z0-9-]*")
_FUNCTIONS = re.compile(r"(?<![a-zA-Z0-9-])([a-zA-Z0-9-]*+)\(")
_SAFE_FUNCTIONS = frozenset(
    [
        "rgb",
        "rgba",
        "hsl",
        "hsla",
        "hwb",
        "lab",
        "lch",
        "oklab",
        "oklch",
        "color",
        "color-mix",
        "light-dark",
        "calc",
        "min",
        "max",
        "clamp",
        "var",
        "minmax",
        "repeat",
        "fit-content",
        "linear-gradient",
        "radial-gradient",
        "conic-gradient",
        "repeating-linear-gradient",
        "repeating-radial-gradient",
        "cubic-bezier",
        "steps",
        "translate",
        "translatex",
        "translatey",
        "scale",
        "scalex",
        "scaley",
        "rotate",
        "matrix",
        "skew",
        "skewx",
        "skewy",
        "counter",
        "counters",
        "blur",
        "brightness",
        "contrast",
        "grayscale",
        "opacity",
        "saturate",
        "sepia",
        "invert",
        "drop-shadow",
        "hue-rotate",
        "attr",
        "circle",
        "ellipse",
        "inset",
        "polygon",
    ]
)
_VALUE = re.compile(r"[\w\s#.,%()/*+!'\"-]*")
_UNSAFE_NAMES = re.compile(
    r"-?-?(?:.*-)?(?:binding|behavior|src|anchor.*|animation.*|view-transition.*)", re.IGNORECASE
)
_CALM = re.compile(
    r"--[\w-]+|color|fill|fill-.*|stroke|stroke-.*|stop-.*|opacity|background(?:-.*)?|"
    r"font(?:-.*)?|text-(?:align|align-last|decoration.*|transform|overflow|anchor|rendering)|line-height|white-space|"
    r"word-(?:break|wrap)|overflow(?:-[xy]|-wrap)?|hyphens|direction|tab-size|quotes|"
    r"padding(?:-.*)?|border(?:-(?!image).*)?|(?:min-|max-)?(?:width|height)|box-sizing|aspect-ratio|object-fit|"
    r"display|visibility|float|clear|flex(?:-.*)?|order|gap|(?:row|column)-gap|(?:align|justify|place)-.*|"
    r"grid(?:-.*)?|columns?(?:-.*)?|table-layout|caption-side|empty-cells|list-style(?:-.*)?|break-.*|page-break-.*|"
    r"cursor|user-select|pointer-events|resize|accent-color|color-scheme|transition.*|image-rendering|shape-rendering|"
    r"dominant-baseline|appearance|-webkit-appearance|-(?:webkit|moz|ms)-user-select|-webkit-print-color-adjust|"
    r"print-color-adjust|-webkit-font-smoothing|-webkit-text-fill-color",
    re.IGNORECASE,
)
"""What changes an element where it stands. All else may paint elsewhere: in the page, over what it says itself."""

_AT_REST = re.compile(
    r"static|0|auto|none|normal|initial|inherit|unset|baseline|sub|super|top|middle|bottom|text-(?:top|bottom)"
)
_SPACED = re.compile(
    r"margin(?:-[a-z-]+)?|text-indent|letter-spacing|word-spacing|border-spacing", re.IGNORECASE
)
_SELECTOR = re.compile(r"[\w\s.#:*>+~\[\]=\"'^$|(),%-]+")
_ROOT = re.compile(r"(?::root|:host|html|body)((?:[.:#\[][^\s>+~]*)?)", re.IGNORECASE)
_ID = re.compile(r"#(?=[A-Za-z_-])")
_KEPT_AT = ("@media", "@supports", "@container")
_URL_OF_DATA = re.compile(
    r"url\(\s*(?:\"data:image/(?:png|gif|jpeg|webp);base64,[A-Za-z0-9+/=]*\"|"
    r"'data:image/(?:png|gif|jpeg|webp);base64,[A-Za-z0-9+/=]*'|"
    r"data:image/(?:png|gif|jpeg|webp);base64,[A-Za-z0-9+/=]*|\"?#[\w-]+\"?)\s*\)",
    re.IGNORECASE,
)
_DEEPEST = 4
_MOST_ANCESTORS = 3
_MOST_IN_NAME = 100


def declarations(text: str) -> tuple[str, bool, bool]:
    """Return the harmless declarations of ``text``, whether any was left out, and whether one moves the element."""
    return _brief_declarations(text) if len(text) <= MOST_REMEMBERED else _declarations(text)


def _declarations(text: str) -> tuple[str, bool, bool]:
    kept, dropped, moves = [], False, False
    if text.count(";") > MOST_DECLARATIONS:
        return "", True, False
    for one in _split(_without_comments(text), ";"):
        name, colon, value = one.partition(":")
        name, value = name.strip(), value.strip()
        if not colon:
            dropped |= bool(name)
        elif (checked := _value(name, value)) is None:
            dropped = True
        else:
            kept.append(f"{name}: {checked}")
            moves |= _moves(name, value)
    return "; ".join(kept), dropped, moves


_brief_declarations = lru_cache(maxsize=4096)(_declarations)


def scoped(text: str, scope: str, id_prefix: str = "") -> tuple[str, bool, bool]:
    """Return the style sheet ``text`` for what is inside ``#scope`` alone; the rest as :func:`declarations`."""
    if len(text) > MOST_CHARACTERS or text.count("{") > MOST_RULES or text.count(",") > MOST_COMMAS:
        return "", True, False
    rules: list[str] = []
    cleaned = _without_comments(text.replace("<!--", " ").replace("-->", " "))
    dropped, moves = _rules(cleaned, f"#{scope}", id_prefix, rules, 0)
    return "\n".join(rules), dropped, moves


def is_value(text: str) -> bool:
    """Tell whether ``text`` may be the value of any property."""
    return _value("color", text) is not None


def _without_comments(text: str) -> str:
    """Return ``text`` without comments; behind one that is not closed there is nothing."""
    parts, position = [], 0
    while (start := text.find("/*", position)) >= 0:
        parts.append(text[position:start])
        end = text.find("*/", start + 2)
        if end < 0:
            return " ".join(parts)
        position = end + 2
    parts.append(text[position:])
    return " ".join(parts)


def _value(name: str, value: str) -> str | None:
    """Return a property's value if both are harmless."""
    if (
        len(name) > _MOST_IN_NAME
        or not _NAME.fullmatch(name)
        or _UNSAFE_NAMES.fullmatch(name)
        or len(value) > 100_000
    ):
        return None
    bare = _URL_OF_DATA.sub("0", value) if "url" in value.lower() else value
    bare = _STRINGS.sub("0", bare)
    if not _VALUE.fullmatch(bare) or "'" in bare or '"' in bare or bare.count("(") != bare.count(")"):
        return None
    if "(" in bare and not all(one.lower() in _SAFE_FUNCTIONS | {""} for one in _FUNCTIONS.findall(bare)):
        return None
    if name.lower() == "position" and "fixed" in bare.lower():
        return None
    if "<" in value or COMMENT in value:
        return None
    return value


def _moves(name: str, value: str) -> bool:
    if _CALM.fullmatch(name):
        return False
    if _SPACED.fullmatch(name):
        return "-" in value or "(" in value
    return _AT_REST.fullmatch(value.lower().removesuffix("!important").rstrip()) is None


def _rules(text: str, scope: str, id_prefix: str, rules: list[str], depth: int) -> tuple[bool, bool]:
    """Add the rules of ``text`` to ``rules``; tell whether any was left out, and whether any moves elements."""
    dropped = moves = False
    for prelude, block in _blocks(text):
        head = prelude.strip()
        if block is None:
            dropped |= bool(head)
            continue
        if head.startswith("@"):
            if depth < _DEEPEST and head.lower().startswith(_KEPT_AT) and _is_condition(head):
                inner: list[str] = []
                less, more = _rules(block, scope, id_prefix, inner, depth + 1)
                rules.append(f"{head} {{\n" + "\n".join(inner) + "\n}")
                dropped, moves = dropped | less, moves | more
            else:
                dropped = True
            continue
        selectors = _selectors(head, scope, id_prefix)
        kept, less, more = declarations(block)
        dropped, moves = dropped | less | (selectors is None), moves | more
        if selectors and kept:
            rules.append(f"{selectors} {{ {kept} }}")
    return dropped, moves


def _is_condition(head: str) -> bool:
    return re.fullmatch(r"@[a-zA-Z]++[\w\s():,.<>=%/-]*", head) is not None and "<" not in head


def _selectors(head: str, scope: str, id_prefix: str) -> str | None:
    """Return the list of selectors below ``scope``; None where one of them is not understood."""
    if not _SELECTOR.fullmatch(head):
        return None
    bare = _STRINGS.sub("0", head)
    if "'" in bare or '"' in bare or bare.count("(") != bare.count(")") or bare.count("[") != bare.count("]"):
        return None
    scoped_ones = []
    for one in _split(head, ","):
        selector = one.strip()
        if not selector or selector[0] in ">+~|,":
            return None
        ancestors: list[str] = []
        rest = selector
        while (
            len(ancestors) < _MOST_ANCESTORS
            and (root := _ROOT.match(rest)) is not None
            and (root.end() == len(rest) or rest[root.end()] in " \t\n>")
        ):
            ancestors.append(root.group().replace(":host", ":root"))
            rest = rest[root.end() :].lstrip()
            if rest.startswith(">"):
                rest = rest[1:].lstrip()
        if rest[:1] in ("+", "~", "|"):
            return None
        if id_prefix:
            rest = _ID.sub(f"#{id_prefix}", rest)
        scoped_ones.append(" ".join((*ancestors, scope, rest)).rstrip())
    return ", ".join(scoped_ones)


_TOKEN = re.compile(r"[\"'{};(),\[\]]")


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator that is in no string and no brackets."""
    if separator not in text:
        return [text]
    parts, depth, start, position = [], 0, 0, 0
    while (found := _TOKEN.search(text, position)) is not None:
        mark, position = found.group(), found.end()
        if mark in "\"'":
            string = _STRINGS.match(text, found.start())
            if string is not None:
                position = string.end()
        elif mark in "([":
            depth += 1
        elif mark in ")]":
            depth -= 1
        elif mark == separator and depth <= 0:
            parts.append(text[start : found.start()])
            start = position
    parts.append(text[start:])
    return parts


def _blocks(text: str) -> list[tuple[str, str | None]]:
    """Return each rule's prelude and block; a block is None where there is none. What is not closed is left out."""
    found_ones: list[tuple[str, str | None]] = []
    position = start = opened = depth = 0
    prelude = ""
    while (found := _TOKEN.search(text, position)) is not None:
        mark, position = found.group(), found.end()
        if mark in "\"'":
            string = _STRINGS.match(text, found.start())
            if string is None:
                return found_ones  # a string that readers may end elsewhere: nothing behind it is believed
            position = string.end()
        elif mark == "{":
            if depth == 0:
                prelude, opened = text[start : found.start()], position
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth < 0:
                return found_ones
            if depth == 0:
                found_ones.append((prelude, text[opened : found.start()]))
                start = position
        elif mark == ";" and depth == 0:
            found_ones.append((text[start : found.start()], None))
            start = position
    return found_ones
