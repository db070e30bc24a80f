"""What ended sandboxes leave to be saved: of this supervisor, and of one that was killed before it."""

from __future__ import annotations

import os

from sentinel_kernel.supervisor.held_folders import HeldFolder, HeldFolders
from sentinel_kernel.workspace.store import artifact_store, open_words, word_was_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.hostlink import HostLink
    from sentinel_kernel.supervisor.lifetime import Lifetime
    from sentinel_kernel.supervisor.saving import Saving


class Leftovers:
    """Finds out whether there is anything to save, and gives it to those who save."""

    def __init__(self, life: Lifetime) -> None:
        """Save for ``life``."""
        self._life = life
        self._saving: Saving | None = None
        self._told: dict[str, HostLink] = {}
        """Which host was told of a saved folder; the next one is told anew, unless a person has read it by then."""

    @property
    def pending(self) -> bool:
        """Whether files are on their way to the store."""
        return self._saving is not None and self._saving.pending

    def ended(self, current: Current) -> None:
        """Have what a sandbox that has ended leaves saved, if there is anything."""
        process = next(
            (found for keeper in self._life.keepers if (found := keeper.give_up_files(current)) is not None),
            None,
        )
        held = current.sandbox.held
        try:
            holds_any = held.holds_any()
        except OSError:  # no descriptor is to be had: who saves will see
            holds_any = True
        if not holds_any:
            if process is not None:
                process.rest()
                process.close()
            return
        try:
            kept = held.duplicate()
        except OSError:
            kept = current.sandbox.take_held()
        from sentinel_kernel.supervisor.files_setup import setup_of  # noqa: PLC0415 - where files have changed alone

        self._savers().save(kept, setup_of(current, self._life.request), process)

    def orphans(self, message: dict[str, Any], kernel: str) -> None:
        """Have saved what a sandbox left whose supervisor was killed; the host had kept it."""
        descriptors = message.pop("descriptors", [])
        named = message.pop("orphans", None)
        folders = named.get("folders") if isinstance(named, dict) else None
        if not descriptors or not isinstance(folders, list):
            for descriptor in descriptors:
                os.close(descriptor)
            return
        held = HeldFolders(
            [
                HeldFolder(str(one.get("name")), str(one.get("path")), upper, -1, -1)
                for one, upper in zip(folders, descriptors, strict=False)
            ],
            descriptors[len(folders)] if len(descriptors) > len(folders) else -1,
        )
        from sentinel_kernel.supervisor.files_setup import setup_for_orphans  # noqa: PLC0415 - seldom

        self._savers().save(held, setup_for_orphans(held, kernel), None)

    def tell_of_earlier(self, kernel: str) -> None:
        """Tell the host, once, of what was saved under the same name and no person was told of."""
        for path, files, left_out in open_words(artifact_store(), kernel):
            # It may be one of this supervisor's, which is saved and whose files process has yet to say so.
            if self._told.get(path) is not self._life.host:
                self._told[path] = self._life.host
                fields = {"path": path, "files": files, "bytes": 0, "skipped": [], "left_out": left_out}
                self._life.host.event("artifacts", fields)

    def person_told(self, identifier: object, message: dict[str, Any]) -> None:
        """Note that a cell of the host's has shown where files were saved."""
        name = os.path.basename(str(message.get("path")))
        word_was_given(os.path.join(artifact_store(), name))
        self._life.host.reply(identifier, ok=True)

    def _savers(self) -> Saving:
        if self._saving is None:
            from sentinel_kernel.supervisor.saving import Saving  # noqa: PLC0415 - where files have changed alone

            life = self._life
            self._saving = Saving(lambda: life.host, self._told)
            life.keepers.append(self._saving)
        return self._saving


def held_fields(held: HeldFolders, most: int) -> tuple[dict[str, Any], list[int]]:
    """Return what the host keeps in case its supervisor is killed: names, and at most ``most`` descriptors.

    The last descriptor is the folder of former versions.
    """
    folders = held.folders[: most - 1]
    descriptors = [one.upper for one in folders]
    if folders and held.history >= 0:
        descriptors.append(held.history)
    return {"folders": [{"name": one.name, "path": one.path} for one in folders]}, descriptors
