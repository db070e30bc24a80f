"""Shell text that should not be run unseen: what deletes, downloads or overwrites without a limit."""

from __future__ import annotations

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

_SHELL = (
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:env\s+(?:\S+=\S*\s+)*)?(?:/\w+/)*"
    r"(?:(?:ba|da|fi|k|z)?sh|python[\d.]*|perl|ruby|node)"
)
_TO_SHELL = rf"\|\s*{_SHELL}(?=\s*(?:$|[;&|)\n'\"])|\s+(?:-s\b|-\s|-$|-x\b|-e\b))"

_PATTERNS: Final = (
    ("downloaded-code", re.compile(rf"\b(?:curl|wget)\b[^\n;]*{_TO_SHELL}")),
    ("downloaded-code", re.compile(rf"(?:{_SHELL}|source|\.)\s+<\(\s*(?:curl|wget)\b")),
    (
        "downloaded-code",
        re.compile(r"(?:\beval|sh\s+-c|python[\d.]*\s+-c)\s+[\"']?(?:\$\(|`)\s*(?:curl|wget)\b"),
    ),
    ("hidden-code", re.compile(rf"\b(?:base64\s+(?:-d|-D|--decode)|xxd\s+-r)\b[^\n;]*{_TO_SHELL}")),
    ("hidden-code", re.compile(r"(?:\beval|sh\s+-c)\s+[\"']?(?:\$\(|`)[^)`]*\bbase64\s+(?:-d|-D|--decode)")),
    ("fork-bomb", re.compile(r"(?P<name>:|\b\w+)\s*\(\s*\)\s*\{\s*(?P=name)\s*\|\s*(?P=name)\s*&")),
    ("fork-bomb", re.compile(r"\bwhile\s+(?:true|:|\[\s*1\s*\])\s*;\s*do\s+[^;&\n]*&\s*done")),
    ("overwritten-disk", re.compile(r"\bdd\b[^\n;|&]*\bof=/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|dm-|mapper)")),
    ("overwritten-disk", re.compile(r"(?:^|[;&|]\s*|sudo\s+)mkfs(?:\.\w+)?\s", re.MULTILINE)),
    ("overwritten-disk", re.compile(r">\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk)\w*")),
    ("broad-delete", re.compile(r"\bfind\s+(?:/|~|\$HOME|/\w+)/?\s[^\n;|]*(?:-delete\b|-exec\s+rm\b)")),
    (
        "broad-delete",
        re.compile(r"\bch(?:mod|own)\s+(?:-\w*R\w*|--recursive)\s+\S+\s+(?:/|~|\$HOME)/?(?:\s|\*|$|;)"),
    ),
)

_BROAD = re.compile(
    r"(?:/|/\*|/(?!tmp\b)[\w.]+/?\*?|~/?\*?|\$\{?HOME\}?/?\*?|\.\.?/?\*?|(?:\.\./)+\*?|\*|\.\*)"
)
_SEPARATORS = frozenset((";", "&", "&&", "|", "||", "|&", "(", ")", "{", "}", "do", "then", "else"))
_MOST_TEXT = 64 * 1024
MOST_LINE = 2000
"""A longer line is cut: what is searched for fits, and some searches take the square of a line's length."""


def dangerous_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line from 0, rule) of what is dangerous in shell text."""
    if len(text) > _MOST_TEXT:
        return
    seen = set()
    plain = "\n".join(line[:MOST_LINE] for line in _without_comments(text).split("\n"))
    for rule, pattern in _PATTERNS:
        for match in pattern.finditer(plain):
            seen.add((plain.count("\n", 0, match.start()), rule))
    for number, line in enumerate(plain.split("\n")):
        if "rm" in line and _deletes_broadly(line):
            seen.add((number, "broad-delete"))
    yield from sorted(seen)


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^(\s*)#.*$", r"\1", text)


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
    while words and (words[0] in ("sudo", "exec", "command", "nohup", "time", "!") or "=" in words[0]):
        words = words[1:]
    if not words or words[0].rpartition("/")[2] != "rm":
        return False
    options = [word for word in words[1:] if word.startswith("-")]
    recursive = any(
        option in ("--recursive", "--no-preserve-root")
        or (not option.startswith("--") and set(option) & set("rR"))
        for option in options
    )
    return recursive and any(_BROAD.fullmatch(word) for word in words[1:] if not word.startswith("-"))
