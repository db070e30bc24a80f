"""A module planted in the notebook's folder is never imported by the host; plain `python -m` from there imports it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ordinary_user import Identity

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

PLANTED = (
    "zmq.py",
    "json.py",
    "hmac.py",
    "socket.py",
    "sentinel_kernel/__init__.py",
    "sentinel_kernel/__main__.py",
)
CONFIGS = (
    "ipython_config.py",
    "ipython_kernel_config.py",
    "jupyter_config.py",
    "sitecustomize.py",
    "usercustomize.py",
)


@pytest.fixture
def trap(identity: Identity) -> tuple[Path, Path]:
    """Return a workspace full of planted files, and the folder where each would leave its trace."""
    import os
    import tempfile

    base = Path(tempfile.mkdtemp(prefix="trap-", dir=identity.home))
    workspace, traces = base / "work", base / "traces"
    for folder in (workspace, traces):
        folder.mkdir()
    for name in (*PLANTED, *CONFIGS):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        trace = traces / name.replace("/", "-")
        # Leaves its trace wherever it runs; in the sandbox the folder is not there and the attempt is in vain.
        path.write_text(f"try:\n    open({str(trace)!r}, 'w').close()\nexcept OSError:\n    pass\n")
    if os.geteuid() == 0:
        for path in (base, *base.rglob("*")):
            os.chown(path, identity.uid, identity.uid)
    yield workspace, traces
    shutil.rmtree(base)


DRIVE = """
import json, os, sys
from jupyter_client.manager import KernelManager
from jupyter_client.kernelspec import KernelSpec
manager = KernelManager(transport="ipc", ip=sys.argv[3])
manager._kernel_spec = KernelSpec(argv=json.loads(sys.argv[1]), interrupt_mode="message", language="python")
manager.start_kernel(cwd=sys.argv[2])
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
reply = client.execute_interactive("import os; assert 'zmq.py' in os.listdir('.'); print(1 + 1)", timeout=60)
client.stop_channels()
manager.shutdown_kernel(restart=False)
print(json.dumps(reply["content"]["status"]))
"""


def test_the_host_imports_nothing_from_the_notebooks_folder(
    identity: Identity, trap: tuple[Path, Path]
) -> None:
    workspace, traces = trap
    argv = [identity.python, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"]
    sockets = str(traces.parent / "k")
    done = identity.run(
        identity.python, "-P", "-c", DRIVE, json.dumps(argv), str(workspace), sockets, cwd="/"
    )
    assert json.loads(done.stdout.splitlines()[-1]) == "ok"
    assert sorted(path.name for path in traces.iterdir()) == []


def test_plain_python_from_that_folder_runs_them(identity: Identity, trap: tuple[Path, Path]) -> None:
    """The positive control: without -P the planted package itself is what runs."""
    workspace, traces = trap
    identity.run(identity.python, "-m", "sentinel_kernel", "-f", "nothing.json", check=False, cwd=workspace)
    assert (traces / "sentinel_kernel-__main__.py").exists()
    subprocess.run([sys.executable, "-c", "import zmq, json"], cwd=workspace, check=False)
    assert (traces / "zmq.py").exists()
