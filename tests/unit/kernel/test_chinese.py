"""What the supervisor and the check of a file tell in English is shown in Chinese to who reads that."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sentinel_kernel
from sentinel_kernel.errors import MappingError, SentinelError, UnsupportedHost
from sentinel_kernel.kernel import lab_config
from sentinel_kernel.kernel.chinese import in_chinese
from sentinel_kernel.kernel.limit_magic import limits_page
from sentinel_kernel.kernel.problems import forbidden
from sentinel_kernel.kernel.status_page import StatusPage
from sentinel_kernel.kernel.unavailable import Problem
from sentinel_kernel.kernel.words import own_words_unused
from sentinel_kernel.linux import cgroup
from sentinel_kernel.policy.mapping import parse_mapping
from sentinel_kernel.supervisor.backend import _REMEDIES, Backends
from sentinel_kernel.supervisor.remedies import describe

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


def _said(path: str, function: str) -> list[str]:
    """Return the sentences that a module gives to ``function`` (or returns, for "return"), with "7" for what varies."""
    tree = ast.parse((Path(sentinel_kernel.__file__).parent / path).read_text())
    given = [
        node.args[0] if isinstance(node, ast.Call) else node.value
        for node in ast.walk(tree)
        if (isinstance(node, ast.Return) and function == "return")
        or (isinstance(node, ast.Call) and getattr(node.func, "id", "") == function and node.args)
    ]
    texts = []
    for one in given:
        if isinstance(one, ast.JoinedStr):
            texts.append("".join(str(getattr(part, "value", "7")) if isinstance(part, ast.Constant) else "7"
                                 for part in one.values))  # fmt: skip
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            texts.append(one.value)
    return [text for text in texts if " " in text]


@pytest.mark.parametrize(
    ("path", "function", "least"),
    [
        ("supervisor/user_scope.py", "UnsupportedHost", 5),
        ("supervisor/group_tree.py", "return", 5),
    ],
)
def test_reasons_of_back_ends_are_told_in_chinese(path: str, function: str, least: int) -> None:
    said = _said(path, function)
    assert len(said) >= least
    for text in said:
        assert not _ENGLISH.search(in_chinese(text)), text
    joined = in_chinese("/a is systemd's to divide. /b: Permission denied. /c is not delegated to this user.")
    assert joined == "/a 由 systemd 划分。 /b: Permission denied. /c 没有委托给此用户。"


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"locked": 3}',
        b'{"lokced": true}',
        b'{"ask": "sometimes"}',
        b'{"ask_seconds": -1}',
        b'{"pythons": 3}',
        b'{"pythons": [""]}',
        b'{"profile": 3}',
        b'{"locked": true, "locked": false}',
        b'{"ask_seconds": NaN}',
    ],
)
def test_a_mistake_in_a_labs_configuration_is_told_in_chinese(text: bytes) -> None:
    with pytest.raises(SentinelError) as caught:
        lab_config._parse(text, "/etc/sentinel-kernel/config.json", "/nowhere")
    _, cause, remedy = forbidden(caught.value).describe("zh")
    for told in (cause, remedy):
        assert not _ENGLISH.search(re.sub(r"Expecting.*quotes|Known here.*|NaN is not JSON", "", told)), told
    assert "/etc/sentinel-kernel/config.json" in cause
    assert "实验室配置" in cause
    assert forbidden(caught.value).describe("en")[1] == caught.value.message


def test_a_labs_configuration_that_is_not_roots_alone_is_told_in_chinese() -> None:
    said = [f"The lab's configuration /e/c.json {why}, so that no sandbox is started."
            for why in ("can't be read (Permission denied)", "is no plain file", "is longer than 65536 bytes",
                        "belongs to user 7, not to root", "can be changed by others than root")]  # fmt: skip
    source = (Path(lab_config.__file__)).read_text()
    assert source.count("_distrusted(path, ") == len(said)
    for text in said:
        assert not _ENGLISH.search(in_chinese(text)), text
    assert "chown root:root /e" in in_chinese(lab_config._distrusted("/e", "is no plain file").remedy)


@pytest.mark.parametrize("wanted", ["cgroup", "systemd", "nonsense"])
def test_a_back_end_that_is_wanted_and_missing_is_told_in_chinese(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    def own_place() -> Any:
        raise FileNotFoundError(2, "No such file", None)

    monkeypatch.setattr(cgroup, "own_place", own_place)
    backends = Backends()
    with pytest.raises(UnsupportedHost) as caught:
        backends.make(wanted)
    _, cause, remedy = Problem.from_event(describe(caught.value)).describe("zh")
    for told in (cause, remedy):
        assert not _ENGLISH.search(told), told
    assert f"SENTINEL_LIMITS_BACKEND={wanted}" in cause
    for remedies in (_REMEDIES["cgroup"], _REMEDIES["systemd"]):
        assert "JupyterLab" in in_chinese(remedies) != remedies


def test_what_could_not_be_set_is_told_behind_the_back_end() -> None:
    told = in_chinese("memory, pids in /a; the share of processors could not be set: Bad file descriptor")
    assert told == "/a 中的 memory, pids；处理器份额无法设定：Bad file descriptor"


def test_what_is_not_ours_stays_as_it_is() -> None:
    assert in_chinese("/sys/fs/cgroup: Permission denied.") == "/sys/fs/cgroup: Permission denied."
