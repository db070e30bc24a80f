"""What a person commits of an honest cell's files, what it takes, and what cells see afterwards."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from held_workspace import HeldWorkspace
from lacking import roots_side
from supervised import own_folder

if TYPE_CHECKING:
    from conftest import Case
    from ordinary_user import Identity

pytestmark = [pytest.mark.requires("user_namespaces", "overlay")]


def test_a_new_file_is_on_the_host_and_its_copy_is_given_up(case: Case) -> None:
    case.cell("open('new.csv', 'w').write('1,2'); os.utime('new.csv', (1e9, 1e9))")
    assert case.tree() == {}  # positive control: it was held
    assert case.changes()["new.csv"]["autocommit"]
    outcome = case.commit(by_itself=True)
    assert (outcome["count"], outcome["failed"]) == (1, {})
    assert case.tree() == {"new.csv": "1,2"}
    status = (case.host / "new.csv").stat()
    assert (status.st_mode & 0o7777, status.st_mtime, status.st_uid) == (0o644, 1e9, case.held.identity.uid)
    assert case.changes() == {}
    case.write("new.csv", "edited on the host")
    assert case.cell("tell(open('new.csv').read())") == "edited on the host"


def test_memory_of_what_was_committed_is_free(case: Case) -> None:
    free = "tell(os.statvfs('.').f_bfree * os.statvfs('.').f_frsize)"
    before = case.cell(free)
    case.cell("open('big.bin', 'wb').write(bytes(range(256)) * (80 << 10))")
    assert case.cell(free) < before - (19 << 20)  # positive control: it took memory
    assert case.commit()["count"] == 1
    assert case.cell(free) > before - (1 << 20)
    assert (case.host / "big.bin").stat().st_size == 20 << 20


@pytest.mark.parametrize("whole", ["d", "above"])
def test_a_folder_that_gets_another_name_while_its_copies_lie_aside_keeps_its_files(
    case: Case, whole: str
) -> None:
    # A folder that is in use is the cell's alone to the overlay, which gives no other name to one that the host has.
    case.cell(
        "os.makedirs('above/d'); open('above/d/kept', 'w').write('the cell'); used = os.open('above/d', 0)"
    )
    old = f"{case.name}/above" + ("/d" if whole == "d" else "")
    case.commit(what="commit_while_renamed", rename=[old, f"{case.name}/moved"])
    assert case.tree()["above/d/kept"] == "the cell"  # positive control: it was committed
    new = "moved" if whole == "d" else "moved/d"
    assert case.cell(f"tell(open({new + '/kept'!r}).read())") == "the cell"
    answers = ("overwrite", "delete", "dangerous", "conflict")
    case.commit(*answers)
    assert case.tree()[f"{new}/kept"] == "the cell"
    case.cell("os.close(used)")


def test_what_is_written_to_an_open_file_after_its_commit_is_not_lost(case: Case) -> None:
    case.cell("log = open('log', 'w'); log.write('one '); log.flush()")
    assert (
        case.commit(by_itself=True)["count"] == 0
    )  # somebody is writing it: nobody said that it is to be taken now
    assert case.commit()["count"] == 1
    assert case.tree() == {"log": "one "}
    assert case.changes() == {}
    case.cell("log.write('two'); log.flush(); tell(1)")
    assert case.cell("tell(open('log').read())") == "one two"
    change = case.changes()["log"]
    assert (change["kind"], change["conflict"]) == ("changed", False)  # by nobody but our own commit
    case.cell("log.close()")
    assert case.commit("overwrite")["count"] == 1
    assert case.tree() == {"log": "one two"}
    case.write("log", "edited on the host")
    assert case.cell("tell(open('log').read())") == "edited on the host"


def test_what_is_stored_through_a_mapping_after_its_commit_is_not_lost(case: Case) -> None:
    case.cell(
        "f = open('m', 'w+b'); f.write(bytes(8192)); f.flush()\nspace = mmap.mmap(f.fileno(), 8192); f.close()"
    )
    assert case.commit()["count"] == 1
    case.cell("space[0:4] = b'data'; space.flush()")
    assert case.cell("tell(open('m', 'rb').read(4).decode())") == "data"
    case.cell("space.close()")


def test_a_cell_whose_folder_was_committed_still_sees_its_files(case: Case) -> None:
    case.held.cell(
        f"os.chdir({case.name!r}); os.mkdir('d'); open('d/f', 'w').write('x'); home = os.open('d', os.O_PATH)"
    )
    assert case.commit()["count"] == 2
    assert case.cell("tell(open(os.open('f', os.O_RDONLY, dir_fd=home)).read())") == "x"
    case.cell("os.close(home)")
    case.held.work_on("give_up", below=case.name)
    case.write("d/f", "edited on the host")
    assert case.cell("tell(open('d/f').read())") == "edited on the host"


def test_a_file_that_the_host_changed_since_is_kept_beside_the_cells(case: Case) -> None:
    case.write("f", "old")
    case.cell("open('f', 'w').write('the cell')")
    case.write("f", "the host")
    assert case.changes()["f"]["conflict"]
    assert case.commit("overwrite")["failed"] == {"f": "changed_meanwhile"}
    outcome = case.commit("overwrite", "conflict")
    assert (outcome["count"], outcome["failed"]) == (1, {})
    (beside,) = (name for name in case.tree() if name.startswith("f.sentinel-"))
    assert case.tree() == {"f": "the host", beside: "the cell"}
    assert outcome["beside"] == [f"{case.name}/{beside}"]
    assert case.cell("tell(open('f').read())") == "the host"


def test_a_file_that_came_to_the_host_meanwhile_is_kept_beside_the_cells(case: Case) -> None:
    case.cell("open('f', 'w').write('the cell')")
    case.write("f", "the host")
    assert case.changes()["f"]["conflict"]
    assert case.commit(by_itself=True)["count"] == 0
    assert case.commit("overwrite", "conflict")["count"] == 1
    assert sorted(case.tree().values()) == ["the cell", "the host"]


def test_nothing_of_the_hosts_is_changed_without_a_yes(case: Case) -> None:
    for name in ("changed", "deleted", "program"):
        case.write(name, "host")
    (case.host / "program").chmod(0o755)
    case.write("folder/f", "host")
    before = case.tree()
    case.cell(
        "open('changed', 'w').write('cell'); os.unlink('deleted'); open('program', 'w').write('cell')\n"
        "os.unlink('folder/f'); os.rmdir('folder'); os.mkdir('.git'); open('.git/config', 'w').write('x')\n"
        "open('new.sh', 'w').write('x'); os.chmod('new.sh', 0o755); os.mkdir('lib'); open('lib/m.py', 'w').write('x')"
    )
    loaded = [str(case.host / "lib")]
    refused = {"changed", "deleted", "program", "folder", ".git", ".git/config", "new.sh", "lib", "lib/m.py"}
    assert set(case.commit(loaded=loaded)["failed"]) == refused
    assert case.tree() == before
    outcome = case.commit("overwrite", "delete", loaded=loaded)
    assert set(outcome["failed"]) == {"program", ".git", ".git/config", "new.sh", "lib", "lib/m.py"}
    assert case.tree() == {"changed": "cell", "program": "host"}
    assert case.commit("overwrite", "dangerous", loaded=loaded)["failed"] == {}
    assert case.tree() == {
        "changed": "cell",
        "program": "cell",
        "new.sh": "x",
        "lib": "/",
        "lib/m.py": "x",
        ".git": "/",
        ".git/config": "x",
    }
    assert {name: (case.host / name).stat().st_mode & 0o777 for name in ("program", "new.sh", "changed")} == {
        "program": 0o755,
        "new.sh": 0o755,
        "changed": 0o644,
    }


def test_what_may_be_committed_by_itself_is_plain_and_of_no_effect(case: Case) -> None:
    names = ["a.csv", "b.png", "c.parquet", "Report 2.json", "d/e.txt", "n.xlsx"]
    held = [
        "a.py",
        "b.sh",
        "Makefile",
        ".hidden",
        "d.ipynb",
        "x.pth",
        "CLAUDE.md",
        "e.so",
        ".d/e.txt",
        "-rf",
        "package.json",
        "numbers",
        "r.html",
        "m.pkl",
    ]
    case.cell(f"os.mkdir('d'); os.mkdir('.d'); [open(name, 'w').write('x') for name in {[*names, *held]!r}]")
    # By what is in it: a tool follows a file of its own name, whatever that is.
    texts = {"results.json": '{"accuracy": 0.9, "labels": ["a"]}', "anytool.json": '{"exec": "touch x"}'}
    case.cell(f"[open(name, 'w').write(text) for name, text in {texts!r}.items()]")
    assert case.changes()["anytool.json"]["waits"] == "settings"
    case.commit(by_itself=True)
    assert set(case.tree()) == {*names, "results.json", "d"}
    assert set(case.changes()) == {*held, "anytool.json", ".d"}


def test_a_file_with_many_names_is_stored_once(case: Case) -> None:
    case.cell("open('p', 'wb').write(os.urandom(1 << 20)); [os.link('p', f'n{i}') for i in range(40)]")
    assert case.commit()["count"] == 41
    found = {path.stat().st_ino: path.stat().st_blocks * 512 for path in case.host.iterdir()}
    assert len(list(case.host.iterdir())) == 41
    assert sum(found.values()) < 3 << 20


def test_a_file_with_holes_keeps_them(case: Case) -> None:
    case.cell("f = open('s', 'wb'); f.write(b'x'); f.seek(1 << 30); f.write(b'y'); f.close()")
    assert case.commit()["count"] == 1
    status = (case.host / "s").stat()
    assert (status.st_size, status.st_blocks * 512 < 1 << 20) == ((1 << 30) + 1, True)


def test_what_a_commit_that_was_killed_left_unfinished_is_removed(case: Case) -> None:
    case.write(".sentinel-00.part", "unfinished")
    case.write(".sentinel-01.part/f", "half deleted")
    case.write(".sentinel-02.part", "another's, at work")
    (case.host / ".sentinel-03.part").symlink_to(case.outside / "secret")
    with (case.host / ".sentinel-02.part").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        case.cell("open('f', 'w').write('x')")
        assert case.commit()["count"] == 1
        assert set(case.tree()) == {"f", ".sentinel-02.part", ".sentinel-03.part"}
    (case.host / ".sentinel-02.part").unlink()
    (case.host / ".sentinel-03.part").unlink()


def test_what_equals_the_hosts_file_is_no_change(case: Case) -> None:
    case.write("f", "same")
    case.write("g", "same")
    case.cell("open('f', 'w').write('same'); open('g', 'r+').close(); os.utime('g')")
    assert case.changes() == {}
    case.cell("os.chmod('f', 0o600)")
    assert case.changes()["f"]["kind"] == "mode"
    assert case.commit("overwrite")["count"] == 1
    assert (case.host / "f").stat().st_mode & 0o777 == 0o600


def test_discard_brings_the_hosts_files_back(case: Case) -> None:
    for name in ("changed", "deleted", "gone/f", "gone/g", "anew/f", "linked"):
        case.write(name, "host")
    before = case.tree()
    case.cell(
        "shutil = __import__('shutil')\n"
        "open('changed', 'w').write('cell'); os.unlink('deleted'); shutil.rmtree('gone'); shutil.rmtree('anew')\n"
        "os.mkdir('anew'); open('anew/new', 'w').write('x')\n"
        "os.makedirs('new/deep'); open('new/deep/f', 'w').write('x')\n"
        "os.mkfifo('fifo'); os.unlink('linked'); os.symlink('/etc', 'linked')"
    )
    assert len(case.changes()) == 10  # positive control: there is something to discard
    assert case.held.work_on("discard", below=case.name) == {}
    assert case.changes() == {}
    assert case.tree() == before
    seen = case.cell(
        "tell({name: open(name).read() for name in ('changed', 'deleted', 'gone/g', 'anew/f', 'linked')})"
    )
    assert set(seen.values()) == {"host"}
    assert case.cell("tell(sorted(os.listdir()))") == ["anew", "changed", "deleted", "gone", "linked"]


def test_what_is_written_to_a_discarded_open_file_reaches_nobody(case: Case) -> None:
    case.write("f", "host")
    case.cell("file = open('f', 'r+'); file.write('cell'); file.flush()")
    assert case.held.work_on("discard", below=case.name) == {}
    case.cell("file.write('more'); file.close()")
    assert case.cell("tell(open('f').read())") == "host"
    assert case.tree() == {"f": "host"}


def test_lists_of_many_files_take_no_memory(case: Case) -> None:
    made = case.cell(
        "for i in range(5000): os.close(os.open(f'{i:0>200}', os.O_CREAT | os.O_WRONLY))\ntell(i + 1)"
    )
    assert case.held.work_on("count", below=case.name) == {
        "count": made,
        "left_out": 0,
    }  # its peak is looked at there
    bounded = case.held.work_on("count", below=case.name, bounds={"entries": 1000})
    assert bounded["count"] <= 1000
    assert bounded["left_out"] == 1
    case.cell("for name in os.listdir(): os.unlink(name)")


def test_what_is_too_deep_is_left_out_and_the_rest_is_committed(case: Case) -> None:
    case.cell(
        "open('f', 'w').write('x')\n"
        "for _ in range(300): os.mkdir('d' * 100); os.chdir('d' * 100)\n"
        "open('g', 'w').write('x')"
    )
    assert case.held.work_on("list")["left_out"] == 1
    case.commit("overwrite")
    assert case.tree()["f"] == "x"
    case.cell("__import__('subprocess').run(['rm', '-rf', *os.listdir()], check=True)")


def test_files_of_roots_sandbox_are_the_folders_owners(own_user: Identity, ordinary_user: Identity) -> None:
    roots_side()
    place = Path(tempfile.mkdtemp(prefix="held-", dir=own_user.home))
    place.chmod(0o755)
    for name in ("work", "home", "XDG_RUNTIME_DIR", "store"):
        own_folder(own_user, place / name)
    theirs = ordinary_user.uid
    os.chown(place / "work", theirs, theirs)
    (place / "work").chmod(0o755)
    closed = place / "work" / "closed"
    closed.mkdir()
    (closed / "f").write_text("root's")
    try:
        with HeldWorkspace(own_user, place) as held:
            held.cell("os.mkdir('d'); open('d/f', 'w').write('x')")
            # What the folder's owner may not change is not changed for the cell either, whatever it makes of it.
            assert (
                held.cell("try: open('closed/g', 'w')\nexcept PermissionError: tell('refused')") == "refused"
            )
            assert held.commit()["count"] == 2
            for name in ("d", "d/f"):
                status = (place / "work" / name).stat()
                assert (status.st_uid, status.st_gid) == (theirs, theirs)
            held.cell("os.mkdir('late'); open('late/f', 'w').write('x')")
            (place / "work" / "late").mkdir(mode=0o755)  # root's by now
            assert held.commit(answers=("overwrite", "conflict"))["failed"] == {"late/f": "not_writable"}
            assert list((place / "work" / "late").iterdir()) == []
    finally:
        shutil.rmtree(place)
