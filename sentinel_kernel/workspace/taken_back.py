"""Keeps what an undo takes back, as an artifact: who has undone too much still has it."""

from __future__ import annotations

import os

from sentinel_kernel.workspace.layer import folder_of
from sentinel_kernel.workspace.saving import FILES, Budget, Salvaged, copy_file, finish, new_name
from sentinel_kernel.workspace.store import PART, word_was_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.workspace.layer import Layer
    from sentinel_kernel.workspace.store import StoreSettings

_MOST_BYTES = 512 << 20
_MOST_FILES = 20_000


class TakenBack:
    """The copies of one undo."""

    def __init__(self, store: StoreSettings, workspace: str) -> None:
        """Keep them in ``store``; ``workspace`` is the path of the notebook's folder."""
        self._store = store
        self._workspace = workspace
        self._name = new_name()
        self._target = os.path.join(store.folder, PART + self._name)
        self._kept = Salvaged()
        self._left = _MOST_BYTES
        self._layers: dict[str, tuple[str, str, int, int]] = {}
        """Of each layer: its path, place in the artifact, files and bytes."""

    def keep(self, layer: Layer, path: str) -> None:
        """Keep the plain file that cells see at ``path``, where there is one, and room. Raises nothing."""
        if self._kept.files >= _MOST_FILES:
            return
        place = FILES if layer.path == self._workspace else os.path.join("folders", layer.name)
        budget = Budget(self._left, self._target, place)
        files, size = self._kept.files, self._kept.bytes
        try:
            with folder_of(layer.merged, path) as (folder, name):
                copy_file(folder, name, path, self._kept, budget)
        except OSError as error:
            self._kept.skip(path, error.strerror or "error")
        files, size = self._kept.files - files, self._kept.bytes - size
        self._left -= size
        if files:
            _, _, before, bytes_before = self._layers.get(layer.name, ("", "", 0, 0))
            self._layers[layer.name] = layer.path, place, before + files, bytes_before + size

    def finish(self) -> str:
        """Return the artifact's name, empty where nothing was kept. Raises nothing."""
        if not self._layers:
            return ""
        folders = [
            {"name": name, "path": path, "files": files, "bytes": size, "place": place, "deleted": []}
            for name, (path, place, files, size) in self._layers.items()
        ]
        target = os.path.join(self._store.folder, self._name)
        finish(self._kept, target, self._workspace, folders, "")
        word_was_given(self._kept.path)  # by the undo's own answer
        return os.path.basename(self._kept.path)
