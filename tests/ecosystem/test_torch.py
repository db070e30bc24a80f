"""torch's data loaders, whose workers hand tensors over in shared memory; where some interpreter has torch.

PyPI's wheel brings gigabytes of CUDA, so `make test` installs none: Debian's python3-torch is one that will do.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ecosystem_cell import entry
from lacking import lacking_beyond_ci

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordinary_user import Identity

DRIVER = Path(__file__).parent / "drivers" / "run_entries.py"
ENTRY = entry(
    "torch",
    """
%%writefile ecosystem_loader.py
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1000,), float(index * index))

def total(method, sharing):
    torch.multiprocessing.set_sharing_strategy(sharing)
    loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context=method)
    return int(sum(batch[:, 0].sum() for batch in loader))
""",
    "from ecosystem_loader import total\nprint(total('fork', 'file_descriptor'), total('fork', 'file_system'))",
    "print(total('spawn', 'file_descriptor'))",
    "import torch\na = torch.rand(300, 300, requires_grad=True)\n(a @ a).sum().backward()\nprint(a.grad.shape)\n"
    "torch.save(a, 'a.pt')\nprint(torch.equal(torch.load('a.pt'), a))",
    prints=r"Writing .*\n85344 85344\n85344\ntorch\.Size\(\[300, 300\]\)\nTrue\n",
)


def _has_torch(python: str) -> bool:
    code = "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"
    return subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
@pytest.mark.timeout(600)
def test_data_loader_workers(
    own_user: Identity,
    make_folder: Callable[[Identity, str], Path],
    jupyter_environment: Callable[..., dict[str, str]],
) -> None:
    python = next((one for one in (sys.executable, "/usr/bin/python3") if _has_torch(one)), None)
    if python is None:
        lacking_beyond_ci("torch", "no interpreter with torch (apt-get install python3-torch)")
    folder = make_folder(own_user, "torch")
    environment = jupyter_environment(own_user)
    if python != sys.executable:
        own_user.run(python, "-m", "venv", "--system-site-packages", "worker", cwd=folder)
        python = str(folder / "worker" / "bin" / "python")
        own_user.run(python, "-m", "pip", "-q", "install", "ipykernel", cwd=folder, timeout=300)
    prefix = folder / "prefix"
    install = (own_user.python, "-m", "sentinel_kernel.cli", "install", "--prefix", str(prefix))
    own_user.run(*install, "--name", "with-torch", "--python", python)
    environment["JUPYTER_PATH"] = str(prefix / "share" / "jupyter")
    (folder / "entries.json").write_text(json.dumps([dataclasses.asdict(ENTRY)]))
    shutil.copy(DRIVER, folder / "run_entries.py")
    own_user.run(
        own_user.python,
        *("run_entries.py", "with-torch", "entries.json", "results.json"),
        cwd=folder,
        env=environment,
        timeout=280,
    )
    result = json.loads((folder / "results.json").read_text())["torch"]
    assert re.fullmatch(ENTRY.prints, result["text"]), f"{result['text']}\n{result['errors']}"
    assert result["violations"] == []
