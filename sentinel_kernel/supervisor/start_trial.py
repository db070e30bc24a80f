"""What a start would fail by, as far as that can be told while the sandbox that it would replace goes on."""

from __future__ import annotations

import contextlib
import os

from sentinel_kernel.errors import BootError, SentinelError
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.rung import FULL
from sentinel_kernel.supervisor.channels import RunDirectory
from sentinel_kernel.supervisor.preparation import parse_start, prepare
from sentinel_kernel.supervisor.remedies import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sentinel_kernel.supervisor.current import Current


def start_fault(current: Current, message: dict[str, Any], package_directory: str) -> dict[str, Any]:
    """Return what the start of ``message`` fails by, as an ``unavailable`` event says it; empty: by nothing known.

    It is prepared as a start is: the profile is read, its folders are looked at, the boot is planned. The sandbox that
    is there, ``current``, is not touched, and has shown that this machine lets one boot.
    """
    try:
        request = parse_start(message)
        with contextlib.closing(RunDirectory()) as directory:
            preparation = prepare(request, current.lease.identity, package_directory, directory.path)
        compile_policy(preparation.profile, os.uname().machine, current.preparation.refused)
        if current.rung != FULL and preparation.profile.minimum_isolation == FULL:
            return _lesser_alone(current, preparation.profile.name)
    except SentinelError as error:
        return describe(error)
    except OSError as error:
        return describe(BootError("prepare", error.errno or 0, f"Preparing it failed: {error}."))
    return {}


def _lesser_alone(current: Current, profile: str) -> dict[str, Any]:
    """Return the words for a profile that asks for the full rung where the sandbox in use could not have it."""
    lists = current.preparation.plan.lists
    why = lists.words() if lists is not None else {}
    return {
        "step": "minimum_isolation",
        "errno": None,
        "cause_en": f"The profile {profile!r} asks for the full rung. {why.get('cause_en', '')}".strip(),
        "cause_zh": f"配置“{profile}”要求完整级别。{why.get('cause_zh', '')}",
        "remedy_en": why.get("remedy_en", ""),
        "remedy_zh": why.get("remedy_zh", ""),
    }
