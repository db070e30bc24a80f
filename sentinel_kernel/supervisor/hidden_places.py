"""What a sandbox is not shown, wherever a folder of the user would show it; besides what planning names itself."""

from __future__ import annotations

import os

from sentinel_kernel.audit.place import REQUIRED, hidden_folder, read_audit_settings, settings_beside
from sentinel_kernel.errors import BootError
from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.planning import hidden_paths
from sentinel_kernel.workspace.store import artifact_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.preparation import StartRequest

_LABS_AUDIT = (
    "This lab records every kernel: open the notebook in another folder, or ask who looks after the lab."
)


def hidden_places(
    request: StartRequest, home: str, named: tuple[str, ...]
) -> tuple[tuple[str, ...], list[str]]:
    """Return ``named`` with the audit's folder and what links among them lead to, and all paths that are hidden.

    Raises:
        BootError: a lab requires an audit that can't be.

    """
    hidden = (*named, *([audit] if (audit := audit_folder(request)) else ()))
    paths = hidden_paths(request.workspace, home, hidden)
    # A hidden name may be a link into a folder that is shown too: what it leads to is hidden with it.
    return (*hidden, *(real for path in paths if (real := os.path.realpath(path)) != path)), paths


def saved_files(workspace: str) -> str:
    """Return the folder of saved files, which no sandbox may see.

    Raises:
        BootError: the notebook's folder lies in it: all of it would be hidden, or what others saved be shown.

    """
    store = artifact_store()
    if not is_within(os.path.realpath(workspace), os.path.realpath(store)):
        return store
    raise BootError(
        "artifacts",
        0,
        f"The notebook's folder lies in {store}, where files of ended sandboxes are saved, and no cell may see those.",
        "Set SENTINEL_ARTIFACTS to a folder of its own (a new one below the notebook's will do), or unset it, or open "
        "the notebook in another folder; then restart the kernel.",
    )


def audit_folder(request: StartRequest) -> str:
    """Return the audit's folder, empty without one. Raises BootError where a lab requires an audit that can't be."""
    environment = {**os.environ, **request.audit}
    if request.audit.get(REQUIRED):
        beside = settings_beside(environment, request.workspace)
        if why := beside.problem or " ".join(beside.doubts):
            raise BootError("audit", 0, why, _LABS_AUDIT)
    return hidden_folder(read_audit_settings(environment))
