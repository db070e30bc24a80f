"""A lab's configuration: whose file counts, and what is left of a user's own settings under it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel import lab_config
from sentinel_kernel.kernel.ceiling import ASK, FREE, NEVER, Ceiling
from sentinel_kernel.kernel.lab_config import LabConfig, read_lab_config
from sentinel_kernel.kernel.lab_rule import Granted, under_lab
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LAB = LabConfig("/etc/x", "strict", "datascience", False, 0.0, "", False, ())


def write(folder: Path, mode: int = 0o644, **document: Any) -> str:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    (folder / "config.json").write_text(json.dumps(document))
    (folder / "config.json").chmod(mode)
    return str(folder)


@pytest.fixture
def roots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what this process owns count as root's."""
    honest = os.fstat

    def fstat(descriptor: int) -> os.stat_result:
        status = list(honest(descriptor))
        status[4] = 0 if status[4] == os.geteuid() else status[4]
        return os.stat_result(status)

    monkeypatch.setattr(lab_config.os, "fstat", fstat)


def test_without_a_file_there_is_no_lab(tmp_path: Path) -> None:
    assert read_lab_config([str(tmp_path / "absent"), str(tmp_path)]) is None


@pytest.mark.usefixtures("roots")
def test_first_place_counts_and_a_locked_lab_has_its_profile_for_a_ceiling(tmp_path: Path) -> None:
    first = write(tmp_path / "a", profile="strict", ceiling="web", locked=True)
    second = write(tmp_path / "b", profile="datascience", ask="person", ask_seconds=9)
    found = read_lab_config([str(tmp_path / "absent"), first, second])
    assert found is not None
    assert (found.profile, found.ceiling, found.locked, found.ask_seconds) == ("strict", "strict", True, None)
    found = read_lab_config([second])
    assert found is not None
    assert (found.ceiling, found.locked, found.ask_seconds) == ("datascience", False, 9)
    assert (found.preflight, found.dangerous) == ("", "")
    found = read_lab_config([write(tmp_path / "c", preflight="refuse", dangerous="advise")])
    assert found is not None
    assert (found.preflight, found.dangerous) == ("refuse", "advise")


@pytest.mark.usefixtures("roots")
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_file_that_others_can_change_stops_everything(tmp_path: Path, mode: int) -> None:
    place = write(tmp_path / "a", mode=mode)
    with pytest.raises(SentinelError, match="can be changed by others") as caught:
        read_lab_config([place])
    assert "chmod" in caught.value.remedy


@pytest.mark.usefixtures("roots")
def test_folder_that_others_can_change_and_a_link_stop_everything(tmp_path: Path) -> None:
    place = write(tmp_path / "a")
    (tmp_path / "a").chmod(0o777)
    with pytest.raises(SentinelError, match="can be changed by others"):
        read_lab_config([place])
    write(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "config.json").symlink_to(tmp_path / "b" / "config.json")
    with pytest.raises(SentinelError, match="can't be read"):
        read_lab_config([str(tmp_path / "c")])


@pytest.mark.usefixtures("roots")
@pytest.mark.parametrize(
    "text", ["{", "[]", '{"profil": "strict"}', '{"locked": "yes"}', '{"ask": "me"}', '{"ask_seconds": 0}']
)
def test_file_that_is_not_understood_stops_everything(tmp_path: Path, text: str) -> None:
    place = write(tmp_path / "a")
    (tmp_path / "a" / "config.json").write_text(text)
    with pytest.raises(SentinelError, match="is not understood"):
        read_lab_config([place])


def test_file_of_anybody_but_root_stops_everything(tmp_path: Path) -> None:
    place = write(tmp_path / "a")
    if os.geteuid() == 0:
        os.chown(tmp_path / "a" / "config.json", 12345, 12345)
    with pytest.raises(SentinelError, match="belongs to user"):
        read_lab_config([place])


def wish(**changes: Any) -> Granted:
    return replace(Granted("", "", (), "", 120.0, ()), **changes)


def test_wish_within_the_ceiling_is_granted_and_one_beyond_is_told() -> None:
    assert under_lab(LAB, wish(profile="datascience")).profile == "datascience"
    for beyond in ("web", "sentinelbox/web", "nowhere", "../../etc/passwd", "x" * 500):
        granted = under_lab(replace(LAB, ceiling="strict"), wish(profile=beyond))
        assert granted.profile == "strict"
        [(english, chinese)] = granted.notices
        assert "SENTINEL_PROFILE" in english
        assert "SENTINEL_PROFILE" in chinese
        assert len(english) < 300
    assert under_lab(replace(LAB, locked=True), wish(profile="datascience")).profile == "strict"


def test_ceiling_asking_and_interpreter_are_the_labs() -> None:
    granted = under_lab(LAB, wish(ceiling="web", python="/home/me/python"))
    assert (granted.ceiling, granted.ask_seconds, granted.python) == ("datascience", 0.0, sys.executable)
    assert len(granted.notices) == 2
    assert (
        under_lab(replace(LAB, pythons=("/opt/python",)), wish(python="/opt/python")).python == "/opt/python"
    )
    assert under_lab(replace(LAB, ask_seconds=None), wish(ask_seconds=5.0)).ask_seconds == 5.0
    assert under_lab(replace(LAB, ask_seconds=60.0), wish(ask_seconds=0.0)).ask_seconds == 0.0


def test_own_profile_can_not_stand_in_for_the_labs(tmp_path: Path) -> None:
    (tmp_path / "strict.json").write_text('{"extends": "datascience"}')
    (tmp_path / "large.json").write_text('{"extends": "strict", "resources": {"memory_bytes": "64GiB"}}')
    (tmp_path / "small.json").write_text('{"extends": "strict", "resources": {"memory_bytes": "64MiB"}}')
    own = (str(tmp_path),)
    assert under_lab(LAB, wish(profile_directories=own)).profile_directories == ()
    lab = replace(LAB, own_profiles=True, ceiling="strict")
    granted = under_lab(lab, wish(profile_directories=own, profile="small"))
    assert granted.profile == "small"
    assert load_profile("strict", granted.profile_directories).path != str(tmp_path / "strict.json")
    assert under_lab(lab, wish(profile_directories=own, profile="large")).profile == "strict"


def grants(
    monkeypatch: pytest.MonkeyPatch, lab: LabConfig | None, environment: Mapping[str, str], name: str
) -> str:
    monkeypatch.setattr("sentinel_kernel.kernel.settings.read_lab_config", lambda: lab)
    settings = read_settings(["-f", "/x.json"], environment, "/")
    return Ceiling(settings).grants(load_profile(name, settings.profile_directories))


def test_lab_has_the_last_word_where_a_person_could_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert grants(monkeypatch, None, {"SENTINEL_CEILING": "strict"}, "datascience") == ASK
    assert grants(monkeypatch, None, {}, "datascience") == FREE
    strict = replace(LAB, ceiling="strict")
    for environment in (
        {},
        {"SENTINEL_CEILING": "web"},
        {"SENTINEL_PROFILE": "web", "SENTINEL_ASK": "person"},
    ):
        assert grants(monkeypatch, strict, environment, "datascience") == NEVER
        assert grants(monkeypatch, strict, environment, "strict") == FREE
    assert grants(monkeypatch, LAB, {}, "datascience") == FREE
    assert grants(monkeypatch, replace(LAB, locked=True), {}, "datascience") == NEVER


@pytest.mark.usefixtures("roots")
def test_fault_is_kept_for_every_cell_to_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lab_config, "lab_places", lambda: (write(tmp_path / "a", mode=0o666),))
    settings = read_settings(["-f", "/x.json"], {}, "/")
    assert settings.lab is None
    assert "can be changed by others" in str(settings.fault)
