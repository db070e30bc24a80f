"""The command line: version, profiles, explanations; and doctor, which boots a sandbox to be sure."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel import __version__, cli, doctor, kernelspecs
from sentinel_kernel.policy.profile import list_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity

NO_USER_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(["--version"])
    assert raised.value.code == 0
    assert capsys.readouterr().out == f"sentinel-kernel {__version__}\n"


def test_profiles_lists_each_with_what_it_allows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["profiles"]) == 0
    shown = capsys.readouterr().out
    for name in list_profiles([]):
        assert f"\n{name}\n" in f"\n{shown}"
    strict = shown.partition("strict\n")[2].partition("\n\n")[0]
    assert "1 GiB" in strict
    assert "1 processor" in strict


def test_profiles_shows_those_that_are_named_and_names_what_tells_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["profiles", "strict"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("strict\n")
    assert "datascience\n" not in shown
    assert "sentinel-kernel explain strict" in shown
    assert cli.main(["profiles", "no-such"]) == 1
    assert "no-such" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["doctor", "more"], ["artifacts", "list", "more"], ["audit", "show", "1", "more"]]
)
def test_too_much_is_told_with_the_commands_own_usage(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        cli.main(command)
    assert raised.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: sentinel-kernel {' '.join(command[:-1]).removesuffix(' 1')} ")
    assert "unrecognized arguments: more" in said


def test_what_may_be_left_out_is_not_said_to_be_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["artifacts", "restore"])
    assert capsys.readouterr().err.endswith("the following arguments are required: NAME\n")


def _saved(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folders of a notebook and of another one that an artifact "one" has a file of each for."""
    work, data = tmp_path / "work", tmp_path / "data"
    for folder in (work, data, tmp_path / "store/one/files/deep", tmp_path / "store/one/folders/data0"):
        folder.mkdir(parents=True)
    (tmp_path / "store/one/files/deep/a.csv").write_text("1")
    (tmp_path / "store/one/folders/data0/b.csv").write_text("2")
    folders = [
        {"name": "workspace", "path": str(work), "place": "files"},
        {"name": "data0", "path": str(data), "place": "folders/data0"},
    ]
    manifest = {"version": 2, "workspace": str(work), "files": 2, "bytes": 2, "folders": folders}
    (tmp_path / "store/one/manifest.json").write_text(json.dumps(manifest))
    return work, data


def test_a_restore_says_what_is_not_in_it_and_what_is_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "store"))
    work, data = _saved(tmp_path)
    assert cli.main(["artifacts", "restore", "one", "nope.csv"]) == 1
    assert "not in it: nope.csv (sentinel-kernel artifacts show one)" in capsys.readouterr().out
    assert cli.main(["artifacts", "show", "one"]) == 0
    shown = capsys.readouterr().out.split()
    assert {"deep/a.csv", f"{data}/b.csv"} <= set(shown)
    assert cli.main(["artifacts", "restore", "one", "deep/a.csv", f"{data}/b.csv", "no*"]) == 1
    told = capsys.readouterr().out
    assert "not in it: no*" in told
    assert "already" not in told
    assert ((work / "deep/a.csv").read_text(), (data / "b.csv").read_text()) == ("1", "2")
    assert cli.main(["artifacts", "restore", "one"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("0 files restored")
    assert f"there already, as it was saved: deep/a.csv, {data}/b.csv" in told
    assert cli.main(["artifacts", "restore", "one", "nope.csv", "deep", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["there"], answer["absent"]) == (1, ["nope.csv"])


def test_a_path_from_the_notebooks_folder_is_restored_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SENTINEL_ARTIFACTS", str(tmp_path / "store"))
    work, data = _saved(tmp_path)
    for folder in ("files", "folders/data0"):
        (tmp_path / "store/one" / folder / "same.csv").write_text("saved")
    assert cli.main(["artifacts", "restore", "one", "b.csv"]) == 1
    assert "not in it: b.csv" in capsys.readouterr().out
    assert cli.main(["artifacts", "restore", "one", "same.csv"]) == 0
    assert ((work / "same.csv").exists(), (data / "same.csv").exists()) == (True, False)
    (tmp_path / "to").mkdir()
    assert cli.main(["artifacts", "restore", "one", "*.csv", "--to", str(tmp_path / "to")]) == 0
    assert [path.name for path in (tmp_path / "to").rglob("*.csv")] == ["same.csv"]
    assert cli.main(["artifacts", "restore", "one", f"{data}/same.csv"]) == 0  # positive control
    assert (data / "same.csv").read_text() == "saved"
    for folder in (work, data):
        (folder / "same.csv").write_text("another by now")
    capsys.readouterr()
    assert cli.main(["artifacts", "restore", "one", "--json"]) == 1
    refused = [path for paths in json.loads(capsys.readouterr().out)["refused"].values() for path in paths]
    assert set(refused) == {"same.csv", f"{data}/same.csv"}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert cli.main(["artifacts", "restore", "one", f"{data}/same.csv"]) == 1
    assert f"\n  {data}/same.csv\n" in capsys.readouterr().out


def test_where_no_wheels_are_it_is_said_beside_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cli.main(["wheels", "list"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert f"No wheels are in {tmp_path}" in told.err
    assert "sentinel-kernel wheels add PACKAGE" in told.err


def test_explain_tells_action_and_rule_of_one_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "strict", "mount"]) == 0
    shown = capsys.readouterr().out
    assert "mount" in shown
    assert "KILL" in shown


@pytest.mark.parametrize("arguments", [["explain", "no-such"], ["explain", "strict", "no_such_call"]])
def test_what_does_not_exist_is_refused_with_a_reason(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    assert arguments[-1] in capsys.readouterr().err


def test_a_profile_of_the_users_own_is_found(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.path.join(str(tmp_path), "sentinel-kernel", "profiles")
    os.makedirs(folder)
    with open(os.path.join(folder, "mine.json"), "w", encoding="utf-8") as file:
        json.dump({"name": "mine", "extends": "strict", "description": "My own."}, file)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert cli.main(["profiles"]) == 0
    assert "\nmine\n" in "\n" + capsys.readouterr().out


def test_a_broken_profile_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_profiles(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert cli.main(["profiles"]) == 1
    shown = "\n" + capsys.readouterr().out
    listed = ("strict", "absent", "good", "mistyped", "unknown", "sentinelbox/web")
    assert [name for name in listed if f"\n{name}\n  " not in shown] == []
    assert shown.count("BROKEN") == 2
    assert "Did you mean 'strict'?" in shown.partition("\nmistyped\n  BROKEN ")[2]
    assert "The key 'memory' is unknown." in shown.partition("\nunknown\n  BROKEN ")[2]


@pytest.mark.parametrize("profile", ["strict", "datascience", "web"])
def test_profiles_and_explain_say_the_same(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["profiles"])
    summary = f"\n{capsys.readouterr().out}".partition(f"\n{profile}\n")[2].partition("\n\n")[0]
    cli.main(["explain", profile])
    explained = capsys.readouterr().out
    said = dict(line.strip().split(maxsplit=1) for line in summary.splitlines()[1:])
    allowed = re.search(r"^ALLOW: (.+ calls)$", explained, re.MULTILINE)
    varying = re.search(r"^by their arguments: (\d+) calls$", explained, re.MULTILINE)
    assert allowed
    assert varying
    assert said["calls"].startswith(f"{allowed[1]} allowed, {varying[1]} judged by their arguments;")
    assert f"Network: {said['network']}." in explained
    one_line = " ".join(explained.split())
    for limit in said["limits"].split(", "):
        assert limit in one_line


def test_what_was_saved_is_listed_whatever_the_settings_hold_and_nothing_is_deleted_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("SENTINEL_ARTIFACTS", "rel")
    monkeypatch.setenv("SENTINEL_ARTIFACTS_DAYS", "foo")
    assert cli.main(["artifacts", "list"]) == 0
    shown = capsys.readouterr()
    assert f"{tmp_path}/sentinel-kernel/artifacts" in shown.out
    assert "SENTINEL_ARTIFACTS must be an absolute path" in shown.err
    assert "SENTINEL_ARTIFACTS_DAYS must be a number of days" in shown.err
    assert cli.main(["artifacts", "prune", "--yes"]) == 1
    assert "nothing is deleted" in capsys.readouterr().err


def test_a_profile_that_hides_the_one_it_extends_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "sentinel-kernel" / "profiles"
    place.mkdir(parents=True)
    (place / "strict.json").write_text('{"extends": "strict"}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert cli.main(["explain", "datascience"]) == 1
    said = capsys.readouterr().err
    assert f"{place}/strict.json hides another profile of the name 'strict'" in said
    assert "my-strict.json" in said
    (place / "strict.json").rename(place / "my-strict.json")
    assert cli.main(["explain", "my-strict"]) == 0


def test_a_file_that_is_no_profile_for_its_name_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "sentinel-kernel" / "profiles"
    (place / ".ipynb_checkpoints").mkdir(parents=True)
    for name in ("Has Space.json", ".hidden.json", ".ipynb_checkpoints/x y.json"):
        (place / name).write_text('{"extends": "strict"}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert cli.main(["profiles"]) == 1
    (told,) = [part for part in capsys.readouterr().out.split("\n\n") if "BROKEN" in part]
    assert str(place / "Has Space.json") in told
    assert "Rename it" in told
    (finding,) = [one for one in doctor.examine_own() if not one.ok and one.name.startswith("profile ")]
    assert "Has Space.json" in finding.detail
    assert "Rename it" in finding.remedy


def test_a_lab_is_told_which_profiles_of_its_administrators_own_its_users_would_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "with space" / "sentinel-kernel" / "profiles"
    (place / "labs").mkdir(parents=True)
    for name, parent in (
        ("roomy", "labs/base"),
        ("labs/base", "datascience"),
        ("mnt", "roomy"),
        ("other", "strict"),
    ):
        (place / f"{name}.json").write_text(json.dumps({"extends": parent}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "with space"))
    asked = ["lab-config", "--output", str(tmp_path / "lab"), "--profile", "roomy", "--ceiling", "mnt"]
    assert cli.main(asked) == 0
    said = capsys.readouterr().out
    for name in ("roomy", "labs/base", "mnt"):
        copied = f"'{place}/{name}.json' /etc/sentinel-kernel/profiles/{name}.json"
        assert said.count(f"install -D -o root -g root -m 644 {copied}\n") == 1
    assert "other.json" not in said
    assert cli.main(["lab-config", "--output", str(tmp_path / "shipped")]) == 0
    assert "/etc/sentinel-kernel/profiles" not in capsys.readouterr().out


def own_profiles(folder: Path) -> None:
    """Write a good profile and some with a mistake each."""
    place = folder / "sentinel-kernel" / "profiles"
    place.mkdir(parents=True)
    mount = {"path": "/nowhere/data", "mode": "ro"}
    for name, content in (
        ("good", {"extends": "strict"}),
        ("mistyped", {"extends": "strct"}),
        ("unknown", {"extends": "strict", "memory": 3}),
        ("absent", {"extends": "strict", "filesystem": {"mounts": [mount]}}),
        ("obeyed", {"extends": "strict", "filesystem": {"mounts": [{"path": "~/", "mode": "rw"}]}}),
    ):
        (place / f"{name}.json").write_text(json.dumps(content))


def test_doctor_tries_profiles_and_kernels_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_profiles(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    folder = tmp_path / "share" / "jupyter" / "kernels" / "gone"
    folder.mkdir(parents=True)
    specification = kernelspecs.kernel_specification("python", "Gone", None, "/nowhere/bin/python")
    (folder / "kernel.json").write_text(kernelspecs.kernel_json(specification))
    found = {finding.name: finding for finding in doctor.examine_own()}
    assert found["profile good"].ok
    assert "Did you mean 'strict'?" in found["profile mistyped"].remedy
    assert not found["profile unknown"].ok
    assert "/nowhere/data" in found["profile absent"].detail
    assert "run or obey" in found["profile obeyed"].detail
    assert "There is no interpreter /nowhere/bin/python" in found["kernel gone"].detail
    assert all(finding.ok or finding.remedy for finding in found.values())


@pytest.mark.sandbox
@pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications")
def test_doctor_boots_a_sandbox_and_exits_with_0(identity: Identity) -> None:
    done = identity.run(identity.python, "-m", "sentinel_kernel.cli", "doctor", "--json")
    document = json.loads(done.stdout)
    assert document["boots"] is True
    assert document["uid"] == identity.uid
    findings = {entry["name"]: entry for entry in document["findings"]}
    assert findings["sandbox"]["ok"]
    assert all(entry["ok"] for entry in findings.values() if entry["needed"])
    assert ("idmapped_mounts" in findings) == (identity.uid == 0)


@pytest.mark.requires("user_namespaces")
def test_doctor_names_what_is_missing_and_the_repair_and_exits_with_2(own_user: Identity) -> None:
    command = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", NO_USER_NAMESPACES, "sh"]
    done = own_user.run(*command, own_user.python, "-m", "sentinel_kernel.cli", "doctor", check=False)
    assert done.returncode == (1 if own_user.uid == 0 else 2)  # an id of root's sandboxes is not mapped there
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("MISSING  user namespaces"))
    assert "max_user_namespaces" in lines[at]
    assert any("repair: As root: sysctl -w user.max_user_namespaces" in line for line in lines[at : at + 3])
    boots = own_user.uid != 0
    assert any(line.startswith("ok       the sandbox" if boots else "MISSING  the sandbox") for line in lines)
    assert lines[-1].startswith(
        "The sandbox boots on the landlock rung" if boots else "The sandbox does not boot"
    )
