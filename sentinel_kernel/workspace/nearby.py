"""What a person may have meant by paths at which nothing is held: the same names in other folders, or what is saved.

A cell that has gone to another folder types paths from there; they are taken from the workspace all the same, as who
carries them out does not ask a cell where it is.
"""

from __future__ import annotations

import os.path

from sentinel_kernel.workspace import request as asked
from sentinel_kernel.workspace.layer import folder_of, status_of
from sentinel_kernel.workspace.matching import deeper, placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sentinel_kernel.workspace.change import Change
    from sentinel_kernel.workspace.layer import Layer

_MOST = 5


def unknown(layers: Mapping[str, Layer], held: Iterable[Change], paths: Sequence[str]) -> dict[str, Any]:
    """Return the refusal of ``paths`` at which nothing is held.

    With those of the same names, as one types them, and those of ``paths`` at which the host has what cells see.
    """
    folders = {name: layer.path for name, layer in layers.items()}
    meant = deeper(paths, folders)
    near: list[str] = []
    for change in held:
        if meant(change.layer, change.path) and not change.is_folder:
            near.append(layers[change.layer].shown(change.path))
            if len(near) >= _MOST:
                break
    return {
        **asked.refusal("no_such_path"),
        "near": near,
        "settled": _settled(layers, paths[:_MOST], folders),
    }


def unmet(layers: Mapping[str, Layer], paths: Sequence[str]) -> dict[str, Any]:
    """Return what an answer says of those of its ``paths`` at which nothing is held, while there was at others."""
    named = list(paths[:_MOST])
    folders = {name: layer.path for name, layer in layers.items()}
    return {"unmet": {"count": len(paths), "paths": named, "settled": _settled(layers, named, folders)}}


def _settled(layers: Mapping[str, Layer], paths: Sequence[str], folders: Mapping[str, str]) -> list[str]:
    return [path for path in paths if _is_settled(layers, path, folders)]


def _is_settled(layers: Mapping[str, Layer], path: str, folders: Mapping[str, str]) -> bool:
    """Tell whether something is at ``path`` on the host: as nothing is held there, cells see the same."""
    name, relative = placed(path, folders)
    try:
        with folder_of(layers[name].lower, os.path.normpath(relative)) as (folder, last):
            return status_of(folder, last) is not None
    except (KeyError, OSError):
        return False  # no path of a layer's, or one that can't be looked at
