"""The words in use: a lab's and a user's own files over the shipped ones; a file with a fault is left out and told."""

from __future__ import annotations

from sentinel_kernel.errors import MappingError
from sentinel_kernel.policy.mapping import Mappings, load_mappings, read_mapping
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.mapping import Layer


class Unused(Record):
    """A file that can't be used: its path, the place in its JSON (``$`` where it is the whole), why, and what helps."""

    path: str
    place: str
    why: str
    remedy: str


def words_in_use(paths: Sequence[str], named: str = "") -> tuple[Mappings, tuple[Unused, ...]]:
    """Return the words of the files ``paths``, the strongest first, over the shipped ones, and which were left out.

    A file that is not there says nothing, but for the one that the user has ``named``. A few groups alone will do.

    Raises:
        MappingError: the shipped words can't be read.

    """
    layers: list[Layer] = []
    unused = []
    for path in paths:
        try:
            layers += read_mapping(path, whole=False).layers
        except FileNotFoundError:
            if path == named:
                unused.append(Unused(path, "$", "There is no such file.", ""))
        except MappingError as error:
            unused.append(Unused(path, error.json_path, error.message, error.remedy))
    return Mappings((*layers, *load_mappings().layers)), tuple(unused)
