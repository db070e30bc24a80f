"""What a files process is told of its sandbox: settings, who it writes as, and where the host loads code from."""

from __future__ import annotations

import os

from sentinel_kernel.policy.committable import Surroundings
from sentinel_kernel.policy.planning import cache_folder
from sentinel_kernel.workspace.setup import FilesSetup
from sentinel_kernel.workspace.store import own_data, read_store_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.supervisor.current import Current
    from sentinel_kernel.supervisor.held_folders import HeldFolders
    from sentinel_kernel.supervisor.preparation import StartRequest


def setup_of(current: Current, request: StartRequest | None, stamp: int = 0) -> FilesSetup:
    """Return the setup for the sandbox in use, which was asked for by ``request``; ``stamp``: of its undo journal."""
    facts = request.python_facts if request is not None else None
    own = tuple(map(str, facts.get("module_directories", ()))) if facts else ()
    return FilesSetup(
        kernel=request.kernel if request is not None else "",
        store=read_store_settings(os.environ),
        surroundings=Surroundings(
            _loaded((*own, *current.preparation.module_directories)), _sentinels_own(request)
        ),
        writer=_writer(current.sandbox.held),
        pidfd=current.sandbox.pidfd,
        stamp=stamp,
    )


def setup_for_orphans(held: HeldFolders, kernel: str) -> FilesSetup:
    """Return the setup for what a sandbox left whose supervisor was killed."""
    return FilesSetup(kernel, read_store_settings(os.environ), Surroundings(), _writer(held))


def _sentinels_own(request: StartRequest | None) -> tuple[str, ...]:
    """Return where the next sandbox's profile, words and filters are read from; settings may name any place."""
    named: list[str] = []
    if request is not None:
        named = [*(os.path.dirname(folder) for folder in request.profile_directories), *request.words]
    folders = (*named, own_data(os.environ), os.path.dirname(cache_folder(os.environ, "x")))
    return tuple(path for path in folders if path.startswith("/"))


def _writer(held: HeldFolders) -> tuple[int, int] | None:
    """Return who the sandbox runs as, where that is somebody else: who owns what lies beside its layers."""
    if os.geteuid() != 0 or held.history < 0:
        return None
    status = os.fstat(held.history)
    return status.st_uid, status.st_gid


def _loaded(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders that the host's Python, Jupyter and IPython load code or configuration from, as named.

    The files process resolves them: one may lie on a disk that does not answer.
    """
    home = os.environ.get("HOME") or "/"
    named = [os.environ.get(name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")]
    below = [os.path.join(home, name) for name in (".jupyter", ".ipython", ".local/share/jupyter")]
    system = ["/etc/jupyter", "/etc/ipython", "/usr/local/etc/jupyter", "/usr/local/share/jupyter"]
    prefixes = [
        os.path.dirname(os.path.dirname(os.path.dirname(path))) for path in modules if "-packages" in path
    ]
    shares = [os.path.join(prefix, name) for prefix in prefixes for name in ("etc", "share/jupyter")]
    folders = (*modules, *(path for path in named if path), *below, *system, *shares)
    return tuple(dict.fromkeys(path for path in folders if path.startswith("/")))
