"""The worker speaks as the host does: both read the same variables."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.settings import language
from sentinel_kernel.worker.language import is_chinese


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LANG": "zh_CN.UTF-8"},
        {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"},
        {"LANG": "C", "LC_MESSAGES": "zh_TW"},
        {"SENTINEL_LANG": "zh", "LANG": "C"},
        {"SENTINEL_LANG": "EN", "LANG": "zh_CN"},
        {"SENTINEL_LANG": "", "LANG": "zh_CN"},
    ],
)
def test_the_worker_reads_the_language_as_the_host_does(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name in ("SENTINEL_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_chinese() is (language(variables) == "zh")
