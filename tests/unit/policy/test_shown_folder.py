"""Which folders may be shown or written, and what they are called inside."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.shown_folder import Objection, Surroundings, covered, name_for, objection

AROUND = Surroundings(
    home="/home/ada",
    hidden=("/home/ada/.ssh", "/home/ada/.config", "/data/keys"),
    run=("/home/ada/envs/rivers", "/opt/tools/lib"),
)


@pytest.mark.parametrize(
    ("path", "read", "written"),
    [
        ("/data/survey", "", ""),
        ("/home/ada/results", "", ""),
        ("/", "special", "special"),
        ("/proc/1", "special", "special"),
        ("/run/user/1000", "special", "special"),
        ("/home/ada/.ssh", "secret", "secret"),
        ("/home/ada/.ssh/keys", "secret", "secret"),
        ("/data", "", ""),
        ("/usr/share/data", "", "host_runs"),
        ("/home/ada", "", "host_runs"),
        ("/home", "", "host_runs"),
        ("/home/ada/.local/bin", "", "host_runs"),
        ("/home/ada/envs", "", "host_runs"),
        ("/home/ada/envs/rivers/lib", "", "host_runs"),
        ("/home/ada/project/.git", "", "host_runs"),
        ("/srv/project/.vscode/x", "", "host_runs"),
        ("/home/ada/gitlab", "", ""),
    ],
)
def test_folder_is_shown_and_written_where_nothing_of_the_host_depends_on_it(
    path: str, read: str, written: str
) -> None:
    for mode, code in (("ro", read), ("rw", written)):
        found = objection(path, mode, AROUND)
        assert (found.code if isinstance(found, Objection) else "") == code, mode


def test_names_are_the_folders_own_made_safe_and_told_apart() -> None:
    assert name_for("/data/my survey, 2026", ()) == "my_survey__2026"
    assert name_for("/data/rivers/", ("rivers", "rivers-2")) == "rivers-3"
    assert name_for("/data/...", ()) == "folder"
    assert name_for("/data/..hidden", ()) == "hidden"
    assert name_for("/data/" + "x" * 300, ()) == "x" * 60
    assert name_for("/data/河流", ()) == "河流"


def test_what_is_hidden_in_a_folder_is_covered_once() -> None:
    hidden = ("/home/ada/.ssh", "/home/ada/.ssh/keys", "/home/ada/.config", "/elsewhere", "/home/ada")
    assert covered("/home/ada", hidden) == [".config", ".ssh"]
    assert covered("/", ("/home/ada/.ssh",)) == ["home/ada/.ssh"]
