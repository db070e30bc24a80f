"""The folders of data that a profile names, as they are on this machine: fit to be shown, or named in an error."""

from __future__ import annotations

import errno
import os
import stat

from sentinel_kernel.errors import BootError
from sentinel_kernel.policy.shown_folder import Surroundings, objection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from sentinel_kernel.policy.plan import PythonPaths
    from sentinel_kernel.policy.profile import Profile

_STEP = "data_folder"


def data_folders(
    profile: Profile, workspace: str, home: str, hidden: Iterable[str], python: PythonPaths
) -> list[tuple[str, str]]:
    """Return (real path, mode) of each; ``~/`` stands for ``home``. Of the same folder named twice the last counts.

    Raises:
        BootError: one is not there, is a file, can't be read, or is none that may be shown so.

    """
    found: dict[str, str] = {}
    run = (python.prefix, python.base_prefix, *python.module_directories)
    around = Surroundings(home, tuple(hidden), tuple(map(os.path.realpath, run)))
    for mount in profile.filesystem.mounts:
        named = os.path.join(home, mount.path[2:]) if mount.path.startswith("~/") else mount.path
        real = os.path.realpath(named)
        try:
            mode = os.stat(real).st_mode
        except OSError as error:
            remedy = f"Make it, or take it out of 'filesystem.mounts' of the profile {profile.name!r}."
            raise _error(error.errno or 0, f"The folder {named}: {error.strerror}.", remedy) from None
        if not stat.S_ISDIR(mode):
            remedy = f"Name the folder that it lies in: {os.path.dirname(named)}."
            raise _error(errno.ENOTDIR, f"{named} is a file, and folders alone can be shown.", remedy)
        if not os.access(real, os.R_OK | os.X_OK, effective_ids=True):
            raise _error(errno.EACCES, f"You may not read the folder {named} yourself.", "Ask its owner.")
        if real == workspace:
            remedy = "Take it out of the profile: cells see it already, and what they write there is held."
            raise _error(errno.EBUSY, f"{named} is the notebook's own folder.", remedy)
        why = objection(real, mount.mode, around)
        if why is not None:
            about = f" ({why.detail})" if why.detail not in (named, real) else ""
            what = {
                "secret": f"{named} is hidden from every cell{about}.",
                "host_runs": f"Programs of the host would run or obey what cells write to {named}{about}.",
            }
            remedy = (
                'Write "mode": "ro" or "overlay".' if why.code == "host_runs" else "Name a folder of data."
            )
            raise _error(errno.EPERM, what.get(why.code, f"{named} is no folder of data."), remedy)
        found.pop(real, None)
        found[real] = mount.mode
    return list(found.items())


def _error(number: int, message: str, remedy: str) -> BootError:
    return BootError(_STEP, number, message, remedy)
