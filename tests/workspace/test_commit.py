"""What a person commits of an honest cell's files, and what cells see afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Case

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
