"""Copies saved files to where SENTINEL_ARTIFACTS says, through fsspec: S3, Google Cloud, SSH, another folder ..."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.workspace import store

if TYPE_CHECKING:
    from sentinel_kernel.workspace.store import Artifact


def upload(one: Artifact, url: str) -> str:
    """Copy the artifact below ``url``; return where it is.

    Raises:
        SentinelError: fsspec is not installed.
        Exception: what the library of that kind of place raises.

    """
    try:
        import fsspec.core  # noqa: PLC0415 - an extra
    except ImportError:
        raise SentinelError(
            "fsspec is not installed.",
            "Install it beside JupyterLab: pip install 'sentinel-jupyter-kernel[artifacts]'",
        ) from None
    files, base = fsspec.core.url_to_fs(url)
    target = f"{base.rstrip('/')}/{one.name}"
    for folder, _, names in os.walk(one.path):
        relative = os.path.relpath(folder, one.path)
        place = target if relative == "." else f"{target}/{relative}"
        files.makedirs(place, exist_ok=True)
        # What tells that it is whole comes last.
        for name in sorted(names, key=lambda name: name == store.MANIFEST):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and name not in _OWN:
                files.put_file(path, f"{place}/{name}")
    return f"{url.rstrip('/')}/{one.name}"


def note(one: Artifact, where: str) -> None:
    """Note that the artifact was copied to ``where``; where that can't be, nothing says that it was not.

    Raises:
        OSError: there is no room for it.

    """
    word = os.path.join(one.path, store.UPLOAD_FAILED)
    try:
        # Over the word of a copy that did not end: a full disk has no room for another file.
        with open(word, "r+", encoding="utf-8") as file:
            file.write(where)
            file.truncate()
        os.rename(word, os.path.join(one.path, store.UPLOADED))
    except FileNotFoundError:
        store.write_word(one.path, store.UPLOADED, where)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(word)
        raise


_OWN = frozenset({"untold", store.LEAVING, store.UPLOADED, store.UPLOAD_FAILED})
"""Notes for this machine alone."""
