"""The order in which a tree that hostile code wrote is gone through: folders above first, names a part at a time."""

from __future__ import annotations

import itertools
import os

from sentinel_kernel.linux.files import open_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_MAXIMUM_DEPTH = 128
_MAXIMUM_FOLDERS = 20_000
_MAXIMUM_FOLDER_CHARACTERS = 8 << 20
_SORTED_NAMES = 4096
"""So many names of a folder are held and sorted at a time."""


def folders_of(source: int, left_out: frozenset[str], skip: Callable[[str, str], None]) -> list[str]:
    """Return the paths of the folders in ``source``, those above first; ``skip`` is told what is left out."""
    found, characters = [""], 0
    for path in found:  # grows meanwhile
        try:
            descriptor = open_beneath(source, path or ".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # told of where its files are copied
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if entry.name in left_out or not entry.is_dir(follow_symlinks=False):
                        continue
                    inner = f"{path}/{entry.name}" if path else entry.name
                    characters += len(inner)
                    if inner.count("/") >= _MAXIMUM_DEPTH:
                        skip(inner, f"deeper than {_MAXIMUM_DEPTH} folders")
                    elif len(found) > _MAXIMUM_FOLDERS or characters > _MAXIMUM_FOLDER_CHARACTERS:
                        skip(inner, f"more than {_MAXIMUM_FOLDERS} folders")
                    else:
                        found.append(inner)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return found


def names_of(folder: int) -> Generator[str, None, None]:
    """Yield the names in a folder, sorted as far as that takes no memory to speak of. Raises OSError."""
    with os.scandir(folder) as entries:
        while chunk := sorted(entry.name for entry in itertools.islice(entries, _SORTED_NAMES)):
            yield from chunk
