"""What the virtual machine boots: Debian's cloud kernel, a root disk of this machine's own packages, and this tree.

Nothing of it is installed on this machine: the kernel's package is downloaded with apt and unpacked. This tree is an
image of its own, so that a changed line does not rebuild the root disk. All is kept in .cache/vm/.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from commands import CannotBuild, compile_modules, make_image, run, search_path
from root_disk import root_disk

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "vm"
_KERNEL_PACKAGE = "linux-image-cloud-amd64"
_MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "drivers/block/virtio_blk",
    "fs/overlayfs/overlay",
)
"""In the order in which they need each other."""

_TREE = ("sentinel_kernel", "profiles", "mappings", "kernelspec", "tests", "pyproject.toml")
_TOOLS = {"apt-get": "apt", "dpkg-deb": "dpkg", "mkfs.ext4": "e2fsprogs", "git": "git"}


@dataclass(frozen=True)
class Images:
    """What qemu is given; ``release`` is that of the Linux kernel."""

    kernel: Path
    initramfs: Path
    root: Path
    tree: Path
    release: str


def build() -> Images:
    """Return the images, made anew where the cached ones are out of date.

    Raises:
        CannotBuild: a tool, a package or root's rights are missing.

    """
    for tool, package in _TOOLS.items():
        if shutil.which(tool, path=search_path()) is None:
            raise CannotBuild(f"{tool} is not there: apt-get install {package}")
    if os.geteuid() != 0:
        raise CannotBuild("the root disk is made of root's files, so root has to make it")
    if os.uname().machine != "x86_64":
        raise CannotBuild("the virtual machine is an x86_64 one")
    CACHE.mkdir(parents=True, exist_ok=True)
    folder, release = _kernel()
    root = root_disk(CACHE)
    return Images(folder / "boot" / f"vmlinuz-{release}", _initramfs(folder, release), root, _tree(), release)


def _kernel() -> tuple[Path, str]:
    """Return the unpacked package of Debian's newest cloud kernel, and its release."""
    shown = run("apt-cache", "depends", "--no-recommends", _KERNEL_PACKAGE)
    found = re.search(r"Depends: (linux-image-(\S+-cloud-amd64))", shown)
    if found is None:
        raise CannotBuild(f"apt knows no {_KERNEL_PACKAGE}: run apt-get update on Debian 12 or newer")
    package, release = found.groups()
    folder = CACHE / package
    if not folder.exists():
        for old in CACHE.glob("linux-image-*"):
            shutil.rmtree(old)
        _unpack(package, folder)
    return folder, release


def _unpack(package: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        files = Path(scratch) / "files"
        run("apt-get", "-o", "APT::Sandbox::User=root", "download", "-qq", package, cwd=Path(scratch))
        run("dpkg-deb", "-x", str(next(Path(scratch).glob("*.deb"))), str(files))
        files.rename(folder)


def _initramfs(kernel: Path, release: str) -> Path:
    """Return a cpio archive (initramfs buffer format of the Linux kernel) that goes on to the root disk."""
    busybox = CACHE / "busybox-static"
    if not busybox.exists():
        _unpack("busybox-static", busybox)
    script = (Path(__file__).parent / "inside" / "initramfs.sh").read_bytes()
    recipe = script + Path(__file__).read_bytes()
    target = CACHE / f"initramfs-{release}-{hashlib.sha256(recipe).hexdigest()[:12]}.gz"
    if target.exists():
        return target
    for old in CACHE.glob("initramfs-*"):
        old.unlink()
    top = next(
        path for prefix in ("usr/lib", "lib") if (path := kernel / prefix / "modules" / release).is_dir()
    )
    folders = [_entry(name, stat.S_IFDIR | 0o755) for name in ("bin", "dev", "proc", "root", "modules")]
    modules = [
        _entry(
            f"modules/{number}-{Path(name).name}.ko",
            stat.S_IFREG | 0o644,
            (top / "kernel" / f"{name}.ko").read_bytes(),
        )
        for number, name in enumerate(_MODULES)
    ]
    programs = [
        _entry("bin/busybox", stat.S_IFREG | 0o755, next(busybox.rglob("bin/busybox")).read_bytes()),
        _entry("init", stat.S_IFREG | 0o755, script),
    ]
    archive = b"".join((*folders, *modules, *programs, _entry("TRAILER!!!", 0)))
    target.write_bytes(gzip.compress(archive, 1))
    return target


def _entry(name: str, mode: int, content: bytes = b"") -> bytes:
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
    return b"".join(part + bytes(-len(part) % 4) for part in (header, content))


def _tree() -> Path:
    """Return a small image of this tree as it is now."""
    names = run("git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", *_TREE)
    present = [name for name in names.splitlines() if (ROOT / name).is_file()]
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        top = Path(scratch)
        run("cp", "-a", "--parents", "-t", scratch, *present, cwd=ROOT)
        run("chown", "-R", "0:0", scratch)
        run("chmod", "-R", "a+rX", scratch)
        compile_modules(top / "sentinel_kernel", top)
        make_image(top, CACHE / "tree.ext4", 64)
    return CACHE / "tree.ext4"
