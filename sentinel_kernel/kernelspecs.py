"""The launcher's entries: what a kernel.json of ours says, where it is written, and which are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.supervisor import interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping

KERNEL_NAME = "sentinel"
DISPLAY_NAME = "Python 3 (Sentinel)"

_PACKAGE = "sentinel_kernel"
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""For the host: libzmq takes fresh memory for each large message, and most of that time would be page faults."""

_PLAIN_ENVIRONMENTS = (".venv", "venv", "env", ".env")
"""Names of environments that say nothing; the folder around them does."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One installed kernelspec of ours. ``python`` is the cells' interpreter, "" where it is the host's own."""

    name: str
    display_name: str
    folder: str
    python: str
    profile: str


def kernel_specification(
    host: str, display_name: str = DISPLAY_NAME, profile: str | None = None, python: str | None = None
) -> dict[str, Any]:
    """Return the contents of kernel.json for the interpreter ``host``.

    ``-P`` keeps the notebook's folder off the host's import path: what a cell writes there must never run
    outside the sandbox. ``-E`` does the same for PYTHON* variables. ``profile`` is the profile a new kernel
    starts with, ``python`` the interpreter of its cells where that is another one.
    """
    chosen = {"SENTINEL_PROFILE": profile, "SENTINEL_PYTHON": python}
    return {
        "argv": [host, "-P", "-E", "-m", _PACKAGE, "-f", "{connection_file}"],
        "display_name": display_name,
        "env": {**_HUGE_PAGES, **{name: value for name, value in chosen.items() if value}},
        "interrupt_mode": "message",
        "kernel_protocol_version": "5.5",
        "language": "python",
        "metadata": {"debugger": True, "supported_encryption": ["curve"]},
    }


def kernel_json(specification: dict[str, Any]) -> str:
    """Return ``specification`` as the text of kernel.json."""
    return json.dumps(specification, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def install(
    *,
    user: bool,
    prefix: str | None,
    name: str | None = None,
    display_name: str | None = None,
    profile: str | None = None,
    python: str | None = None,
) -> str:
    """Write the kernelspec where Jupyter looks for it and return its folder.

    Without ``user`` and ``prefix`` it goes to the system's folder, as with Jupyter's own commands. argv holds
    the absolute path of this interpreter, so that a server in another environment starts the right one.

    Raises:
        BootError: ``python`` can't run cells.
        SentinelError: the name is not one of a kernel, or another's, or the folder can't be written.

    """
    from jupyter_client.kernelspec import KernelSpecManager  # noqa: PLC0415 - slow, and only needed here

    from sentinel_kernel.policy.shipped import shipped_directory  # noqa: PLC0415

    answer = None if python is None else interpreter.ask(find_interpreter(python))
    environment = "" if answer is None else _environment_name(answer["prefix"])
    if name is None:
        parts = (KERNEL_NAME, _kernel_name(environment), (profile or "").replace("/", "-"))
        name = "-".join(part for part in parts if part)
    if not re.fullmatch(r"[a-z0-9._-]+", name, re.IGNORECASE):
        raise SentinelError(
            f"{name!r} can't be the name of a kernel.", "Use letters, digits, '.', '_' and '-' only."
        )
    if display_name is None:
        number = "3" if answer is None else "{}.{}".format(*answer["version"])
        display_name = f"Python {number} ({', '.join(filter(None, ('Sentinel', environment, profile)))})"
    own = None if answer is None else answer["executable"]
    specification = kernel_specification(sys.executable, display_name, profile, own)
    manager = KernelSpecManager()
    _refuse_taken(name, specification, _destination(manager, name, user=user, prefix=prefix))
    with tempfile.TemporaryDirectory(prefix="sentinel-kernelspec-") as directory:
        shipped = shipped_directory("kernelspec")
        for logo in os.listdir(shipped):
            if logo.startswith("logo-"):
                shutil.copyfile(os.path.join(shipped, logo), os.path.join(directory, logo))
        with open(os.path.join(directory, "kernel.json"), "w", encoding="utf-8") as file:
            file.write(kernel_json(specification))
        # TemporaryDirectory is 0700, and the copy keeps that: a kernelspec is for everybody to read.
        os.chmod(directory, 0o755)  # noqa: S103
        try:
            path: str = manager.install_kernel_spec(directory, name, user=user, prefix=prefix)
        except OSError as error:
            raise SentinelError(
                f"The kernelspec can't be written: {error}.",
                "Install it for yourself with --user, or into this environment with --sys-prefix.",
            ) from error
    return path


def find_interpreter(typed: str) -> str:
    """Return the absolute path of an interpreter as a person typed it: a path, or a command's name."""
    path = os.path.expanduser(typed)
    if os.sep not in path and not os.path.exists(path):
        path = shutil.which(path) or path
    return os.path.abspath(path)


def installed() -> list[Entry]:
    """Return every kernelspec of ours that Jupyter finds here, by name."""
    from jupyter_client.kernelspec import KernelSpecManager  # noqa: PLC0415 - slow, and only needed here

    found = []
    for name, folder in sorted(KernelSpecManager().find_kernel_specs().items()):
        specification = _read(folder)
        if _is_ours(specification):
            environment = specification.get("env") or {}
            found.append(
                Entry(
                    name,
                    str(specification.get("display_name", name)),
                    folder,
                    str(environment.get("SENTINEL_PYTHON", "")),
                    str(environment.get("SENTINEL_PROFILE", "")),
                )
            )
    return found


def _destination(manager: Any, name: str, *, user: bool, prefix: str | None) -> str:  # noqa: ANN401 - untyped
    """Return the folder that ``install_kernel_spec`` will write."""
    from jupyter_core.paths import SYSTEM_JUPYTER_PATH  # noqa: PLC0415 - it is jupyter_client's own

    if prefix is not None:
        return os.path.join(prefix, "share", "jupyter", "kernels", name.lower())
    if user:
        return os.path.join(manager.user_kernel_dir, name.lower())
    return os.path.join(SYSTEM_JUPYTER_PATH[0], "kernels", name.lower())


def _refuse_taken(name: str, wanted: Mapping[str, Any], folder: str) -> None:
    """Raise where another kernel has that name; the same one is written anew."""
    if not os.path.lexists(folder):
        return
    there = _read(folder)
    if _is_ours(there) and there.get("env", {}) == wanted["env"]:
        return
    shown = there.get("display_name")
    raise SentinelError(
        f"There is another kernel called {name!r} in {folder}" + (f" ({shown})." if shown else "."),
        f"Choose another name with --name, or remove that kernel first: jupyter kernelspec remove {name}",
    )


def _read(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, "kernel.json"), encoding="utf-8") as file:
            specification = json.load(file)
    except (OSError, ValueError):
        return {}
    return specification if isinstance(specification, dict) else {}


def _is_ours(specification: Mapping[str, Any]) -> bool:
    argv, environment = specification.get("argv"), specification.get("env", {})
    return isinstance(argv, list) and _PACKAGE in argv and isinstance(environment, dict)


def _environment_name(prefix: str) -> str:
    """Return what a person would call the environment in ``prefix``."""
    folder = os.path.basename(prefix)
    return os.path.basename(os.path.dirname(prefix)) if folder in _PLAIN_ENVIRONMENTS else folder


def _kernel_name(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-")
