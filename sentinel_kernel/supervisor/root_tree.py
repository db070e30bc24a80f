"""A folder that a profile names as the sandbox's root: what is in it, and what of the host's Python is shown beside.

The tree's programs are the cells'; the kernel's own Python stays the host's, with the loader and the libraries that it
needs, at their own paths. A tree with a C library of its own at those paths can't be had beside it.
"""

from __future__ import annotations

import os
import stat
import struct

from sentinel_kernel.errors import BootError
from sentinel_kernel.policy.plan import Image, is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from sentinel_kernel.policy.plan import PythonPaths

_STEP: Final = "root_tree"
_NOT_TAKEN: Final = frozenset({"dev", "etc", "home", "media", "mnt", "proc", "root", "run", "sys", "tmp"})
"""They are the sandbox's own, whatever the tree has there."""
_PT_INTERP: Final = 3
_LIBC: Final = "libc.so.6"


def read_root_tree(named: str, home: str, python: PythonPaths) -> Image:
    """Return what the folder ``named`` gives, which ``~/`` may begin for ``home``.

    Raises:
        BootError: it is not there, is no root tree, or can't hold the host's Python beside its own files.

    """
    path = os.path.realpath(os.path.join(home, named[2:]) if named.startswith("~/") else named)
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise _error(
            error.errno or 0, f"The root tree {named}: {error.strerror}.", "Name a folder that is there."
        ) from None
    links: list[tuple[str, str]] = []
    folders: list[str] = []
    for name in names:
        mode = os.lstat(os.path.join(path, name)).st_mode
        if name in _NOT_TAKEN:
            continue
        if stat.S_ISLNK(mode):
            links.append((f"/{name}", os.readlink(os.path.join(path, name))))
        elif stat.S_ISDIR(mode):
            folders.append(f"/{name}")
    if not any(os.path.lexists(f"{path}/{place}/sh") for place in ("bin", "usr/bin")):
        remedy = "Unpack an image there: it needs a shell, /bin/sh, as programs are started by it."
        raise _error(2, f"{named} is no root tree: it has no /bin/sh.", remedy)
    beside = _beside(path, python, set(folders))
    if "/lib" not in folders and not any(link == "/lib" for link, _ in links):
        links.append(("/lib", "usr/lib"))
    for target, _, _ in beside:
        top = f"/{target.split('/')[1]}"
        if top in folders and os.geteuid() not in (0, os.stat(path + top).st_uid):
            remedy = f"Unpack it as yourself, so that {path}{top} is yours."
            raise _error(13, f"The tree {named} belongs to somebody else.", remedy)
    return Image(path, tuple(folders), tuple(links), tuple(beside))


def _beside(path: str, python: PythonPaths, folders: set[str]) -> list[tuple[str, str, bool]]:
    """Return (path inside, path on the host, whether it is a folder) of what the host's Python needs of the host."""
    executable = os.path.realpath(python.executable)
    found: dict[str, tuple[str, bool]] = {}
    loader = _interpreter_of(executable)
    libraries = _library_folder()
    if loader:
        found[loader] = (os.path.realpath(loader), False)
    if libraries:
        found[libraries] = (libraries, True)
        old = libraries.removeprefix("/usr")
        if "/lib" in folders and old.startswith("/lib/"):
            found[old] = (libraries, True)
    for place in (loader, f"{libraries}/{_LIBC}" if libraries else ""):
        if place and os.path.lexists(path + place):
            what = f"The tree {path} has a C library of its own ({place}), and the kernel's Python is the host's."
            raise _error(
                17, what, "Use a tree without one (static programs, musl), or run cells without a tree."
            )
    if is_within(executable, "/usr"):
        found.update(dict.fromkeys(_link_chain(python.executable), (executable, False)))
    tops = [folder for folder in python.module_directories if is_within(folder, "/usr")]
    tops += (
        [python.base_prefix] if python.base_prefix != "/usr" and is_within(python.base_prefix, "/usr") else []
    )
    for folder in sorted(tops):
        if not any(is_within(folder, other) for other in found):
            found[folder] = (folder, True)
    return [(target, source, is_folder) for target, (source, is_folder) in found.items()]


def _link_chain(executable: str) -> list[str]:
    """Return every path in /usr that the interpreter's links lead over."""
    chain = []
    for _ in range(16):
        folder = os.path.realpath(os.path.dirname(executable))
        executable = os.path.join(folder, os.path.basename(executable))
        if is_within(executable, "/usr"):
            chain.append(executable)
        if not os.path.islink(executable):
            break
        executable = os.path.join(folder, os.readlink(executable))
    return chain


def _library_folder() -> str:
    """Return where this process's own C library lies, which is what the host's interpreters use."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            mapped = line.rstrip("\n").partition("/")[2]
            if mapped.endswith(f"/{_LIBC}"):
                return os.path.dirname(os.path.realpath(f"/{mapped}"))
    return ""


def _interpreter_of(executable: str) -> str:
    """Return the loader that an executable names (elf(5), PT_INTERP; 64 bits), empty for a static one."""
    with open(executable, "rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
            return ""
        offset, size, count = struct.unpack("<Q14xHH", header[32:58])
        file.seek(offset)
        table = file.read(size * count)
        for index in range(count):
            kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", table, index * size)
            if kind == _PT_INTERP:
                file.seek(start)
                return file.read(min(length, 4096)).rstrip(b"\0").decode("utf-8", "surrogateescape")
    return ""


def _error(number: int, message: str, remedy: str) -> BootError:
    return BootError(_STEP, number, message, remedy)
