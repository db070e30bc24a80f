"""Judges shell text: the commands of `!` lines, `%%bash` cells, os.system and subprocess."""

from __future__ import annotations

import re
import shlex

from sentinel_kernel.policy.dangerous_shell import MOST_SHELL
from sentinel_kernel.policy.preflight_finding import Judged, subject
from sentinel_kernel.policy.preflight_names import Text
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from sentinel_kernel.policy.preflight_system import System

MOST_OF_CELL = 4 * MOST_SHELL
"""Characters of all shell text in one cell; a name may stand for the same text in a thousand calls."""

_MOST_PACKAGES = 64
"""Packages of one cell that are looked up, each of which is a search of all folders of packages."""

_SEPARATORS = frozenset((";", "&", "&&", "|", "|&", "\n"))
_BLOCK = re.compile(r"\s*(?:if|while|until|for|case|select|function|[A-Za-z_]\w*\s*\(\)|\{|\()(?:\s|$|;)")
_ENDS = frozenset(("fi", "done", "esac", "}", ")"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_REQUIREMENT = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?\s*(.*)", re.DOTALL)
_UNKNOWN = re.compile(r"[$`{]")
_HARMLESS = frozenset(("cd", "echo", "export", "mkdir", "set", "true", "pwd", "date", "source", "."))
"""Commands whose success is taken for granted where `&&` follows."""

_WRAPPERS = frozenset(("command", "env", "exec", "nice", "nohup", "time"))
_PIPS = frozenset(("pip", "pip3"))
_PYTHONS = re.compile(r"(?:.*/)?python[\d.]*")
_INSTALLERS: Final = {
    "conda": ("install", "create", "update"),
    "mamba": ("install", "create", "update"),
    "micromamba": ("install", "create", "update"),
    "apt": ("install", "update", "upgrade"),
    "apt-get": ("install", "update", "upgrade"),
    "dnf": ("install", "update", "upgrade"),
    "yum": ("install", "update", "upgrade"),
    "apk": ("add", "update", "upgrade"),
    "npm": ("install", "i"),
}
_SYSTEM_INSTALLERS = frozenset(("apt", "apt-get", "dnf", "yum", "apk"))
_FETCHERS = frozenset(("curl", "wget"))
_GIT = frozenset(("clone", "fetch", "pull", "push"))
_TRACERS = frozenset(("strace", "ltrace", "gdb"))
_LOCAL_PIP = frozenset(("--no-index", "-f", "--find-links", "-e", "--editable", "-h", "--help", "--proxy"))
_OTHER_PIP = frozenset(
    ("-U", "--upgrade", "--force-reinstall", "-I", "--ignore-installed", "-t", "--target", "--pre")
)
_PIP_WITH_VALUE = frozenset(
    (
        "-t",
        "--target",
        "-i",
        "--index-url",
        "--extra-index-url",
        "-c",
        "--constraint",
        "--prefix",
        "--root",
        "--timeout",
    )
)


class ShellJudged(Record):
    """What is to say of a command, and on which line of the text (from 0) it stands."""

    judged: Judged
    line: int


class ShellJudge:
    """Judges shell text in one sandbox."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._left = MOST_OF_CELL
        self._versions: dict[str, str] = {}
        """What was looked up for this cell: name -> version, "" where it is not installed."""

        self.skipped = False
        """Whether some of the cell's shell text was not read, as there is too much of it."""

    def begin_cell(self) -> None:
        """Judge another cell from here on."""
        self._left, self.skipped = MOST_OF_CELL, False
        self._versions.clear()

    def script(self, text: str, *, moved: bool = False) -> Iterator[ShellJudged]:
        """Yield what is to say of a script's commands. Whatever is not plain is left alone."""
        self._left -= len(text)
        if len(text) > MOST_SHELL or self._left < 0:
            self.skipped = True
            return
        if "<<" in text:
            return
        depth, sure, lines = 0, True, text.split("\n")
        index = 0
        while index < len(lines):
            first = index
            while lines[index].endswith("\\") and index + 1 < len(lines):
                index += 1
            line = " ".join([*(part[:-1] for part in lines[first:index]), lines[index]])
            index += 1
            opens, closes = (
                bool(_BLOCK.match(line)),
                not _ENDS.isdisjoint(line.replace(";", " ").split()[-1:]),
            )
            depth += opens
            if depth == 0 and line.strip():
                for judged in self._line(line, moved=moved):
                    yield ShellJudged(judged if sure else replace(judged, likely=True), first)
                if re.match(r"\s*(?:exit|return)\b", line):
                    return
                if re.match(r"\s*set\s+-\w*e", line):
                    sure = False  # an earlier command may end it
            depth = max(0, depth - closes)

    def _line(self, line: str, *, moved: bool) -> Iterator[Judged]:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        try:
            tokens = list(lexer)
        except ValueError:
            return
        if "||" in tokens or "(" in tokens:
            return  # a failure is provided for, or it is no plain list of commands
        likely = False
        command: list[str] = []
        for word in [*tokens, ";"]:
            if word not in _SEPARATORS:
                command.append(word)
                continue
            for judged in self._redirected(command, moved=moved):
                yield replace(judged, likely=judged.likely or likely)
            if word == "&&" and command and command[0] not in _HARMLESS:
                likely = True
            elif word in (";", "&"):
                likely = False
            command = []

    def _redirected(self, tokens: list[str], *, moved: bool) -> Iterator[Judged]:
        words: list[str | None] = []
        waiting = iter(range(len(tokens)))
        for index in waiting:
            token = tokens[index]
            if token in (">", ">>", "<", ">&", "<&", ">|", "&>"):
                following = next(waiting, None)
                if following is None:
                    return
                target = _known(tokens[following])
                if token in (">", ">>", ">|", "&>") and target is not None and not target.isdecimal():
                    judged = self._system.write(Text(target), "shell: >", moved=moved, raises=False)
                    if judged is not None:
                        yield judged
            else:
                words.append(_known(token))
        yield from self.command(words, moved=moved)

    def command(self, words: Sequence[str | None], *, moved: bool = False) -> Iterator[Judged]:  # noqa: C901, PLR0912
        """Yield what is to say of one command; a word that is not known is None."""
        first = 0
        while first < len(words) and (word := words[first]) is not None:
            if word not in _WRAPPERS and not _ASSIGNMENT.match(word):
                break
            first += 1
            if word in ("env", "nice") and first < len(words) and (words[first] or "-").startswith("-"):
                return
        rest = list(words[first:])
        if not rest or rest[0] is None:
            return
        name, arguments = rest[0].rpartition("/")[2], rest[1:]
        if name == "sudo":
            yield Judged("call", "sudo", "sudo", "no_new_privs: programs never gain rights", raises=False)
        elif name in _PIPS or name == "uv" or (_PYTHONS.fullmatch(name) and arguments[:2] == ["-m", "pip"]):
            skipped = 2 if _PYTHONS.fullmatch(name) else 1 if name == "uv" and arguments[:1] == ["pip"] else 0
            if name != "uv" or skipped:
                yield from self._pip(arguments[skipped:])
        elif name in _INSTALLERS:
            plain = [word for word in arguments if word is not None and not word.startswith("-")]
            kind = "system-install" if name in _SYSTEM_INSTALLERS else "install"
            known = kind != "install" or not self._system.installs
            if known and plain and plain[0] in _INSTALLERS[name] and "--offline" not in arguments:
                about = subject("package", plain[1]) if len(plain) > 1 else None
                yield Judged(
                    "name_lookup", kind, f"{name} {plain[0]}", "network: no name server", about, raises=False
                )
        elif name in _FETCHERS or (name == "git" and arguments and arguments[0] in _GIT):
            for word in arguments:
                judged = (
                    None
                    if word is None or "://" not in word
                    else self._system.url(Text(word), name, always=False, raises=False)
                )
                if judged is not None:
                    yield judged
                    break
        elif name in ("ssh", "ping"):
            yield from self._to_host(name, arguments)
        else:
            yield from self._local(name, arguments, moved=moved)

    def _to_host(self, name: str, arguments: Sequence[str | None]) -> Iterator[Judged]:
        if (
            arguments
            and arguments[-1] is not None
            and not any((word or "-").startswith("-") for word in arguments)
        ):
            host = arguments[-1] if name == "ping" else (arguments[0] or "").rpartition("@")[2]
            judged = self._system.host(Text(host), name, always=False, raises=False)
            if judged is not None and "." in host:
                yield judged

    def _local(self, name: str, arguments: Sequence[str | None], *, moved: bool) -> Iterator[Judged]:
        has = self._system.facts.has_program
        plain = [word for word in arguments if word is not None and not word.startswith("-")]
        refused = {"unshare": "unshare", "nsenter": "setns", "chroot": "chroot"} | dict.fromkeys(
            _TRACERS, "ptrace"
        )
        if name in refused and (plain or name == "unshare") and "--help" not in arguments:
            judged = self._system.syscall(refused[name], name, raises=False)
            if judged is not None and (has is None or has(name)):
                sure = has is not None and name in ("strace", "unshare", "chroot")
                yield replace(judged, likely=not sure)
        writes = {"touch": 0, "mkdir": 0, "tee": 0, "cp": -1, "mv": -1, "rmdir": 0}
        tolerant = name == "mkdir" and any(word in ("-p", "--parents") for word in arguments)
        if (
            name in writes
            and plain
            and None not in arguments
            and not tolerant
            and len(plain) > (name in ("cp", "mv"))
        ):
            judged = self._system.write(Text(plain[writes[name]]), name, moved=moved, raises=False)
            if judged is not None:
                yield judged

    def _pip(self, arguments: Sequence[str | None]) -> Iterator[Judged]:  # noqa: C901 - one branch an option
        if not arguments or arguments[0] not in ("install", "download") or self._system.installs:
            return
        likely = other = False
        names: list[str] = []
        waiting = iter(arguments[1:])
        for word in waiting:
            if word is None:
                likely = True
                continue
            option = word.partition("=")[0]
            if option in _LOCAL_PIP:
                return
            if option in ("-r", "--requirement"):
                likely = True
                next(waiting, None)
            elif word.startswith("-"):
                other |= option in _OTHER_PIP
                if word in _PIP_WITH_VALUE:
                    next(waiting, None)
            elif "/" in word or word.startswith(".") or word.endswith((".whl", ".gz", ".zip")):
                if "://" not in word:
                    return
                names.append(word)
            else:
                names.append(word)
        if not names and not likely:
            return
        needed, unsure = self._absent(names, other=other or arguments[0] == "download")
        if not needed and not unsure and not likely:
            return  # pip finds them there, and asks nobody
        first = next(iter(needed or unsure or names), "")
        about = subject("package", first) if first else None
        yield Judged(
            "name_lookup",
            "install",
            "pip install",
            "network: no name server",
            about,
            raises=False,
            likely=not needed,
        )

    def _absent(self, names: Sequence[str], *, other: bool) -> tuple[list[str], list[str]]:
        """Return the requirements that have to be fetched, and those that may have to be."""
        if other:
            return list(names), []
        needed, unsure = [], []
        for name in dict.fromkeys(names):
            match = _REQUIREMENT.fullmatch(name)
            if match is None or "://" in name:
                needed.append(name)
            elif (version := self._version(match[1])) is None:
                unsure.append(name)
            elif not version:
                needed.append(name)
            elif match[2] and match[2].replace(" ", "") != f"=={version}":
                unsure.append(name)
        return needed, unsure

    def _version(self, name: str) -> str | None:
        """Return the version that is installed of a package, "" where it is not; None where that is not known."""
        installed = self._system.facts.installed
        if name not in self._versions:
            if installed is None or len(self._versions) >= _MOST_PACKAGES:
                return None
            self._versions[name] = installed(name)
        return self._versions[name]


def _known(token: str) -> str | None:
    return None if _UNKNOWN.search(token) else token
