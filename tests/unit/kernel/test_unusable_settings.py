"""Whatever a variable of ours holds that it can't, somebody is told: the first cell, or who was to use it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.audit.place import read_audit_settings
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.kernel.unusable_settings import names_places
from sentinel_kernel.kernel.words import about_places, about_settings
from sentinel_kernel.policy.own_words import words_in_use
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.supervisor.backend import Backends
from sentinel_kernel.supervisor.interpreter import ask
from sentinel_kernel.workspace import uploading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST_CELL = {
    "SENTINEL_ARTIFACTS": ["rel"],
    "SENTINEL_ARTIFACTS_BYTES": ["lots"],
    "SENTINEL_ARTIFACTS_DAYS": ["foo"],
    "SENTINEL_ASK": ["-5", "maybe", "1000000"],
    "SENTINEL_AUDIT_ALERT": ["mail", "htps://hooks.example.org/secret"],
    "SENTINEL_AUDIT_BYTES": ["lots", "1e999"],
    "SENTINEL_AUDIT_DAYS": ["3O", "-1", "soon"],
    "SENTINEL_CEILING": ["nope", "broken", "../web"],
    "SENTINEL_CELL_SUMMARY": ["perhaps"],
    "SENTINEL_COMMIT": ["all"],
    "SENTINEL_DANGEROUS": ["refuze"],
    "SENTINEL_LANG": ["chinese"],
    "SENTINEL_PASS_ENVIRONMENT": ["MYV;FOO", "*"],
    "SENTINEL_PREFLIGHT": ["refuze"],
    "SENTINEL_SPARE": ["perhaps"],
    "SENTINEL_WRITABLE": ["/nope-there-is-none", "rel", "~/data"],
}
"""What the first cell tells of each."""


def _unfit(how: Callable[[], object]) -> str:
    with pytest.raises(SentinelError) as caught:
        how()
    return str(caught.value)


def _audit(name: str, value: str) -> str:
    return read_audit_settings({name: value}).problem


ELSEWHERE: dict[str, Callable[[], str]] = {
    "SENTINEL_AUDIT": lambda: _audit("SENTINEL_AUDIT", "rel"),
    "SENTINEL_LIMITS_BACKEND": lambda: _unfit(lambda: Backends().make("nope")),
    "SENTINEL_MAPPINGS": lambda: words_in_use(("/nope.json",), "/nope.json")[1][0].why,
    "SENTINEL_PROFILE": lambda: _unfit(lambda: load_profile("nope")),
    "SENTINEL_PYTHON": lambda: _unfit(lambda: ask("/nope")),
}
"""What is told by who was to use it: there is no sandbox, no audit, no words of one's own."""

NO_CHOICE = {
    "SENTINEL_CLIENT",  # any name
    "SENTINEL_OUTPUT",  # the sandbox's own word to cells
}


def test_every_variable_that_is_documented_or_read_at_the_start_is_told_of_somewhere(
    pytestconfig: pytest.Config,
) -> None:
    named: set[str] = set()
    for file in ("README.md", "sentinel_kernel/kernel/settings.py"):
        text = (pytestconfig.rootpath / file).read_text(encoding="utf-8")
        named.update(re.findall(r"\bSENTINEL_[A-Z]+(?:_[A-Z]+)*\b", text))
    assert named - NO_CHOICE <= FIRST_CELL.keys() | ELSEWHERE.keys()
    assert "SENTINEL_WRITABLE" in named


@pytest.mark.parametrize(("name", "value"), [(name, one) for name in FIRST_CELL for one in FIRST_CELL[name]])
def test_the_first_cell_tells_of_a_value_that_can_not_be(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sentinel-kernel" / "profiles"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("{", encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv(name, value)
    told_at_once = about_settings(read_settings(["-f", "/k.json"], os.environ, "/"))
    # A disk that does not answer keeps no kernel from starting.
    takes_a_look = value.startswith("/nope")
    assert (told_at_once == [], names_places({name: value})) == (takes_a_look, takes_a_look)
    (told,) = [*told_at_once, *about_places()]
    for words in (told.message("en"), told.message("zh")):
        assert name in words
        assert value[:4] in words
        assert "secret" not in words


@pytest.mark.parametrize("name", ELSEWHERE)
def test_other_variables_are_told_of_by_who_uses_them(name: str) -> None:
    assert ELSEWHERE[name]()


def test_values_that_can_be_are_told_of_by_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "SENTINEL_ARTIFACTS": str(tmp_path),
        "SENTINEL_ARTIFACTS_BYTES": "5 GiB",
        "SENTINEL_ARTIFACTS_DAYS": "0",
        "SENTINEL_CEILING": "web",
        "SENTINEL_LANG": "zh_CN.UTF-8",
        "SENTINEL_PASS_ENVIRONMENT": "MY_DATA, ABSENT odd.name",
        "SENTINEL_WRITABLE": f"{tmp_path}:",
        "odd.name": "1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert about_settings(read_settings(["-f", "/k.json"], os.environ, "/")) == []
    assert list(about_places()) == []


def test_only_what_takes_an_import_or_a_disk_is_looked_at_beside_the_start(tmp_path: Path) -> None:
    for needless in (
        {},
        {"SENTINEL_ARTIFACTS": str(tmp_path), "SENTINEL_ARTIFACTS_DAYS": "3"},
        {"SENTINEL_WRITABLE": ":rel:"},
    ):
        assert not names_places(needless)
    for needed in ({"SENTINEL_ARTIFACTS": "s3://bucket"}, {"SENTINEL_WRITABLE": f"rel:{tmp_path}"}):
        assert names_places(needed)


def test_folders_are_told_of_before_a_package_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTINEL_ARTIFACTS", "s3://bucket")
    monkeypatch.setenv("SENTINEL_WRITABLE", "rel:/nope-there-is-none")

    def interrupted(_url: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(uploading, "obstacle", interrupted)
    places = about_places()
    told = next(places).message("en")
    assert ("/nope-there-is-none" in told, "'rel'" in told) == (True, False)
    with pytest.raises(KeyboardInterrupt):
        next(places)
