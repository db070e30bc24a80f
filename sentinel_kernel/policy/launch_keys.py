"""Whether a JSON text says what a program is to run, load or fetch: settings, which look like data by their name; pure.

Every tool has a file of its own that it follows where it is started, so that no list of names is whole. What such a
file does lies in its keys, which are words of one kind, and which tables, measurements and records of results lack;
where a key is a word of both, its values tell (launch_values.py).
"""

from __future__ import annotations

import json
import re

from sentinel_kernel.policy.launch_values import (
    CODE_AT,
    DATA_PATH_AT,
    LISTED,
    MADE,
    MADE_AT,
    NONE,
    PLACED,
    is_followed,
    tier_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_MOST_TOKENS: Final = 4_000_000
_MOST_DEEP: Final = 1000
_MOST_KEYS: Final = 10_000
_LONGEST_KEY: Final = 4096

_ACTING: Final = frozenset(
    {
        "exec", "execute", "executable", "executor", "executors", "command", "commands", "cmd", "cmds", "script",
        "scripts", "hook", "hooks", "shell", "plugin", "plugins", "extends", "preset", "presets", "loader", "loaders",
        "generator", "generators", "dependencies", "import", "imports", "require", "requires", "entrypoint",
        "interpreter", "reporter", "reporters", "extensions", "workflow", "workflows", "install", "preinstall",
        "postinstall", "packages", "ppx", "cmdline", "mcpservers", "toolchain", "prebuild", "postbuild", "$schema",
        "ansible", "pythonpath", "classpath", "gopath", "pythonstartup", "preload", "rubyopt",
    }
)  # fmt: skip
_PARTS: Final = tuple(
    part.encode("ascii")
    for part in (
        "exec", "comm", "cmd", "script", "hook", "shell", "plugin", "extend", "preset", "loader", "generat", "depend",
        "import", "require", "entry", "interpret", "report", "extension", "workflow", "install", "package", "ppx",
        "mcp", "toolchain", "build", "$schema", "ansible", "classpath", "pythonpath", "gopath", "pythonstart",
        "preload", "perl5opt", "rubyopt", "_option", "_opts", "bash_env",
    )
)  # fmt: skip
_PARTS_OF_BOTH: Final = tuple(
    part.encode("ascii")
    for part in (
        "app", "arg", "build", "task", "step", "phase", "uses", "run", "main", "helper", "before", "after", "bin",
        "clean", "compile", "deploy", "driver", "editor", "format", "handler", "include", "launch", "lint", "module",
        "pager", "program", "rule", "save", "serve", "setup", "start", "stop", "test", "watch",
        "path",
    )
)  # fmt: skip
"""Of keys of settings and of results alike."""

_OPTIONS: Final = re.compile(r"[A-Z0-9_]+_(?:OPTIONS|OPTS|FLAGS)|PERL5OPT|BASH_ENV")
"""Of the environment of programs."""

_OTHERWISE: Final = (b"\\u00", b"\\x", b"\\\n", b"\\\r", b"\x00")
"""Of letters that are written otherwise, and of encodings of their own."""

_MAKES_A_KEY: Final = rb"[\w$-]{0,64}+[\"']?\s*+[:/]"

_TEMPLATES: Final = (b"{{", b"{%")
"""Of texts that some tools run; JSON has neither outside of them."""

_OF_RESULTS: Final = re.compile(
    rb"\s*+(?:null|\"https?://(?:vega\.github\.io/schema/|json-schema\.org/)[^\"]*\")\s*+[,}]"
)
"""What ``$schema`` is in plots and in descriptions of data."""

_YAML_AT: Final = re.compile(rb"(?:^|[\s\[{,:?-])(?:[*&][\w-]|![\w!<])")
"""Of names for what stands elsewhere, which may be a key, and of types: JSON has neither outside of its texts."""

_BARE_VALUE: Final = re.compile(rb"\s*+[^\s\"'\[{,}\]]")

HINT_BYTES: Final = 512
"""No hint is longer."""

_COMMENT: Final = rb"/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/"


def _tokens(more: bytes) -> re.Pattern[bytes]:
    return re.compile(
        rb"(?P<quoted>\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\"|'[^'\\]*+(?:\\.[^'\\]*+)*+')"
        rb"(?P<key>(?:\s|//[^\n]*+\n|" + _COMMENT + rb")*+:)?|//[^\n]*+|" + _COMMENT + rb"|"
        rb"(?<![\w$-])(?P<bare>[\w$-]++)(?:\s|//[^\n]*+\n|"
        + _COMMENT
        + rb")*+:|"
        + more
        + rb"(?<![\w$-])(?P<yaml>[*&][\w-]|![\w!<])|(?P<endless>/\*|[\"'\\])",
        re.DOTALL,
    )


_TOKEN, _TOKEN_OR_BRACE = _tokens(b""), _tokens(rb"(?P<brace>[{}])|")
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
    """Tell whether a part of a text has anything that such a key, or its value, could be made of."""
    low = part.lower()
    if any(one in low for one in (*_PARTS, *_OTHERWISE, *_TEMPLATES)) or _is_a_key(low, _PARTS_OF_BOTH[:-1]):
        return True
    return any(found.search(low) is not None for found in (DATA_PATH_AT, CODE_AT, MADE_AT, _YAML_AT))


def says_what_to_run(text: bytes) -> bool:
    """Tell whether a key of ``text`` is of that kind, and its value can be run; what can't be told counts as one."""
    if any(one in text for one in _TEMPLATES):
        return True
    low = text.lower()
    if not _is_likely(low):
        return False
    if b"\x00" in text:
        return True  # in an encoding of its own
    of_both = (
        any(one in low for one in _OTHERWISE)
        or _is_a_key(low, _PARTS_OF_BOTH)
        or MADE_AT.search(low) is not None
    )
    del low
    return _Reading(text, of_both=of_both).acts()


class _Reading:
    """One text, read token by token."""

    def __init__(self, text: bytes, *, of_both: bool) -> None:
        """Read ``text``; ``of_both``: whether it may have keys whose values tell."""
        self._text = text
        self._token = _TOKEN_OR_BRACE if of_both else _TOKEN
        self._may_name_code = CODE_AT.search(text) is not None
        self._tiers: dict[bytes, int] = {}
        """Of keys that were seen, and that do nothing by themselves."""
        self._tier = NONE
        """Of the key whose value is being read."""
        self._around: list[int] = []
        """The same of those that it stands in."""

    def acts(self) -> bool:
        """Tell what :func:`says_what_to_run` does."""
        for number, token in enumerate(self._token.finditer(self._text)):
            kind = token.lastgroup
            if kind == "quoted":
                if (self._tier != NONE or self._may_name_code) and self._is_followed(token[0]):
                    return True
            elif kind in ("key", "bare"):
                if self._key_acts(token["quoted"] or token["bare"], token.end()):
                    return True
            elif kind == "brace":
                if not self._brace(token[0]):
                    return True
            elif kind is not None:
                return True  # who reads what has no end all the same may read anything in it
            if number >= _MOST_TOKENS:
                return True
        return False

    def _is_followed(self, text: bytes) -> bool:
        if self._tier == NONE and CODE_AT.search(text) is None:
            return False
        plain = _text(text)
        return plain is None or is_followed(plain, self._tier)

    def _brace(self, brace: bytes) -> bool:
        """Go into an object or out of it; tell whether that is still to be followed."""
        if brace == b"{":
            # What lies below a table of paths, or of things that are made, is named by other keys.
            self._around.append(NONE if self._tier in (PLACED, MADE) else self._tier)
        elif self._around:
            self._tier = self._around.pop()
        return len(self._around) < _MOST_DEEP

    def _key_acts(self, key: bytes, end: int) -> bool:
        tier = self._tiers.get(key, -1)
        if tier < 0:
            plain = _plain(key)
            if _acts(plain):
                self._tier = NONE
                harmless = _OF_RESULTS if plain == "$schema" else _VALUES
                return harmless.match(self._text, end) is None
            tier = tier_of(_words(plain))
            if len(self._tiers) < _MOST_KEYS:
                self._tiers[key] = tier
        around = min(self._around[-1], LISTED) if self._around else NONE
        self._tier = tier or around
        if tier == NONE or _VALUES.match(self._text, end) is not None:
            return False
        return _BARE_VALUE.match(self._text, end) is not None  # a text without quotes, as YAML has


def _is_likely(low: bytes) -> bool:
    """Tell whether a lower-case text is worth to be read key by key."""
    if any(one in low for one in _OTHERWISE) or _is_a_key(low, (*_PARTS_OF_BOTH, *_PARTS)):
        return True
    return any(found.search(low) is not None for found in (CODE_AT, MADE_AT, _YAML_AT))


def _is_a_key(low: bytes, parts: tuple[bytes, ...]) -> bool:
    return any(one in low and re.search(re.escape(one) + _MAKES_A_KEY, low) is not None for one in parts)


def _text(quoted: bytes) -> str | None:
    """Return a text as it is read; None where it is written as JSON has none."""
    text = quoted.decode("utf-8", "replace")[1:-1]
    if "\\" in text:
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            return None
    return text


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


def _words(key: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(key)]


def _acts(key: str) -> bool:
    if key.lower() in _ACTING or _OPTIONS.fullmatch(key) is not None:
        return True
    return not _ACTING.isdisjoint(_words(key))
