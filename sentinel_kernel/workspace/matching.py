"""Which changes a person means: paths and globs, of the workspace or absolute; pure."""

from __future__ import annotations

import fnmatch
import os.path
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_STARS = 8
"""``**`` in one pattern; each can make a match try every folder."""


class Matching:
    """A person's choice of paths; an empty one is everything."""

    def __init__(self, patterns: Sequence[str], folders: Mapping[str, str]) -> None:
        """Read ``patterns``; ``folders`` are layer -> its folder on the host, the workspace's first."""
        self._everything = not patterns
        self._unmet = dict.fromkeys(patterns)
        self._by_layer: dict[str, list[tuple[str, list[str]]]] = {}
        for pattern in patterns:
            layer, relative = placed(pattern, folders)
            if layer:
                parts = [part for part in os.path.normpath(relative).split("/") if part not in ("", ".")]
                if parts.count("**") <= _MOST_STARS and ".." not in parts:
                    self._by_layer.setdefault(layer, []).append((pattern, parts))

    def __call__(self, layer: str, path: str) -> bool:
        """Tell whether the path within ``layer`` is meant: itself, or a folder that it lies in."""
        if self._everything:
            return True
        names = path.split("/")
        found = [typed for typed, parts in self._by_layer.get(layer, ()) if _matches(parts, names)]
        for typed in found:
            self._unmet.pop(typed, None)
        return bool(found)

    @property
    def unmet(self) -> tuple[str, ...]:
        """Those of the patterns, as they were typed, that nothing of what was asked about so far has matched."""
        return tuple(self._unmet)


def deeper(patterns: Sequence[str], folders: Mapping[str, str]) -> Matching:
    """Return the choice of what has the names of relative ``patterns`` in any folder: of who is in another just now."""
    relative = [os.path.normpath(pattern) for pattern in patterns if not pattern.startswith("/")]
    ends = ["/".join(part for part in pattern.split("/") if part != "..") for pattern in relative]
    return Matching([f"**/{end}" for end in ends if end not in ("", ".")] or ["/"], folders)


def placed(pattern: str, folders: Mapping[str, str]) -> tuple[str, str]:
    """Return the layer that a pattern speaks of and the rest of it; no layer where it leads elsewhere."""
    if not pattern.startswith("/"):
        return next(iter(folders), ""), pattern
    normal = os.path.normpath(pattern)
    holders = [
        name for name, path in folders.items() if normal == path or normal.startswith(path.rstrip("/") + "/")
    ]
    if not holders:
        return "", ""
    name = max(holders, key=lambda one: len(folders[one]))
    return name, normal[len(folders[name].rstrip("/")) :].lstrip("/")


def _matches(parts: list[str], names: list[str]) -> bool:
    """Tell whether ``parts`` match the names, or the first of them: a folder stands for all that is in it."""
    reached = {0}
    for name in names:
        reached = _with_empty_stars(parts, reached)
        if len(parts) in reached:
            return True
        following = set()
        for position in reached:
            if parts[position] == "**":
                following.add(position)
            elif _one(parts[position], name):
                following.add(position + 1)
        reached = following
        if not reached:
            return False
    return len(parts) in _with_empty_stars(parts, reached)


def _with_empty_stars(parts: list[str], reached: set[int]) -> set[int]:
    found = set(reached)
    for position in range(len(parts)):
        if position in found and parts[position] == "**":
            found.add(position + 1)
    return found


def _one(pattern: str, name: str) -> bool:
    # A name may be a glob's own letters, as in "report [draft].txt".
    return pattern == name or re.compile(fnmatch.translate(pattern)).match(name) is not None
