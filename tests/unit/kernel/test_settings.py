"""The host heeds little of its environment, and imports nothing from the notebook's folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.connection import read_connection
from sentinel_kernel.kernel.lab_config import LabConfig
from sentinel_kernel.kernel.settings import (
    language,
    mapping_files,
    read_settings,
    worker_environment,
)
from sentinel_kernel.kernel.spawning import supervisor_environment
from sentinel_kernel.kernel.trusted_path import trusted_path

if TYPE_CHECKING:
    from pathlib import Path


def test_arguments_behind_the_connection_file_are_the_workers() -> None:
    arguments = ["--HistoryManager.hist_file=:memory:", "-f", "/k.json", "--debug"]
    settings = read_settings(arguments, {"JPY_PARENT_PID": "12", "SENTINEL_PROFILE": "web"}, "/")
    assert settings.connection_file == "/k.json"
    assert list(settings.worker_arguments) == ["--HistoryManager.hist_file=:memory:", "--debug"]
    assert (settings.profile, settings.parent_pid, settings.workspace) == ("web", 12, "/")
    with pytest.raises(SentinelError):
        read_settings(["-f"], {}, "/")


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {}, False),
        ([], {"SENTINEL_CELL_SUMMARY": "on"}, True),
        ([], {"SENTINEL_CELL_SUMMARY": "off"}, False),
        (["--SentinelKernel.cell_summary=True"], {}, True),
        (["--SentinelKernel.cell_summary=False"], {"SENTINEL_CELL_SUMMARY": "on"}, False),
    ],
)
def test_the_line_at_each_cells_end_can_be_turned_on_from_outside(
    arguments: list[str], environment: dict[str, str], expected: bool
) -> None:
    settings = read_settings(["-f", "/k.json", *arguments], environment, "/")
    assert settings.cell_summary is expected
    assert settings.worker_arguments == ()


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {"XDG_CONFIG_HOME": "/c"}, "/c/sentinel-kernel/mappings.json"),
        ([], {"SENTINEL_MAPPINGS": "words.json"}, "/nb/words.json"),
        (["--SentinelKernel.mappings=/w.json"], {"SENTINEL_MAPPINGS": "words.json"}, "/w.json"),
    ],
)
def test_the_users_own_words_are_named_or_lie_among_their_settings(
    arguments: list[str], environment: dict[str, str], expected: str
) -> None:
    settings = read_settings(["-f", "/k.json", *arguments], environment, "/nb")
    assert settings.mapping_files == (expected,)
    assert settings.named_mapping in ("", expected)
    assert settings.worker_arguments == ()


@pytest.mark.parametrize("locked", [False, True])
def test_words_of_a_locked_lab_go_before_the_users_own(*, locked: bool) -> None:
    lab = LabConfig("/etc/x/config.json", "strict", "strict", locked, None, "", False, ())
    files = mapping_files({}, "/w.json", lab)
    assert files == (("/etc/x/mappings.json", "/w.json") if locked else ("/w.json", "/etc/x/mappings.json"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, "zh"),
        ({"SENTINEL_LANG": "zh"}, "zh"),
        ({"SENTINEL_LANG": "en", "LANG": "zh_CN"}, "en"),
    ],
)
def test_the_language_is_asked_for_or_the_locales(environment: dict[str, str], expected: str) -> None:
    assert language(environment) == expected


def test_no_secret_reaches_the_worker_or_the_supervisor() -> None:
    secrets = {
        "JUPYTER_TOKEN": "t",
        "JPY_API_TOKEN": "t",
        "JPY_PARENT_PID": "1",
        "AWS_SECRET_ACCESS_KEY": "k",
        "OPENAI_API_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "MY_PASSWORD": "p",
        "PATH": "/bin",
    }
    assert worker_environment(secrets | {"LANG": "C", "LC_TIME": "de", "TZ": "UTC"}) == {
        "LANG": "C",
        "LC_TIME": "de",
        "TZ": "UTC",
    }
    kept = supervisor_environment(secrets)
    assert "PATH" in kept
    assert not kept.keys() & {
        "JUPYTER_TOKEN",
        "JPY_API_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",
        "MY_PASSWORD",
    }


def test_the_notebooks_folder_is_no_place_to_import_from(tmp_path: Path) -> None:
    work = tmp_path / "work"
    environment = work / ".venv"
    inside, outside, link = environment / "lib", tmp_path / "lib", tmp_path / "link"
    for folder in (inside, outside, work / "planted"):
        folder.mkdir(parents=True)
    link.symlink_to(work / "planted")
    path = ["", str(work), str(work / "planted"), str(link), str(inside), str(outside), "/usr/lib/python3"]
    kept = trusted_path(path, str(work), [str(environment)])
    assert kept == [str(inside), str(outside), "/usr/lib/python3"]


def test_a_connection_file_is_read_with_its_curve_keys(tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    ports = {
        f"{name}_port": number
        for number, name in enumerate(("shell", "control", "stdin", "iopub", "hb"), 5000)
    }
    path.write_text(
        json.dumps({**ports, "ip": "127.0.0.1", "key": "k", "curve_publickey": "p", "curve_secretkey": "s"})
    )
    connection = read_connection(str(path))
    assert connection.address("control") == "tcp://127.0.0.1:5001"
    assert (connection.key, connection.curve_secretkey) == (b"k", b"s")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ip": 1, "shell_port": "x"}'])
def test_a_connection_file_of_no_use_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.json"
    path.write_text(text)
    with pytest.raises(SentinelError, match=r"k\.json"):
        read_connection(str(path))


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({}, True),
        ({"JUPYTERHUB_USER": "ada"}, False),
        ({"JUPYTERHUB_USER": "ada", "SENTINEL_SPARE": "on"}, True),
        ({"SENTINEL_SPARE": "OFF"}, False),
        ({"SENTINEL_SPARE": "perhaps"}, True),
    ],
)
def test_spare_is_kept_where_no_hub_shares_the_memory(environment: dict[str, str], *, kept: bool) -> None:
    assert read_settings(["-f", "/k.json"], environment, "/").spare is kept


@pytest.mark.parametrize(
    ("variable", "value", "field", "in_force"),
    [
        ("SENTINEL_PREFLIGHT", "refuze", "preflight", "refuse"),
        ("SENTINEL_DANGEROUS", "yes", "dangerous", "refuse"),
        ("SENTINEL_COMMIT", "all", "commit", "none"),
        ("SENTINEL_ASK", "maybe", "ask_seconds", 0.0),
        ("SENTINEL_ASK", "-5", "ask_seconds", 0.0),
        ("SENTINEL_SPARE", "perhaps", "spare", True),
        ("SENTINEL_CELL_SUMMARY", "a\x1b[2J" + "b" * 200, "cell_summary", False),
    ],
)
def test_a_value_that_there_is_not_means_the_strictest_and_is_told(
    variable: str, value: str, field: str, in_force: object
) -> None:
    settings = read_settings(["-f", "/k.json"], {variable: value}, "/")
    assert getattr(settings, field) == in_force
    ((english, chinese),) = settings.mistyped
    for told in (english, chinese):
        assert variable in told
        assert value[:1] in told
        assert "\x1b" not in told
        assert len(told) < 300


@pytest.mark.parametrize("value", ["never", "Person", "30", ""])
def test_values_that_there_are_need_no_notice(value: str) -> None:
    environment = {"SENTINEL_ASK": value, "SENTINEL_CELL_SUMMARY": "Yes", "SENTINEL_COMMIT": "NONE"}
    settings = read_settings(["-f", "/k.json"], environment, "/")
    assert settings.mistyped == ()
    assert settings.ask_seconds == {"never": 0.0, "30": 30.0}.get(value, 120.0)
    assert (settings.cell_summary, settings.commit) == (True, "none")


def test_person_names_further_variables_that_cells_may_see() -> None:
    environment = {"MY_DATA": "/data", "MY_TOKEN": "x", "IPYKERNEL_CELL_NAME": "<cell>"}
    assert worker_environment(environment) == {"IPYKERNEL_CELL_NAME": "<cell>"}
    named = environment | {"SENTINEL_PASS_ENVIRONMENT": "MY_DATA, ABSENT"}
    assert worker_environment(named) == {"IPYKERNEL_CELL_NAME": "<cell>", "MY_DATA": "/data"}
