"""Runs the programs that the images are made with; what is missing is said in one kind of error."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class CannotBuild(Exception):
    """Something that the virtual machine is made of is not to be had; the message says what to install."""


def search_path() -> str:
    """Return a PATH that has the folders of the system's own tools too."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def run(*command: str, cwd: Path | None = None) -> str:
    """Return what a program printed. Raises CannotBuild where it fails."""
    environment = os.environ | {"LC_ALL": "C", "PATH": search_path()}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    if done.returncode != 0:
        raise CannotBuild(f"{' '.join(command[:6])} gave {done.returncode}: {done.stderr[-800:]}")
    return done.stdout


def compile_modules(folder: Path, top: Path) -> None:
    """Compile modules for Debian's interpreter: else half a minute of each boot under emulation is compiling."""
    run("/usr/bin/python3", "-m", "compileall", "-q", "-s", str(top), str(folder))


def make_image(folder: Path, image: Path, size_mib: int) -> None:
    """Make an ext4 image of a folder."""
    partial = image.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", str(folder), str(partial), f"{size_mib}M")
    partial.rename(image)
