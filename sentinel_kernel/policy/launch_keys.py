"""Whether a JSON text says what a program is to run, load or fetch: settings, which look like data by their name; pure.

Every tool has a file of its own that it follows where it is started, so that no list of names is whole. What such a
file does lies in its keys, which are words of one kind, and which tables, measurements and records of results lack.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_MOST_TOKENS: Final = 2_000_000
_MOST_KEYS: Final = 10_000
_LONGEST_KEY: Final = 4096

_ACTING: Final = frozenset(
    {
        "exec", "execute", "executable", "executor", "executors", "command", "commands", "cmd", "cmds", "script",
        "scripts", "hook", "hooks", "shell", "plugin", "plugins", "extends", "preset", "presets", "loader", "loaders",
        "generator", "generators", "dependencies", "import", "imports", "require", "requires", "entrypoint",
        "interpreter", "reporter", "reporters", "extensions", "workflow", "workflows", "install", "preinstall",
        "postinstall", "packages", "ppx", "mcpservers", "toolchain", "prebuild", "postbuild", "$schema",
    }
)  # fmt: skip
_PARTS: Final = tuple(
    part.encode("ascii")
    for part in (
        "exec", "comm", "cmd", "script", "hook", "shell", "plugin", "extend", "preset", "loader", "generat", "depend",
        "import", "require", "entry", "interpret", "report", "extension", "workflow", "install", "package", "ppx",
        "mcp", "toolchain", "build", "$schema",
    )
)  # fmt: skip
_OTHERWISE: Final = (b"\\u00", b"\\x", b"\\\n", b"\\\r", b"\x00")
"""Of letters that are written otherwise, and of encodings of their own."""

_MAKES_A_KEY: Final = rb"[\w$-]{0,64}+[\"']?\s*+[:/]"

_TEMPLATES: Final = (b"{{", b"{%")
"""Of texts that some tools run; JSON has neither outside of them."""

HINT_BYTES: Final = 16
"""No hint is longer."""

_COMMENT: Final = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"

_TOKEN: Final = re.compile(
    rb"(?P<quoted>\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"
    rb"(?P<key>(?:\s|//[^\n]*+\n|" + _COMMENT + rb")*+:)?|//[^\n]*+|" + _COMMENT + rb"|"
    rb"(?<![\w$-])(?P<bare>[\w$-]++)(?:\s|//[^\n]*+\n|" + _COMMENT + rb")*+:|(?P<endless>/\*|[\"'\\])",
    re.DOTALL,
)
"""JSON, and what lenient readers take for it: comments, single quotes, keys without any. Letters of those that are
written otherwise count as what has no end.

No part of a text is read more than a few times, whatever is in it: what has no end ends it, words are tried from
their first letter alone, and nothing is given back once it was taken.
"""

_NUMBER: Final = rb"(?:[-+]?+\d[\d.eE+-]*+|true|false|null|NaN|-?+Infinity)(?![^\s,\]}])"


def _listed(inner: bytes) -> bytes:
    return rb"\[(?:[\s,]++|" + inner + rb")*+\]"


_DEEP: Final = rb"|".join((_NUMBER, _listed(_NUMBER)))
_DEEPER: Final = rb"|".join((_NUMBER, _listed(_DEEP)))
_VALUES: Final = re.compile(
    rb"\s*+(?:"
    + _NUMBER
    + rb"|"
    + _listed(_DEEPER)
    + rb"|\{(?:[\s,]++|\"\d+\"\s*+:\s*+"
    + _NUMBER
    + rb")*+\})"
    rb"\s*+[,}]"
)
"""Numbers and the like, lists of nothing else, and a table's column of them (row -> value): nothing to be run."""

_WORD: Final = re.compile(r"\$schema|[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def may_say(part: bytes) -> bool:
    """Tell whether a part of a text has anything that such a key could be made of."""
    low = part.lower()
    return any(one in low for one in (*_PARTS, *_OTHERWISE, *_TEMPLATES))


def says_what_to_run(text: bytes) -> bool:
    """Tell whether a key of ``text`` is of that kind, and its value can be run; what can't be told counts as one."""
    if any(one in text for one in _TEMPLATES):
        return True
    if not _is_likely(text.lower()):
        return False
    if b"\x00" in text:
        return True  # in an encoding of its own
    harmless: set[bytes] = set()
    for number, token in enumerate(_TOKEN.finditer(text)):
        if number >= _MOST_TOKENS or token.lastgroup == "endless":
            return True  # who reads what has no end all the same may read anything in it
        key = token["quoted"] if token.lastgroup == "key" else token["bare"]
        if key is None or key in harmless:
            continue
        if not _acts(_plain(key)):
            if len(harmless) < _MOST_KEYS:
                harmless.add(key)
        elif _VALUES.match(text, token.end()) is None:
            return True
    return False


def _is_likely(low: bytes) -> bool:
    """Tell whether a lower-case text is worth to be read key by key."""
    if any(one in low for one in _OTHERWISE):
        return True
    return any(one in low and re.search(re.escape(one) + _MAKES_A_KEY, low) is not None for one in _PARTS)


def _plain(key: bytes) -> str:
    if len(key) > _LONGEST_KEY:
        return "exec"  # nobody writes such a one; its words may take more memory than there is
    text = key.decode("utf-8", "replace").strip("\"'")
    if "\\" in text:
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            return "exec"  # nothing that JSON has: who reads it all the same may read anything in it
    return text


def _acts(key: str) -> bool:
    return key.lower() in _ACTING or any(word.lower() in _ACTING for word in _WORD.findall(key))
