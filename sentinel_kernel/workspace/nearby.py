"""What a person may have meant by paths at which nothing is held: the same names in other folders.

A cell that has gone to another folder types paths from there; they are taken from the workspace all the same, as who
carries them out does not ask a cell where it is.
"""

from __future__ import annotations

from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.matching import deeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer

_MOST = 5


def unknown(layers: Mapping[str, Layer], held: Iterable[Change], paths: Sequence[str]) -> dict[str, Any]:
    """Return the refusal of ``paths`` at which nothing is held, with those of the same names, as one types them."""
    meant = deeper(paths, {name: layer.path for name, layer in layers.items()})
    near: list[str] = []
    for change in held:
        if meant(change.layer, change.path) and not change.is_folder:
            near.append(change.path)
            if len(near) >= _MOST:
                break
    return {**asked.refusal("no_such_path"), "near": near}
