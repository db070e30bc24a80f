"""What the supervisor and the check of a file tell in English is shown in Chinese to who reads that."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from sentinel_kernel.errors import MappingError
from sentinel_kernel.kernel.chinese import in_chinese
from sentinel_kernel.kernel.limit_magic import limits_page
from sentinel_kernel.kernel.status_page import StatusPage
from sentinel_kernel.kernel.words import own_words_unused
from sentinel_kernel.linux import cgroup
from sentinel_kernel.policy.mapping import parse_mapping
from sentinel_kernel.supervisor.backend import Backends

_WORDS: dict[str, Any] = {"en": "a", "zh": "b", "hint": {"en": "c", "zh": "d"}}
_FAULTS: dict[str, Any] = {
    "cause": {"causes": [{"causes": ["disc"], **_WORDS}]},
    "variant": {"causes": [{"causes": ["disk:disc"], **_WORDS}]},
    "no variants": {"causes": [{"causes": ["pids:disc"], **_WORDS}]},
    "resource": {"groups": [{"syscalls": ["socket:disc"], **_WORDS}]},
    "call": {"groups": [{"syscalls": ["disc"], **_WORDS}]},
    "error": {"errors": [{"errors": ["disc"], **_WORDS}]},
    "placeholder": {"causes": [{"causes": ["disk"], **_WORDS, "en": "{disc}"}]},
    "hint": {"causes": [{"causes": ["disk"], **_WORDS, "hint": 3}]},
}
_ENGLISH = re.compile(r"\b(is|no|known|write|of|this|a)\b", re.IGNORECASE)


@pytest.mark.parametrize("document", _FAULTS.values(), ids=list(_FAULTS))
def test_a_fault_in_words_of_ones_own_is_told_in_chinese(document: dict[str, Any]) -> None:
    with pytest.raises(MappingError) as caught:
        parse_mapping(json.dumps(document), whole=False)
    fault = caught.value
    for told in (fault.message, fault.remedy):
        assert not _ENGLISH.search(in_chinese(told)), told
    told_words = own_words_unused("/w.json", "$", fault.message, fault.remedy)
    assert not _ENGLISH.search(told_words.message("zh"))
    assert fault.message in told_words.message("en")


@pytest.mark.parametrize("legacy", [True, False, None])
def test_why_no_control_group_holds_the_limits_is_told_in_chinese(
    monkeypatch: pytest.MonkeyPatch, *, legacy: bool | None
) -> None:
    def own_place() -> Any:
        if legacy is None:
            return SimpleNamespace(mount="/nowhere", legacy=("memory", "pids"))
        raise FileNotFoundError(2, "No such file", "/sys/fs/cgroup" if legacy else None)

    monkeypatch.setattr(cgroup, "own_place", own_place)
    monkeypatch.setattr("sentinel_kernel.supervisor.backend._controllers", lambda _: ())
    backends = Backends()
    try:
        detail = backends.make("auto").detail
    finally:
        backends.close()
    assert "version" in detail
    assert "控制组" in in_chinese(detail)
    settings: Any = SimpleNamespace(language="zh", lab=None, workspace="/w", profile_directories=())
    lifecycle: Any = SimpleNamespace(
        state=SimpleNamespace(value="ready"),
        profile="strict",
        generation=1,
        problem=None,
        ready={"backend": "fallback", "backend_detail": detail},
    )
    displays: Any = SimpleNamespace(refusals=0, others=0)
    rows = dict(StatusPage(settings, lifecycle, displays).rows())
    assert in_chinese(detail) in rows["限制由谁执行"]
    assert in_chinese(detail) in limits_page({"detail": detail}, "strict", chinese=True)["text/plain"]
    assert detail in limits_page({"detail": detail}, "strict", chinese=False)["text/plain"]


def test_what_is_not_ours_stays_as_it_is() -> None:
    assert in_chinese("/sys/fs/cgroup: Permission denied.") == "/sys/fs/cgroup: Permission denied."
