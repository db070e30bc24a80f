"""The boot plan hides what it must, with mounts that can be made."""

from __future__ import annotations

import pytest

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.policy.plan import BootPlan, HostFacts, Identity, MountKind, PythonPaths, Sizes
from sentinel_kernel.policy.planning import make_plan

HOME = "/home/ada"


def _plan(*hidden: str, absent_inside: str, kinds: dict[str, str], workspace: str = HOME) -> BootPlan:
    facts = HostFacts(
        kinds={"/srv": "directory", **kinds},
        contents={},
        mount_points=("/",),
        home=HOME,
        python=PythonPaths(executable="/usr/bin/python3", prefix="/usr", base_prefix="/usr"),
        package_directory="/usr/lib/python3/dist-packages/sentinel_kernel",
        identity=Identity(host_uid=1000, host_gid=1000, inside_uid=1000, inside_gid=1000, name="ada"),
        started_by_root=False,
    )
    sizes = Sizes(
        memory_bytes=None,
        cpu_count=None,
        pids=None,
        disk_bytes=1,
        tmp_bytes=1,
        shm_bytes=1,
        open_files=None,
        file_size_bytes=None,
    )
    return make_plan(
        workspace=workspace,
        facts=facts,
        sizes=sizes,
        hidden=hidden,
        homes_unseen=("/backups",),
        data_mounts=(),
        overlay_writes=True,
        environment={},
        argv=("/bin/true",),
        absent_inside=absent_inside,
    )


def _masked(plan: BootPlan) -> list[str]:
    masks = (MountKind.MASK_DIRECTORY, MountKind.MASK_FILE)
    return [mount.target for mount in plan.mounts if mount.kind in masks and mount.target.startswith(HOME)]


def test_what_lies_in_a_hidden_folder_needs_no_cover_of_its_own() -> None:
    # A hub's single-user server: the notebooks are in the home, and so is the folder for run-time files. Mounting
    # on a path within an empty, read-only folder failed, and with it the whole sandbox.
    share, secret = f"{HOME}/.local/share/jupyter", f"{HOME}/.ssh/keys/id"
    kinds = {share: "directory", f"{HOME}/.ssh": "directory", secret: "file"}
    plan = _plan("~/.ssh/keys/id", absent_inside=f"{share}/runtime/sentinel-1", kinds=kinds)
    assert sorted(_masked(plan)) == [share, f"{HOME}/.ssh"]


@pytest.mark.parametrize("folder", ["/dev/shm", "/dev/shm/notes", "/proc/self", "/sys", "/"])
def test_a_folder_that_the_sandbox_has_of_its_own_can_be_no_notebooks_and_another_is_named(
    folder: str,
) -> None:
    with pytest.raises(UnsupportedHost, match=f"'{folder}' can't be") as caught:
        _plan(absent_inside="/nowhere", kinds={folder: "directory"}, workspace=folder)
    assert "folder" in caught.value.remedy


def test_what_lies_beside_a_hidden_folder_keeps_its_own() -> None:
    kinds = {f"{HOME}/.ssh": "directory", f"{HOME}/.ssh-more": "directory"}
    plan = _plan("~/.ssh-more", absent_inside=f"{HOME}/run/sentinel-1", kinds=kinds)
    assert sorted(_masked(plan)) == [f"{HOME}/.ssh", f"{HOME}/.ssh-more", f"{HOME}/run"]


def test_pip_does_not_wait_for_an_index_that_no_profile_reaches() -> None:
    told = _plan(absent_inside="", kinds={}).environment
    assert (told["PIP_RETRIES"], told["PIP_DISABLE_PIP_VERSION_CHECK"]) == ("0", "1")


def test_a_folder_that_was_not_wholly_looked_at_is_told() -> None:
    assert _plan(absent_inside="", kinds={}).notices[-1] == "homes-unseen:/backups"


def test_of_the_package_programs_see_an_entry_alone_that_says_where_its_commands_are_run() -> None:
    package = "/usr/lib/python3/dist-packages/sentinel_kernel"
    (shown,) = [mount for mount in _plan(absent_inside="", kinds={}).mounts if mount.target == package]
    assert (shown.kind, shown.source) == (MountKind.BIND, f"{package}/worker/outside")
