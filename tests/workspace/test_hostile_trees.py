"""Trees that a hostile cell makes, committed with every yes, listed, compared, exported and saved.

Each case has a control file in the same folder, which reaches the host; what else may and what may not is told case
by case. After each the folders beside the workspace are as they were (conftest.py).
"""

from __future__ import annotations

import os
import shutil
import stat
from errno import EINVAL, ELOOP
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conftest import Case

pytestmark = [pytest.mark.requires("user_namespaces", "overlay")]

_YES = ("overwrite", "delete", "dangerous", "conflict")
_LONG = "n" * 255
_MADE_ANEW = ("d",)
_BEYOND = ("../../outside/secret", "../outside/secret", "/etc/passwd")
"""Paths, from the case's folder, that lead out of the workspace."""


class Tree(NamedTuple):
    """What is made, and what a commit with every yes makes of it."""

    name: str
    cell: str
    """Run in the case's folder; it tells something true where what it makes is really there."""
    expected: dict[str, str]
    """What the host's folder holds then, beside the control file."""
    failed: Mapping[str, str] = MappingProxyType({})
    before: Mapping[str, str] = MappingProxyType({})
    """Files on the host, before the cell; OUTSIDE is a link to the folder beside the workspace."""
    host: str = ""
    """Done on the host between the cell and the commit; ``host`` is its folder, ``outside`` the one beside."""


_TREES = [
    Tree(
        "a link to a file of the system",
        "os.symlink('/etc/passwd', 'link'); tell(os.path.islink('link'))",
        {},
        {"link": "not_committable"},
    ),
    Tree(
        "a link to a file beside the workspace",
        "os.symlink(OUT + '/secret', 'link'); tell(os.path.islink('link'))",
        {},
        {"link": "not_committable"},
    ),
    Tree(
        "a link to a folder beside the workspace",
        "os.symlink(OUT, 'link'); tell(os.path.islink('link'))",
        {},
        {"link": "not_committable"},
    ),
    Tree(
        "a link to the folder that it is in",
        "os.symlink('.', 'link'); tell(os.path.samefile('link', '.'))",
        {},
        {"link": "not_committable"},
    ),
    Tree(
        "links that lead to each other",
        "os.symlink('b', 'a'); os.symlink('a', 'b'); tell(len(os.listdir()))",
        {},
        {"a": "not_committable", "b": "not_committable"},
    ),
    Tree(
        "a link in place of a file of the host",
        "os.unlink('f'); os.symlink(OUT + '/secret', 'f'); tell(os.path.islink('f'))",
        {"f": "host"},
        {"f": "not_committable"},
        {"f": "host"},
    ),
    Tree(
        "a link in place of a folder of the host",
        "os.unlink('d/f'); os.rmdir('d'); os.symlink(OUT, 'd'); tell(os.path.islink('d'))",
        {"d": "/", "d/f": "host"},
        {"d": "not_committable"},
        {"d/f": "host"},
    ),
    Tree("a FIFO", "os.mkfifo('f'); tell(stat.S_ISFIFO(os.stat('f').st_mode))", {}, {"f": "not_committable"}),
    Tree(
        "a FIFO in place of a file of the host",
        "os.unlink('f'); os.mkfifo('f'); tell(stat.S_ISFIFO(os.stat('f').st_mode))",
        {"f": "host"},
        {"f": "not_committable"},
        {"f": "host"},
    ),
    Tree(
        "a FIFO that somebody waits at",
        "os.mkfifo('f'); threading.Thread(target=lambda: open('f', 'w'), daemon=True).start(); tell(1)",
        {},
        {"f": "not_committable"},
    ),
    Tree(
        "a socket",
        "socket.socket(socket.AF_UNIX).bind('s'); tell(stat.S_ISSOCK(os.stat('s').st_mode))",
        {},
        {"s": "not_committable"},
    ),
    Tree(
        "a file that came and went",
        "open('f', 'w').close(); os.unlink('f'); tell(not os.path.exists('f'))",
        {},
    ),
    Tree(
        "one file with two names",
        "open('a', 'w').write('x'); os.link('a', 'b'); tell(os.stat('a').st_nlink == 2)",
        {"a": "x", "b": "x"},
    ),
    Tree(
        "a second name of a file of the host",
        "os.link('f', 'g'); tell(open('g').read() == 'host')",
        {"f": "host", "g": "host"},
        before={"f": "host"},
    ),
    Tree(
        "a setuid file",
        "open('f', 'w').write('x'); os.chmod('f', 0o2755); tell(os.stat('f').st_mode & 0o2000 == 0o2000)",
        {"f": "x"},
    ),
    Tree(
        "a setuid folder",
        "os.mkdir('d'); os.chmod('d', 0o3777); open('d/f', 'w').write('x'); tell(1)",
        {"d": "/", "d/f": "x"},
    ),
    Tree(
        "a file that everybody may write",
        "open('f', 'w').write('x'); os.chmod('f', 0o666); tell(os.stat('f').st_mode & 0o777 == 0o666)",
        {"f": "x"},
    ),
    Tree(
        "a file of one TiB that is a hole",
        "open('f', 'w').truncate(1 << 40); tell(os.stat('f').st_size == 1 << 40)",
        {"f": "\0" * 4096},
    ),
    Tree(
        "a file longer than the host's disk can hold",
        "open('f', 'w').truncate((1 << 62) + 1); tell(os.stat('f').st_size > 1 << 61)",
        {},
        {"f": "no_space"},
    ),
    Tree(
        "a file with thousands of holes",
        "f = open('f', 'wb')\nfor i in range(2000): f.seek(i * 8192); f.write(b'x')\nf.close(); tell(1)",
        {"f": "x" + "\0" * 4095},
    ),
    Tree("a name of two lines", "open('two\\nlines', 'w').write('x'); tell(1)", {"two\nlines": "x"}),
    Tree(
        "a name that is escapes", "open('\\x1b[2J\\x07\\r', 'w').write('x'); tell(1)", {"\x1b[2J\x07\r": "x"}
    ),
    Tree("a name that is no UTF-8", "open(b'\\xff\\xfe', 'w').write('x'); tell(1)", {"\udcff\udcfe": "x"}),
    Tree(
        "names that change the direction of text, or join",
        "open('a\\u202efdp.exe', 'w').write('x'); open('b\\u200d', 'w').write('y'); tell(1)",
        {"a\u202efdp.exe": "x", "b\u200d": "y"},
    ),
    Tree("a name as long as one can be", f"open({_LONG!r}, 'w').write('x'); tell(1)", {_LONG: "x"}),
    Tree(
        "names like options, and dots",
        "[open(name, 'w').write('x') for name in ('-rf', '...', '..a', ' ', '~', '*')]; tell(1)",
        dict.fromkeys(("-rf", "...", "..a", " ", "~", "*"), "x"),
    ),
    Tree(
        "the name of an unfinished file",
        "open('.sentinel-0123.parts', 'w').write('x'); open('.sentinel-01.part', 'w').write('y'); tell(1)",
        {".sentinel-0123.parts": "x"},
        {".sentinel-01.part": "not_committable"},
    ),
    Tree(
        "a folder with the name of an unfinished file",
        "os.makedirs('.sentinel-01.part/d'); open('.sentinel-01.part/d/f', 'w').write('y'); tell(1)",
        {},
        {
            ".sentinel-01.part": "not_committable",
            ".sentinel-01.part/d": "not_committable",
            ".sentinel-01.part/d/f": "not_committable",
        },
    ),
    Tree(
        "times of other ages",
        "open('f', 'w').write('x'); os.utime('f', (2**40, -(2**40))); tell(os.stat('f').st_mtime < 0)",
        {"f": "x"},
    ),
    Tree(
        "marks of the overlay that a cell sets",
        "os.mkdir('d'); open('d/f', 'w').write('x')\n"
        "for name in ('opaque', 'whiteout', 'sentinel', 'redirect', 'metacopy'):\n"
        "    os.setxattr('d', 'user.overlay.' + name, b'y'); os.setxattr('d/f', 'user.overlay.' + name, b'y')\n"
        "tell(os.getxattr('d', 'user.overlay.opaque') == b'y')",
        {"d": "/", "d/f": "x"},
    ),
    Tree(
        "a file in place of a folder of the host",
        "os.unlink('d/f'); os.rmdir('d'); open('d', 'w').write('x'); tell(os.path.isfile('d'))",
        {"d": "/", "d/f": "host"},
        {"d": "not_committable"},
        {"d/f": "host"},
    ),
    Tree(
        "a folder in place of a file of the host",
        "os.unlink('f'); os.mkdir('f'); open('f/g', 'w').write('x'); tell(os.path.isdir('f'))",
        {"f": "host"},
        {"f": "not_committable", "f/g": "not_committable"},
        {"f": "host"},
    ),
    Tree(
        "a file in place of a link of the host",
        "open('new', 'w').write('x'); tell(1)",
        {"new": "l"},
        {"new": "not_committable"},
        host="(host / 'new').symlink_to(outside / 'secret')",
    ),
    Tree(
        "a folder of the host that becomes a link meanwhile",
        "open('d/f', 'w').write('x'); open('d/g', 'w').write('x'); tell(1)",
        {"d": "l", "old": "/", "old/f": "host"},
        {"d": "not_committable", "d/f": "not_committable", "d/g": "not_committable"},
        {"d/f": "host"},
        host="(host / 'd').rename(host / 'old'); (host / 'd').symlink_to(outside / 'folder')",
    ),
    Tree(
        "a folder of the host that becomes a file meanwhile",
        "open('d/f', 'w').write('x'); tell(1)",
        {"d": "file", "old": "/", "old/f": "host"},
        {"d": "not_committable", "d/f": "not_committable"},
        {"d/f": "host"},
        host="(host / 'd').rename(host / 'old'); (host / 'd').write_text('file')",
    ),
    Tree(
        "a file of the host that becomes a link meanwhile",
        "open('f', 'w').write('x'); tell(1)",
        {"f": "l"},
        {"f": "not_committable"},
        {"f": "host"},
        host="(host / 'f').unlink(); (host / 'f').symlink_to(outside / 'secret')",
    ),
    Tree(
        "a file of the host that becomes a FIFO meanwhile",
        "open('f', 'w').write('x'); tell(1)",
        {"f": "p"},
        {"f": "not_committable"},
        {"f": "host"},
        host="(host / 'f').unlink(); os.mkfifo(host / 'f')",
    ),
    Tree(
        "a file of the host that is gone meanwhile",
        "open('f', 'w').write('x'); tell(1)",
        {"f": "x"},
        before={"f": "host"},
        host="(host / 'f').unlink()",
    ),
    Tree(
        "a folder of the host that is gone meanwhile",
        "open('d/f', 'w').write('x'); tell(1)",
        {"d": "/", "d/f": "x"},
        before={"d/f": "host"},
        host="shutil.rmtree(host / 'd')",
    ),
    Tree(
        "a deleted folder that holds a link",
        "shutil = __import__('shutil'); shutil.rmtree('d'); tell(not os.path.exists('d'))",
        {},
        before={"d/f": "host", "d/link": "OUTSIDE"},
    ),
    Tree(
        "a deleted folder to which the host adds a file",
        "__import__('shutil').rmtree('d'); tell(not os.path.exists('d'))",
        {"d": "/", "d/f": "host", "d/later": "added"},
        {"d": "changed_meanwhile"},
        {"d/f": "host"},
        host="(host / 'd/later').write_text('added')",
    ),
    Tree(
        "a deleted file that the host changes",
        "os.unlink('f'); tell(not os.path.exists('f'))",
        {"f": "edited"},
        {"f": "changed_meanwhile"},
        {"f": "host"},
        host="(host / 'f').write_text('edited')",
    ),
    Tree(
        "a folder made anew, to which the host adds a file",
        "__import__('shutil').rmtree('d'); os.mkdir('d'); open('d/new', 'w').write('x'); tell(1)",
        {"d": "/", "d/new": "x", "d/later": "added"},
        before={"d/f": "host"},
        host="(host / 'd/later').write_text('added')",
    ),
    Tree(
        "a hundred folders within each other",
        "[(os.mkdir('d'), os.chdir('d')) for _ in range(100)]; open('f', 'w').write('x'); os.chdir('/'); tell(1)",
        {"/".join(["d"] * deep): "/" for deep in range(1, 101)} | {"/".join(["d"] * 100) + "/f": "x"},
    ),
    Tree(
        "a name of git's, written otherwise",
        "os.mkdir('.GIT'); open('.GIT/config', 'w').write('x'); tell(1)",
        {".GIT": "/", ".GIT/config": "x"},
    ),
]


@pytest.mark.parametrize("tree", _TREES, ids=[tree.name for tree in _TREES])
def test_tree_is_committed_within_its_folder(case: Case, tree: Tree) -> None:
    for name, text in tree.before.items():
        if text == "OUTSIDE":
            (case.host / name).symlink_to(case.outside)
        else:
            case.write(name, text)
    assert case.cell("open('control', 'w').write('seen')\n" + tree.cell)  # positive control: it was made
    if tree.host:
        exec("import os, shutil\n" + tree.host, {"host": case.host, "outside": case.outside})
    seen = case.look("control", *_BEYOND)
    told = seen["list"]
    assert told["control"]["kind"] == "new"
    _is_seen_safely(case, seen)
    _is_saved_whole(seen["save"], told)
    outcome = case.commit(*_YES, what="commit_and_list")
    assert outcome["failed"] == tree.failed
    assert case.tree() == {"control": "seen", **tree.expected}
    for path in case.host.rglob("*"):
        assert path.lstat().st_mode & 0o7000 == 0
    assert set(case.within(outcome["left"])) - {"control"} <= set(tree.failed)


def _is_seen_safely(case: Case, seen: dict[str, Any]) -> None:
    """What was compared and exported: a link is not followed, and nothing but files is opened."""
    assert "control" in {path.partition("/")[2] for path in seen["diff"]}
    assert seen["export"][0] == [4, "seen"]
    assert {errno for errno, _ in seen["export"][1:]} <= {EINVAL, ELOOP}
    special = [f"{case.name}/{name}" for name, change in seen["list"].items() if change["kind"] == "special"]
    if special:
        exported = case.held.work_on("export", paths=special)
        assert {errno for errno, _ in exported} <= {EINVAL, ELOOP}


def _is_saved_whole(saved: dict[str, Any], told: dict[str, dict[str, Any]]) -> None:
    """What was saved: the plain files that are told of, whole, and nothing else; none of them a program any more."""
    files = Path(saved["path"], "files")
    found = {
        os.path.relpath(os.path.join(folder, name), os.fsencode(files)): os.lstat(os.path.join(folder, name))
        for folder, _, names in os.walk(os.fsencode(files))
        for name in names
    }
    plain = {
        os.fsencode(path): change
        for path, change in told.items()
        if change["kind"] in ("new", "changed") and not change["is_folder"]
    }
    too_long = {path for path, change in plain.items() if change["size"] > 1 << 61}
    assert set(found) == set(plain) - too_long
    special = sum(change["kind"] == "special" for change in told.values())
    assert saved["left_out"] == special + len(too_long), saved["skipped"]
    for path, status in found.items():
        assert stat.S_ISREG(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert status.st_size == plain[path]["size"]
        assert status.st_blocks * 512 < 64 << 20  # holes are holes
    assert (files / "control").read_text() == "seen"
    gone = {path for path, change in told.items() if change["kind"] == "deleted"}
    # Of a folder that was made anew the layer has no names of what was in the old one.
    assert set(saved["deleted"]) >= {path for path in gone if os.path.dirname(path) not in _MADE_ANEW}
    shutil.rmtree(saved["path"])
