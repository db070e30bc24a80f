"""Making a program that would run as the owner of the folder that it lies in, by each call that sets a mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Attacker

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_ATTACK = r"""
import stat
os.chdir(os.path.dirname(sys.argv[1]))
open("program", "w").close()
program = os.open("program", os.O_RDONLY)
here = os.open(".", os.O_RDONLY)
create = os.O_CREAT | os.O_WRONLY
tell({
    "chmod": tried(lambda: os.chmod("program", 0o4755)),
    "both": tried(lambda: os.chmod("program", 0o6755)),
    "fchmod": tried(lambda: os.fchmod(program, 0o4755)),
    "fchmodat": tried(lambda: os.chmod("program", 0o4755, dir_fd=here)),
    "openat": tried(lambda: os.open("made", create, 0o4755)),
    "group": tried(lambda: os.open("made", create, 0o2755)),
    "unnamed": tried(lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)),
    "mknod": tried(lambda: os.mknod("made", stat.S_IFREG | 0o4755)),
    "plain": tried(lambda: os.chmod("program", 0o1755)),
    "new": tried(lambda: os.open("new", create, 0o755)),
    "folder": tried(lambda: (os.mkdir("shared"), os.chmod("shared", 0o2775))),
})
"""


def test_program_that_runs_as_its_owner_is_made_by_no_call(attacker: Attacker) -> None:
    refused = dict.fromkeys(
        ("chmod", "both", "fchmod", "fchmodat", "openat", "group", "unnamed", "mknod"), "EPERM"
    )
    assert attacker.inside(_ATTACK, attacker.profile()) == {
        **refused,
        **dict.fromkeys(("plain", "new", "folder"), "ok"),
    }
