"""What is held, by its paths, as much as is kept track of: paths may be as long as the Linux kernel allows."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sentinel_kernel.workspace.change import Change

    Path = tuple[str, str]

MOST_PATHS = 20_000
"""The most changed paths whose former versions are known."""

_MOST_CHARACTERS = 8 << 20
"""Of all those paths together: the files process holds them several times, and has 200 MiB."""


class Tracked(dict["Path", "Change"]):
    """Changes by (layer, path)."""

    def __init__(self) -> None:
        """Hold none yet."""
        super().__init__()
        self._left = _MOST_CHARACTERS
        self.cut = False
        """Whether there was more."""
        self.missed: frozenset[Path] = frozenset()
        """Where nobody could see what is held, as of Bounds."""
        self.unseen: frozenset[Path] = frozenset()
        """What was held, was not found, and is not gone for that: it lies there, or the host has such a folder too."""

    def take(self, change: Change) -> bool:
        """Keep track of one more; False where that is too much."""
        self._left -= len(change.path)
        if len(self) >= MOST_PATHS or self._left < 0:
            self.cut = True
            return False
        self[change.layer, change.path] = change
        return True

    @property
    def is_whole(self) -> bool:
        """Whether this is all that is held."""
        return not (self.cut or self.missed)

    def but(self, paths: Collection[Path]) -> Tracked:
        """Return it without ``paths``."""
        rest = Tracked()
        rest.update((path, change) for path, change in self.items() if path not in paths)
        rest.cut, rest.missed, rest.unseen = self.cut, self.missed, self.unseen
        return rest


def lies_in(path: Path, places: Collection[Path]) -> bool:
    """Tell whether ``path`` is one of ``places``, or below one."""
    layer, name = path
    while places:
        if (layer, name) in places:
            return True
        if not name:
            break
        name = name.rpartition("/")[0]
    return False


def may_be_cut(now: Mapping[Path, Change]) -> bool:
    """Tell whether there may be more than these."""
    return len(now) >= MOST_PATHS or (isinstance(now, Tracked) and now.cut)
