"""Shell text that should not be run unseen: what deletes, downloads or overwrites without a limit."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left, bisect_right
from itertools import accumulate, dropwhile

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

# Cells are written by whoever likes to keep the host busy. No run here can be read in two ways (``++``, ``*+``), none
# that may begin in the middle of another one is without a bound, and what lies between two words is never searched
# from each first word anew: see Rule.
_SHELL = (
    r"(?:sudo\s++(?:-\w++\s++){0,8}+)?(?:env\s++(?:[^\s=|;&]++=[^\s|;&]*+\s++){0,16}+)?(?:/(?:\w++/){0,8}+)?"
    r"(?:(?:ba|da|fi|k|z)?sh|python[\d.]*+|perl|ruby|node)"
)
_TO_SHELL = rf"\|\s*+{_SHELL}(?=\s*+(?:\Z|[;&|)'\"])|[^\S\n]*+\n|\s++(?:-s\b|-\s|-\Z|-x\b|-e\b))"
_DECODES = r"\bbase64\s++(?:-d|-D|--decode)"


class Rule(Record):
    """What is searched for: ``pattern``, within whose match ``inside`` begins if there is one.

    Matches of ``pattern`` lie one behind the other, and those of ``inside`` too: each is searched for once.
    """

    name: str
    pattern: re.Pattern[str]
    inside: re.Pattern[str] | None = None

    def places(self, text: str) -> Iterator[int]:
        """Yield where the rule applies."""
        inside = None if self.inside is None else [found.start() for found in self.inside.finditer(text)]
        if inside is not None and not inside:
            return
        for found in self.pattern.finditer(text):
            if inside is None:
                yield found.start()
                continue
            after = bisect_left(inside, found.start())
            if after < len(inside) and inside[after] < found.end():
                yield found.start()


def _rule(name: str, pattern: str, inside: str = "") -> Rule:
    return Rule(name, re.compile(pattern, re.MULTILINE), re.compile(inside) if inside else None)


RULES: Final = (
    _rule("downloaded-code", r"\b(?:curl|wget)\b[^\n;]*+", _TO_SHELL),
    _rule("downloaded-code", rf"(?:{_SHELL}|source|\.)\s++<\(\s*+(?:curl|wget)\b"),
    _rule(
        "downloaded-code",
        r"(?:\beval|sh\s++-c|python[\d.]*+\s++-c)\s++[\"']?(?:\$\(|`)\s*+(?:curl|wget)\b",
    ),
    _rule("hidden-code", r"\b(?:base64\s++(?:-d|-D|--decode)|xxd\s++-r)\b[^\n;]*+", _TO_SHELL),
    _rule("hidden-code", r"(?:\beval|sh\s++-c)\s++[\"']?(?:\$\(|`)[^)`]*+", _DECODES),
    _rule("fork-bomb", r"(?P<name>:|\b\w++)\s*+\(\s*+\)\s*+\{\s*+(?P=name)\s*+\|\s*+(?P=name)\s*+&"),
    _rule("fork-bomb", r"\bwhile\s++(?:true|:|\[\s*+1\s*+\])\s*+;\s*+do\s++[^;&\n]*+&\s*+done"),
    _rule(
        "overwritten-disk",
        r"\bdd\b[^\n;|&]*+",
        r"\bof=/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|dm-|mapper)",
    ),
    _rule("overwritten-disk", r"(?:^|[;&|]\s*+|sudo\s++)mkfs(?:\.\w++)?\s"),
    _rule("overwritten-disk", r">\s*+/dev/(?:sd|hd|vd|xvd|nvme|mmcblk)"),
    _rule(
        "broad-delete",
        r"\bfind\s++(?:/|~|\$HOME|/\w++)/?\s[^\n;|]*+",
        r"-delete\b|-exec\s++rm\b",
    ),
    _rule(
        "broad-delete",
        r"\bch(?:mod|own)\s++(?:-(?=\w*R)\w++|--recursive)\s++\S++\s++(?:/|~|\$HOME)/?(?:\s|\*|\Z|;)",
    ),
)

_BROAD = re.compile(
    r"(?:/|/\*|/(?!tmp\b)[\w.]+/?\*?|~/?\*?|\$\{?HOME\}?/?\*?|\.\.?/?\*?|(?:\.\./)+\*?|\*|\.\*)"
)
_BEFORE = frozenset(("sudo", "exec", "command", "nohup", "time", "!"))
_SEPARATORS = frozenset((";", "&", "&&", "|", "||", "|&", "(", ")", "{", "}", "do", "then", "else"))
MOST_SHELL = 64 * 1024
"""Characters; longer shell text is not read."""

MOST_LINE = 2000
"""A longer line is cut: what is searched for fits."""


def dangerous_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line from 0, rule) of what is dangerous in shell text."""
    if len(text) > MOST_SHELL:
        return
    seen = set()
    lines = ["" if line.lstrip().startswith("#") else line[:MOST_LINE] for line in text.split("\n")]
    plain = "\n".join(lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for rule in RULES:
        for place in rule.places(plain):
            seen.add((bisect_right(starts, place) - 1, rule.name))
    for number, line in enumerate(lines):
        if "rm" in line and _deletes_broadly(line):
            seen.add((number, "broad-delete"))
    yield from sorted(seen)


def _deletes_broadly(line: str) -> bool:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _SEPARATORS:
            command.append(word)
            continue
        if _is_broad_rm(command):
            return True
        command = []
    return False


def _is_broad_rm(words: list[str]) -> bool:
    words = list(dropwhile(lambda word: word in _BEFORE or "=" in word, words))
    if not words or words[0].rpartition("/")[2] != "rm":
        return False
    options = [word for word in words[1:] if word.startswith("-")]
    recursive = any(
        option in ("--recursive", "--no-preserve-root")
        or (not option.startswith("--") and set(option) & set("rR"))
        for option in options
    )
    return recursive and any(_BROAD.fullmatch(word) for word in words[1:] if not word.startswith("-"))
