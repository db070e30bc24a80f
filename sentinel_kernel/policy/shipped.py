"""Where the data that ships with Sentinel lies: in an installed package, or at the top of the source tree."""

from __future__ import annotations

import os.path
import sys

from sentinel_kernel.errors import SentinelError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shipped_directory(name: str) -> str:
    """Return the folder ``name``: ``profiles``, ``mappings`` or ``kernelspec``.

    A wheel carries the first two inside the package and the kernelspec in the environment's share/jupyter; a
    source tree (an editable install) has all three beside the package.

    Raises:
        SentinelError: it is in none of these places; the installation is broken.

    """
    top = os.path.dirname(_PACKAGE)
    places = [os.path.join(_PACKAGE, name)]
    # site-packages may well hold a folder `profiles` of somebody else's: only a source tree is looked into.
    if os.path.isfile(os.path.join(top, "pyproject.toml")):
        places.append(os.path.join(top, name))
    if name == "kernelspec":
        places.append(os.path.join(sys.prefix, "share", "jupyter", "kernels", "sentinel"))
    for place in places:
        if os.path.isdir(place):
            return place
    raise SentinelError(
        f"The folder '{name}' that belongs to Sentinel Kernel is missing.",
        "Install it again: pip install --force-reinstall sentinel-jupyter-kernel.",
    )
