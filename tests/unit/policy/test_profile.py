"""Profiles: found by name, read strictly, with everything that they extend merged in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.profile_document import parse_profile

if TYPE_CHECKING:
    from pathlib import Path

RULE = {"name": "bind", "action": "NOTIFY"}


def document(**keys: Any) -> str:
    return json.dumps({"default_action": "ALLOW", **keys})


def write(folder: Path, name: str, **keys: Any) -> None:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(**keys))


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"colour": 1}, "$.colour"),
        ({"name": "other"}, "$.name"),
        ({"description": 3}, "$.description"),
        ({"default_action": "MAYBE"}, "$.default_action"),
        ({"filesystem": {"commit": "all"}}, "$.filesystem.commit"),
        ({"syscall_rules": {}}, "$.syscall_rules"),
        ({"syscall_rules": [RULE, 7]}, "$.syscall_rules[1]"),
        ({"syscall_rules": [{"action": "NOTIFY"}]}, "$.syscall_rules[0]"),
        ({"syscall_rules": [{"name": "bind"}]}, "$.syscall_rules[0]"),
        ({"syscall_rules": [{**RULE, "action": "NOPE"}]}, "$.syscall_rules[0].action"),
        ({"syscall_rules": [{**RULE, "errno": 0}]}, "$.syscall_rules[0].errno"),
        ({"syscall_rules": [{**RULE, "name": "printf"}]}, "$.syscall_rules[0].name"),
        ({"syscall_rules": [{"names": ["bind", "printf"], "action": "KILL"}]}, "$.syscall_rules[0].names[1]"),
        ({"syscall_rules": [{"names": [], "action": "KILL"}]}, "$.syscall_rules[0]"),
        ({"syscall_rules": [{**RULE, "args": []}]}, "$.syscall_rules[0].args"),
        (
            {"syscall_rules": [{**RULE, "arguments": [{"index": 6, "value": 1}]}]},
            "$.syscall_rules[0].arguments[0].index",
        ),
        ({"syscall_rules": [{**RULE, "arguments": [{"index": 0}]}]}, "$.syscall_rules[0].arguments[0]"),
        (
            {"syscall_rules": [{**RULE, "arguments": [{"index": 0, "mask": 1, "value": 2}]}]},
            "$.syscall_rules[0].arguments[0].value",
        ),
        (
            {"syscall_rules": [{**RULE, "arguments": [{"index": 0, "value": 1}, {"index": 0, "value": 2}]}]},
            "$.syscall_rules[0].arguments[1]",
        ),
        ({"resources": {"memory": 1}}, "$.resources.memory"),
        ({"network": {"allow": ["pypi.org"]}}, "$.network.allow"),
        ({"filesystem": {"mounts": [{"path": "data"}]}}, "$.filesystem.mounts[0].path"),
        ({"filesystem": {"mounts": [{"path": "/a/../b"}]}}, "$.filesystem.mounts[0].path"),
        ({"filesystem": {"mounts": [{"path": "/a", "mode": "w"}]}}, "$.filesystem.mounts[0].mode"),
        ({"filesystem": {"hidden": ["../x"]}}, "$.filesystem.hidden[0]"),
        ({"outputs": {"javascript": "run"}}, "$.outputs.javascript"),
        ({"preload": ["numpy", "os; x"]}, "$.preload[1]"),
        ({"minimum_isolation": "none"}, "$.minimum_isolation"),
        ({"extends": 1}, "$.extends"),
        ({"extends": "no-such-profile"}, "$"),
    ],
)  # fmt: skip
def test_a_fault_names_its_place(keys: dict[str, Any], place: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile("mine", document(**keys))
    assert caught.value.json_path == place


def test_a_profile_without_a_default_is_an_error() -> None:
    with pytest.raises(ProfileError, match="default_action"):
        parse_profile("mine", "{}")


@pytest.mark.parametrize("action", ["NOTIFY", "KILL", "LOG", "ASK"])
@pytest.mark.parametrize(
    "name",
    [
        "close",
        "clone",
        "fork",
        "vfork",
        "futex",
        "read",
        "write",
        "sendmsg",
        "recvmsg",
        "execve",
        "wait4",
        "mmap",
    ],
)
def test_calls_that_a_signal_could_tear_are_never_held(name: str, action: str) -> None:
    with pytest.raises(ProfileError, match="signal") as caught:
        parse_profile("mine", document(syscall_rules=[{"name": name, "action": action}]))
    assert caught.value.json_path == "$.syscall_rules[0].action"
    assert "ERRNO" in caught.value.remedy


def test_clone_with_a_namespace_flag_may_be_held() -> None:
    rule = {"name": "clone", "action": "KILL", "arguments": [{"index": 0, "mask": 1 << 28, "value": 1 << 28}]}
    assert (
        parse_profile("mine", document(syscall_rules=[rule])).syscall_rules[0].action.kind is ActionKind.KILL
    )


def test_notes_for_people_are_no_keys() -> None:
    profile = parse_profile(
        "mine", document(_note_x=1, comment="why", syscall_rules=[{**RULE, "_why": "so"}])
    )
    assert profile.syscall_rules[0].syscalls == ("bind",)


def test_a_profile_extends_another(tmp_path: Path) -> None:
    write(
        tmp_path, "base", description="base", syscall_rules=[RULE],
        resources={"pids": 7, "open_files": 9}, filesystem={"hidden": ["a"]},
    )  # fmt: skip
    (tmp_path / "child.json").write_text(
        json.dumps(
            {
                "extends": "base",
                "syscall_rules": [{"name": "bind", "action": "KILL"}],
                "resources": {"pids": 8},
                "filesystem": {"hidden": ["b"]},
            }
        )
    )
    child = load_profile("child", [str(tmp_path)])
    assert [rule.action.kind for rule in child.syscall_rules] == [ActionKind.KILL, ActionKind.NOTIFY]
    assert (child.resources.pids, child.resources.open_files) == (8, 9)
    assert child.filesystem.hidden == ("a", "b")
    assert child.default_action == Action(ActionKind.ALLOW)
    assert (child.name, child.description) == ("child", "base")
    assert [rule.place for rule in child.syscall_rules] == [
        "child: $.syscall_rules[0]",
        "base: $.syscall_rules[0]",
    ]


def test_profiles_that_extend_in_a_circle_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a", extends="b")
    write(tmp_path, "b", extends="a")
    with pytest.raises(ProfileError, match="round"):
        load_profile("a", [str(tmp_path)])


def test_the_users_own_profile_is_found_before_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, "strict", description="mine")
    write(tmp_path, "lab/course", description="lab")
    assert load_profile("strict", [str(tmp_path)]).description == "mine"
    assert load_profile("lab/course", [str(tmp_path)]).name == "lab/course"
    assert load_profile("strict").description != "mine"
    assert "lab/course" in list_profiles([str(tmp_path)])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../strict",
        "/etc/passwd",
        "a//b",
        "a/../b",
        ".hidden",
        "-x",
        "a\0b",
        "a/b/c/d",
        "x" * 65,
        "ü",
    ],
)
def test_a_name_can_not_lead_out_of_the_folders(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProfileError, match="not the name"):
        load_profile(name, [str(tmp_path)])


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ProfileError) as caught:
        load_profile("stricter")
    assert "datascience" in caught.value.remedy


def test_the_error_of_a_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ProfileError, match=str(tmp_path / "bad.json")):
        load_profile("bad", [str(tmp_path)])


def test_a_profile_that_is_read_again_is_what_its_file_and_those_that_it_extends_say_now(
    tmp_path: Path,
) -> None:
    base, child = tmp_path / "base.json", tmp_path / "child.json"
    base.write_text('{"extends": "strict", "resources": {"pids": 10}}')
    child.write_text('{"extends": "base"}')
    first = load_profile("child", [str(tmp_path)])
    assert load_profile("child", [str(tmp_path)]) is first
    base.write_text('{"extends": "strict", "resources": {"pids": 11}}')
    assert load_profile("child", [str(tmp_path)]).resources.pids == 11
    child.write_text('{"extends": "base", "resources": {"pids": 12}}')
    assert load_profile("child", [str(tmp_path)]).resources.pids == 12
    base.write_text("{")
    with pytest.raises(ProfileError):
        load_profile("child", [str(tmp_path)])
    base.unlink()
    with pytest.raises(ProfileError):
        load_profile("child", [str(tmp_path)])
