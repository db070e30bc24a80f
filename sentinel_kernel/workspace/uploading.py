"""Starts the upload of an artifact, a program of its own, which outlives everybody here; and says where none can be."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import signal
import sys

from sentinel_kernel.workspace.store import CUT_OFF, UPLOAD_FAILED, write_word


def start_upload(path: str) -> None:
    """Start copying the artifact at ``path`` to SENTINEL_ARTIFACTS, or leave a word there why not. Raises nothing."""
    command = [
        sys.executable,
        "-P",
        "-E",
        "-m",
        "sentinel_kernel.cli",
        "artifacts",
        "upload",
        os.path.basename(path),
    ]
    ignored = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO]
    # Whatever ends it before its end leaves this word, which a copy that is whole takes away. On a full disk the file
    # is there, and empty: that means the same.
    with contextlib.suppress(OSError):
        write_word(path, UPLOAD_FAILED, CUT_OFF)
    try:
        os.posix_spawn(
            sys.executable, command, dict(os.environ), setsid=True, setsigdef=ignored, setsigmask=[]
        )
    except OSError as error:
        with contextlib.suppress(OSError):
            write_word(path, UPLOAD_FAILED, f"It could not be started: {error}.")


def obstacle(url: str) -> tuple[str, str] | None:
    """Return why nothing can be copied to ``url`` from this interpreter, in English and Chinese; None: it may work.

    The URL itself is not told: a password may stand in it. It imports fsspec and what fsspec has for the URL, which
    takes a tenth of a second and more.
    """
    try:
        return _lacking(url)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is others' code that is imported
        why = _printable(f"{type(error).__name__}: {error}", _WHY_CHARACTERS)
        return (
            f"SENTINEL_ARTIFACTS is a URL, and a package that copying there takes is broken ({why}): {_STAYS[0]}",
            f"SENTINEL_ARTIFACTS 是 URL，但复制所需的软件包已损坏（{why}）：{_STAYS[1]}",
        )


def _lacking(url: str) -> tuple[str, str] | None:
    """Return what is missing for it. Raises what a broken package raises."""
    try:
        registry = importlib.import_module("fsspec.registry")
    except ImportError:
        extra = "pip install 'sentinel-jupyter-kernel[artifacts]'"
        return (
            f"SENTINEL_ARTIFACTS is a URL, and fsspec is not installed beside JupyterLab ({extra}): {_STAYS[0]}",
            f"SENTINEL_ARTIFACTS 是 URL，但 JupyterLab 的环境中未安装 fsspec（{extra}）：{_STAYS[1]}",
        )
    for scheme in (part.partition("://")[0] for part in url.split("::")):
        told = _printable(scheme, 40)
        known = registry.known_implementations.get(scheme)
        if known is None and scheme not in registry.registry:
            return (
                f"SENTINEL_ARTIFACTS is a URL of a kind that fsspec does not know ({told}://): {_STAYS[0]}",
                f"SENTINEL_ARTIFACTS 是 fsspec 不认识的 URL 类型（{told}://）：{_STAYS[1]}",
            )
        missing = _missing(str(known["class"])) if known is not None else ""
        if missing:
            how = f"pip install {missing}"
            return (
                f"SENTINEL_ARTIFACTS ({told}://) takes {missing}, not installed beside JupyterLab ({how}): {_STAYS[0]}",
                f"SENTINEL_ARTIFACTS（{told}://）需要 {missing}，但 JupyterLab 的环境中未安装（{how}）：{_STAYS[1]}",
            )
    return None


_STAYS = (
    "saved files stay on this machine, and are not copied there.",
    "保存的文件只留在本机，不会复制到该处。",
)
_WHY_CHARACTERS = 200


def _printable(text: str, most: int) -> str:
    """Return a text as it may be told: it may be anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:most])


def _missing(implementation: str) -> str:
    """Return the module that fsspec's ``implementation`` (MODULE.CLASS) lacks, or ""."""
    module = implementation.rpartition(".")[0]
    top = module.partition(".")[0]
    if top != "fsspec":
        if sys.modules.get(top) is not None:
            return ""  # one that was made by hand has no specification, which find_spec takes for an error
        return "" if importlib.util.find_spec(top) is not None else top
    try:
        importlib.import_module(module)
    except ImportError as error:
        return (error.name or "").partition(".")[0] or module
    return ""
