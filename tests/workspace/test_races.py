"""Commits while a cell changes what is committed; each race goes on for a number of rounds, not of seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Case

pytestmark = [pytest.mark.requires("user_namespaces", "overlay")]

_YES = ("overwrite", "delete", "dangerous", "conflict")
_COMMITS = 12


def _race(case: Case, code: str) -> tuple[list[dict[str, Any]], Any]:
    """Let a cell's code run in the case's folder while all of it is committed again and again, to its end."""
    case.held.begin(f"os.chdir({case.name!r})\nOUT = {str(case.outside)!r}\n{code}")
    outcomes: list[dict[str, Any]] = []
    while len(outcomes) < _COMMITS or not case.held.over():
        outcomes.append(case.commit(*_YES))
    return outcomes, case.held.end()


def test_a_folder_that_becomes_a_link_again_and_again(case: Case) -> None:
    code = """
os.mkdir('d'); open('d/kept', 'w').write('the cell')
os.symlink(OUT + '/folder', 'link')
swapped = 0
for round in range(4000):
    try:
        os.rename('d', 'aside'); os.rename('link', 'd'); os.rename('d', 'link'); os.rename('aside', 'd')
        swapped += 1
    except OSError:  # it is the host's folder by now: made anew
        while True:
            try:
                __import__('subprocess').run('rm -rf d aside link', shell=True)
                os.symlink(OUT + '/folder', 'link')
                os.mkdir('d'); open('d/kept', 'w').write('the cell')
                break
            except OSError as error:  # in the moment that the copies are given up
                assert error.errno in (errno.ESTALE, errno.ENOENT, errno.EEXIST)
tell(sorted(os.listdir(OUT + '/folder')) if os.path.exists(OUT) else ['hidden', swapped > 0])
"""
    _, seen = _race(case, code)
    assert seen == ["hidden", True]  # the cell itself can't reach it
    assert case.commit(*_YES)["failed"].get("link") == "not_committable"
    tree = case.tree()
    assert tree["d/kept"] == "the cell"  # positive control: it was committed
    assert not any(kind == "l" for kind in tree.values())
    assert (case.outside / "folder" / "kept").read_text() == "kept"


def test_a_file_that_grows_while_it_is_copied(case: Case) -> None:
    code = """
file = open('log', 'wb', buffering=0)
for number in range(12000):
    file.write(b'%015d\\n' % number)
file.close()
tell(os.stat('log').st_size)
"""
    outcomes, size = _race(case, code)
    codes = {code for outcome in outcomes for code in outcome["failed"].values()}
    assert codes <= {"changed_meanwhile", "no_such_path"}
    case.commit(*_YES)
    whole = b"".join(b"%015d\n" % number for number in range(12000))
    assert len(whole) == size
    for path in case.host.iterdir():  # beside it, where it was a conflict with an earlier one
        assert whole.startswith(path.read_bytes())
    assert max(path.stat().st_size for path in case.host.iterdir()) == size


def test_files_that_change_their_names_all_the_time(case: Case) -> None:
    code = """
for number in range(30):
    open(f'a{number}', 'w').write('whole' * 2000)
for round in range(200):
    for number in range(30):
        for names in (('a', 'b'), ('b', 'a')):
            try:
                os.rename(*(f'{name}{number}' for name in names))
            except OSError as error:  # in the moment that its copy is given up
                assert error.errno in (errno.ESTALE, errno.ENOENT)
tell(sum(os.path.exists(f'{name}{number}') for name in 'ab' for number in range(30)))
"""
    _, count = _race(case, code)
    assert count >= 30
    case.commit(*_YES)
    texts = {path.read_text() for path in case.host.iterdir()}
    assert texts == {"whole" * 2000}


def test_a_file_that_is_written_anew_all_the_time_is_never_half(case: Case) -> None:
    code = """
for round in range(600):
    with open('f', 'wb') as file:
        file.write(bytes([97 + round % 26]) * 300000)
tell(os.stat('f').st_size)
"""
    _, size = _race(case, code)
    case.commit(*_YES)
    assert (case.host / "f").stat().st_size == size
    for path in case.host.iterdir():
        data = path.read_bytes()
        assert data == data[:1] * len(data)  # of one writing alone
        assert len(data) in (0, size)


def test_files_that_are_made_and_deleted_while_they_are_listed(case: Case) -> None:
    code = """
for round in range(100):
    os.makedirs('d', exist_ok=True)
    for number in range(20):
        try:
            open(f'd/{number}', 'w').write('x')
        except OSError as error:  # in the moment that its copy is given up
            assert error.errno in (errno.ESTALE, errno.ENOENT)
    __import__('shutil').rmtree('d', ignore_errors=True)
open('last', 'w').write('x')
tell(1)
"""
    _race(case, code)
    case.commit(*_YES)
    assert case.tree()["last"] == "x"
    # The folder may have been committed after the cell had deleted it: then both are kept, the file and the wish.
    left = case.changes()
    assert set(left) <= {"d"}
    assert all(change["kind"] == "deleted" for change in left.values())
