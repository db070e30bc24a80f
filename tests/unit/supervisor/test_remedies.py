"""A profile with a mistake is told with the mistake's place, and what to do about it."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.errors import BootError, ProfileError
from sentinel_kernel.policy.profile import find_profile
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.supervisor.hidden_places import saved_files
from sentinel_kernel.supervisor.remedies import describe
from sentinel_kernel.supervisor.rung_sandbox import check_seen

if TYPE_CHECKING:
    from pathlib import Path


def test_the_place_of_a_profiles_mistake_is_told_in_both_languages() -> None:
    place = "$.filesystem.mounts[0].mode"
    told = describe(ProfileError("'mode' is one of ro, overlay, rw.", place))
    assert place in told["cause_en"]
    assert place in told["cause_zh"]
    assert "Correct the profile's file" in told["remedy_en"]
    assert "doctor" not in told["remedy_en"]


def test_a_mistake_without_a_place_names_none() -> None:
    told = describe(ProfileError("There is no profile 'x'.", "$", "Profiles: strict, web."))
    assert told["cause_en"] == "The profile has a mistake: There is no profile 'x'."
    assert told["remedy_en"].startswith("Profiles: strict, web. ")


def test_a_profile_that_there_is_not_is_corrected_where_it_is_named() -> None:
    with pytest.raises(ProfileError) as caught:
        find_profile("wb", [shipped_directory("profiles")])
    told = describe(caught.value)
    for language in ("en", "zh"):
        assert "wb" in told[f"cause_{language}"]
        assert "mistake" not in told[f"cause_{language}"]
        assert "SENTINEL_PROFILE" in told[f"remedy_{language}"]
        assert "web" in told[f"remedy_{language}"]


def test_processes_that_proc_hides_are_told_in_both_languages() -> None:
    full = BootError("clone", errno.EPERM, "No.")
    alone = describe(full)
    pidfd = os.pidfd_open(os.getpid())
    with pytest.raises(BootError) as caught:
        check_seen(0x7FFFFFFF, pidfd)  # no process has this number
    os.close(pidfd)
    full.lesser = caught.value
    told = describe(full)
    for language in ("en", "zh"):
        assert told[f"cause_{language}"].startswith(alone[f"cause_{language}"])
        for word in ("hidepid", "mount -o remount,hidepid=0 /proc"):
            assert word in told[f"cause_{language}"]
    added = told["cause_zh"].removeprefix(alone["cause_zh"])
    assert not re.search(r"(?:[A-Za-z]+ ){3}", added), "no English sentence"
    assert re.search(r"(?:[A-Za-z]+ ){3}", told["cause_en"])  # positive control


def test_a_notebook_in_the_folder_of_saved_files_is_told_where_to_put_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path))
    for workspace in (tmp_path, tmp_path / "notebooks"):
        with pytest.raises(BootError) as caught:
            saved_files(str(workspace))
        told = describe(caught.value)
        for language in ("en", "zh"):
            assert str(tmp_path) in told[f"cause_{language}"]
            assert "SENTINEL_ARTIFACTS" in told[f"remedy_{language}"]
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "notebooks" / "saved"))
    assert saved_files(str(tmp_path / "notebooks")) == str(
        tmp_path / "notebooks" / "saved"
    )  # positive control
