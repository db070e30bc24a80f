"""What a rule does with a system call: the actions as profiles write them."""

from __future__ import annotations

import errno

import pytest

from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import Action, ActionKind, parse_action


@pytest.mark.parametrize(
    ("text", "beside", "action"),
    [
        ("ALLOW", None, Action(ActionKind.ALLOW)),
        ("ERRNO", None, Action(ActionKind.ERRNO, errno.EPERM)),
        ("ERRNO", 13, Action(ActionKind.ERRNO, errno.EACCES)),
        ("ERRNO(38)", None, Action(ActionKind.ERRNO, errno.ENOSYS)),
        ("NOTIFY", None, Action(ActionKind.NOTIFY)),
        ("NOTIFY(38)", None, Action(ActionKind.NOTIFY, errno.ENOSYS)),
        ("KILL", None, Action(ActionKind.KILL)),
        ("LOG", None, Action(ActionKind.LOG)),
        ("ASK", None, Action(ActionKind.ASK)),
    ],
)
def test_an_action_is_read(text: str, beside: int | None, action: Action) -> None:
    assert parse_action(text, "$.a", beside) == action


@pytest.mark.parametrize(
    ("value", "beside"),
    [
        ("allow", None), ("", None), ("DENY", None), ("ERRNO(", None), ("ERRNO()", None), ("ERRNO(1", None),
        ("ERRNO(-1)", None), ("ERRNO(0)", None), ("ERRNO(134)", None), ("ERRNO(99999)", None),
        ("ERRNO(１)", None), ("ERRNO(1)", 2), ("ERRNO", 0), ("ERRNO", True), ("ERRNO", "1"), ("ERRNO", 1.0),
        ("ALLOW", 1), ("KILL(1)", None), (None, None), (1, None), (["ALLOW"], None), ({}, None), (True, None),
    ],
)  # fmt: skip
def test_what_is_no_action_is_an_error_with_its_place(value: object, beside: object) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_action(value, "$.syscall_rules[3].action", beside, "$.syscall_rules[3].errno")
    assert caught.value.json_path.startswith("$.syscall_rules[3].")
    assert caught.value.remedy


def test_what_takes_effect_is_no_refusal() -> None:
    taking = [ActionKind.ALLOW, ActionKind.LOG, ActionKind.ASK]
    assert [kind for kind in ActionKind if not Action(kind).refuses] == taking


def test_an_action_says_its_errno_by_name() -> None:
    assert str(Action(ActionKind.ERRNO, errno.ENOSYS)) == "ERRNO(ENOSYS)"
    assert str(Action(ActionKind.NOTIFY)) == "NOTIFY"
    assert Action(ActionKind.NOTIFY).errno_seen == errno.EPERM
