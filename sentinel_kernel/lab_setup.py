"""`sentinel-kernel lab-config`: the files around the kernel that a lab needs, written into one folder for a look."""

from __future__ import annotations

import json
import os
import sys

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernelspecs import KERNEL_NAME, kernel_json, kernel_specification
from sentinel_kernel.policy.json_document import parse
from sentinel_kernel.policy.profile import find_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NATIVE = "python3"
"""What notebooks from elsewhere name; here it is a sandboxed kernel, too."""

_SERVER = '''\
"""What a lab's Jupyter server may start: the kernels below KERNELS, and nothing else."""

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

KERNELS = {kernels!r}
ALLOWED = {names!r}


class LabKernels(KernelSpecManager):
    """Jupyter's own checks allowed_kernelspecs where kernels are listed, and not where one is started by its name."""

    def _kernel_dirs_default(self):
        return [KERNELS]

    def get_kernel_spec(self, kernel_name):
        if kernel_name.lower() not in ALLOWED:
            raise NoSuchKernel(kernel_name)
        return super().get_kernel_spec(kernel_name)


c = get_config()  # noqa: F821
c.ServerApp.kernel_spec_manager_class = LabKernels
c.KernelSpecManager.allowed_kernelspecs = set(ALLOWED)
c.KernelSpecManager.ensure_native_kernel = False
c.MappingKernelManager.default_kernel_name = {default!r}
c.ServerApp.terminals_enabled = False
# Some browsers look up the hosts of a page's links before anybody clicks one, which tells of what is in their names.
c.ServerApp.tornado_settings = {{"headers": {{"X-DNS-Prefetch-Control": "off"}}}}
c.ContentsManager.allow_hidden = False
c.LabApp.extension_manager = "readonly"
'''

_GRADER = '''\
"""Notebooks are executed by the sandboxed kernel, whatever kernel their metadata name."""

c = get_config()  # noqa: F821
c.ExecutePreprocessor.kernel_name = {default!r}
c.NotebookClient.kernel_name = {default!r}
c.KernelSpecManager.ensure_native_kernel = False
'''

_START = """\
#!/bin/sh
# Starts the lab's server: it reads its configuration and its kernels from {output} alone, not from a user's home.
unset JUPYTER_CONFIG_PATH JUPYTER_PATH JUPYTER_DATA_DIR PYTHONPATH PYTHONHOME PYTHONSTARTUP
unset SENTINEL_PROFILE SENTINEL_CEILING SENTINEL_PYTHON SENTINEL_ASK
export JUPYTER_CONFIG_DIR={output} JUPYTER_PREFER_ENV_PATH=0
# What JupyterLab keeps for its user: appearance, open tabs.
export JUPYTERLAB_SETTINGS_DIR="$HOME/.jupyter/lab/user-settings"
export JUPYTERLAB_WORKSPACES_DIR="$HOME/.jupyter/lab/workspaces"
exec {python} -I -m {module} "$@"
"""


def lab_files(
    output: str, profile: str, ceiling: str, *, locked: bool, ask: str
) -> dict[str, tuple[str, int]]:
    """Return the files, by their path below ``output``: text and mode."""
    names = (KERNEL_NAME, _NATIVE)
    files = {
        "sentinel-kernel/config.json": json.dumps(
            {"profile": profile, "ceiling": ceiling, "locked": locked, "ask": ask}, indent=2
        )
        + "\n",
        "jupyter_server_config.py": _SERVER.format(
            kernels=os.path.join(output, "kernels"), names=names, default=KERNEL_NAME
        ),
        "nbgrader_config.py": _GRADER.format(default=KERNEL_NAME),
        "jupyter_nbconvert_config.py": _GRADER.format(default=KERNEL_NAME),
    }
    for name in names:
        specification = kernel_specification(sys.executable)
        # -I: neither PYTHON* variables nor a user's own site-packages count.
        specification["argv"] = [sys.executable, "-I", *specification["argv"][3:]]
        files[f"kernels/{name}/kernel.json"] = kernel_json(specification)
    made = {path: (text, 0o644) for path, text in files.items()}
    start = _START.format(output=_quoted(output), python=_quoted(sys.executable), module=_server_module())
    return {**made, "start-server": (start, 0o755)}


def _quoted(text: str) -> str:
    import shlex  # noqa: PLC0415 - for this alone

    return shlex.quote(text)


def _server_module() -> str:
    import importlib.util  # noqa: PLC0415 - for this alone

    return "jupyterlab" if importlib.util.find_spec("jupyterlab") else "jupyter_server"


def write_lab(output: str, profile: str, ceiling: str, *, locked: bool, ask: str, force: bool) -> list[str]:
    """Write the files below ``output`` and return their paths.

    Raises:
        SentinelError: one is there already (and not ``force``), or can't be written.

    """
    output = os.path.abspath(output)
    files = lab_files(output, profile, ceiling, locked=locked, ask=ask)
    taken = [path for path in files if os.path.lexists(os.path.join(output, path))]
    if taken and not force:
        raise SentinelError(
            f"{os.path.join(output, taken[0])} is there already; nothing was written.",
            "Choose another folder with --output, or add --force to replace it.",
        )
    written = []
    try:
        for path, (text, mode) in files.items():
            place = os.path.join(output, path)
            os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
            if os.path.lexists(place):
                os.unlink(place)  # not through a link, and not into what somebody has open
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(descriptor, mode)
            written.append(place)
    except OSError as error:
        raise SentinelError(
            f"{error.filename}: {error.strerror}.", "Choose a folder that you can write to."
        ) from None
    return written


def own_profiles(names: Iterable[str], directories: Sequence[str]) -> dict[str, str]:
    """Return those of the profiles, and of what they extend, that lie in ``directories``: names and paths of files.

    A lab's kernels look for none there: each user would have another one.
    """
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        paths = find_files(name, directories)
        if paths and name not in found:
            found[name] = paths[0]
            with open(paths[0], "rb") as file:
                waiting += filter(None, [str(parse(file.read()).get("extends") or "")])
    return found


def what_to_do(output: str, own: Mapping[str, str]) -> str:
    """Return what is left for the administrator to do; ``own`` are profiles that the lab's kernels do not find yet."""
    output = os.path.abspath(output)
    profiles = "".join(
        f"  install -D -o root -g root -m 644 {_quoted(path)} /etc/sentinel-kernel/profiles/{name}.json\n"
        for name, path in own.items()
    )
    return (
        f"Look at them, then, as root:\n"
        f"  install -d -o root -g root -m 755 /etc/sentinel-kernel\n"
        f"  install -o root -g root -m 644 {output}/sentinel-kernel/config.json /etc/sentinel-kernel/\n"
        f"{profiles}"
        f"  chown -R root:root {output}   (users must be able to read it, and not to write to it)\n"
        f"Start users' servers with {output}/start-server (JupyterHub: c.Spawner.cmd), grade with\n"
        f"  JUPYTER_CONFIG_DIR={output} JUPYTER_PATH={output} nbgrader autograde ...\n"
        f"What this can't hold: a kernel or server that users start themselves, outside these files (SECURITY.md)."
    )
