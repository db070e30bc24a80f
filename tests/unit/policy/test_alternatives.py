"""What other profiles would do with a violation: tried against their compiled policies, never guessed."""

from __future__ import annotations

from typing import Any

from sentinel_kernel.policy.action import Action, ActionKind
from sentinel_kernel.policy.alternatives import ASKS, NO, YES, alternatives
from sentinel_kernel.policy.decode import Argument
from sentinel_kernel.policy.profile import Filesystem, MountRule, Profile, SyscallRule, load_profile
from sentinel_kernel.policy.regions import EVERYTHING
from sentinel_kernel.policy.resources import Resources
from sentinel_kernel.policy.violation import VERSION, Process, Subject, Violation
from sentinel_kernel.record import replace

STRICT, DATASCIENCE = load_profile("strict"), load_profile("datascience")


def violation(**fields: Any) -> Violation:
    known: dict[str, Any] = {
        "id": "v",
        "version": VERSION,
        "profile": "strict",
        "rule": "",
        "origin": "profile",
        "action": "NOTIFY",
        "outcome": "refused",
        "first_time_ms": 1,
        "last_time_ms": 1,
    }
    return Violation(**(known | fields))


def call(name: str, number: int, *values: int) -> Violation:
    arguments = tuple(Argument(f"a{place}", value, str(value), False) for place, value in enumerate(values))
    return violation(
        syscall=name,
        number=number,
        architecture="x86_64",
        arguments=arguments,
        process=Process(1, "p", is_worker=True),
    )


def allows(found: Violation, *profiles: Profile) -> list[str]:
    return [other.allows for other in alternatives(found, STRICT, profiles, "x86_64")]


def test_a_call_is_tried_with_its_registers() -> None:
    socket, packet, mount = call("socket", 41, 2, 1, 0), call("socket", 41, 17, 3, 0), call("mount", 165, 0)
    assert allows(socket, DATASCIENCE) == [YES]
    assert allows(packet, DATASCIENCE) == [NO]
    assert allows(mount, DATASCIENCE) == [NO]
    asking = replace(
        STRICT,
        name="asking",
        syscall_rules=(
            SyscallRule(("socket",), EVERYTHING, Action(ActionKind.ASK), "", ""),
            *STRICT.syscall_rules,
        ),
    )
    assert allows(socket, asking) == [ASKS]
    assert allows(replace(socket, architecture="i386"), DATASCIENCE) == [NO]
    assert allows(replace(socket, resource="outside-network"), DATASCIENCE) == [NO]
    assert allows(socket, STRICT) == []  # the profile itself is no alternative


def test_what_it_gives_beyond_is_named() -> None:
    [other] = alternatives(call("socket", 41, 2, 1, 0), STRICT, [DATASCIENCE], "x86_64")
    assert other.calls == ("socket",)
    assert "pids" in other.limits
    assert "wall_seconds" not in other.limits
    assert other.folders == ()


def test_a_limit_that_is_wider_or_a_share_of_the_machine_may_help() -> None:
    memory = violation(cause="memory", action="LIMIT", rule="memory_bytes = 1")
    wider = replace(STRICT, name="wider", resources=Resources(memory_bytes=1 << 40))
    narrower = replace(STRICT, name="narrower", resources=Resources(memory_bytes=1))
    share = replace(STRICT, name="share", resources=Resources(memory_bytes="50%"))
    none = replace(STRICT, name="none", resources=Resources())
    assert allows(memory, wider, narrower, share, none) == [YES, NO, YES, YES]


def test_a_path_is_shown_where_a_folder_above_it_is() -> None:
    def shown(mode: str) -> Profile:
        return replace(STRICT, name=mode, filesystem=Filesystem(mounts=(MountRule("/data/survey", mode),)))

    hidden = violation(cause="path_hidden", action="PATH", subject=Subject("path", "/data/survey/a.csv"))
    beside = replace(hidden, subject=Subject("path", "/data/survey-2/a.csv"))
    written = replace(hidden, cause="path_read_only")
    assert allows(hidden, shown("ro"), STRICT) == [YES]
    assert allows(beside, shown("ro")) == [NO]
    assert allows(written, shown("ro"), shown("overlay")) == [NO, YES]
    assert allows(violation(cause="package_absent", action="ABSENT"), shown("ro")) == [NO]
