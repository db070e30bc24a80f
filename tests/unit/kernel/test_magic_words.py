"""What magics answer: a mistake is said once, and the help names every switch."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.ceiling import Ceiling
from sentinel_kernel.kernel.magics import _USAGE, Magics, UsageError
from sentinel_kernel.kernel.mount_arguments import MountWanted
from sentinel_kernel.kernel.mount_refusals import CODES
from sentinel_kernel.kernel.mount_words import MountWords
from sentinel_kernel.kernel.settings import read_settings
from sentinel_kernel.supervisor.protocol import HOST_MAGICS
from sentinel_kernel.worker.inert_magics import USAGE, help_text
from sentinel_kernel.worker.leading_block import parse_leading_block


def _magics(language: str) -> Magics:
    settings = read_settings(["-f", "-"], {}, ".")
    return Magics(language, (), Ceiling(settings), lambda: "strict", list)


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "line 1: There is no profile 'nonsense'. Known: strict, "),
        ("zh", "没有名为“nonsense”的配置。"),
    ],
)
def test_a_profile_that_there_is_not_is_said_once(language: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        _magics(language).check(parse_leading_block("%sentinel_profile nonsense").lines)
    assert told in str(caught.value)
    assert str(caught.value).count("nonsense") == 1
    assert "sentinelbox/web" in str(caught.value)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_help_names_the_switch_for_dangerous_code(language: str) -> None:
    page = str(_magics(language)._help_page())
    assert "%sentinel_preflight --dangerous refuse" in page


@pytest.mark.parametrize(
    ("typed", "english", "chinese"),
    [
        ("127.0.0.1:8765", "This machine's own services can't be allowed", "无法允许访问本机自身的服务"),
        ("localhost:8765", "This machine's own services can't be allowed", "无法允许访问本机自身的服务"),
        ("http://example.com/", "Leave out http:// and the path.", "请去掉 http:// 和路径。"),
        ("example.com/data", "Leave out http:// and the path.", "请去掉 http:// 和路径。"),
        ("localhost:99999", "Ports go from 1 to 65535.", "端口范围为 1 到 65535。"),
        ("", "It names no host.", "没有写明主机。"),
    ],
)
def test_hosts_that_can_not_be_allowed_are_refused_with_the_reason(
    typed: str, english: str, chinese: str
) -> None:
    for language, told in (("en", english), ("zh", chinese)):
        with pytest.raises(UsageError) as caught:
            _magics(language).check(parse_leading_block(f"%sentinel_allow {typed}").lines)
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("language", "title"), [("en", "folders are shown no more"), ("zh", "文件夹不再显示")]
)
def test_folders_that_went_with_a_sandbox_are_named_with_the_line_for_each(language: str, title: str) -> None:
    mounts = [
        {"target": "/mnt/data", "path": "/srv/nc/data", "mode": "ro"},
        {"target": "/mnt/my_out", "path": "/srv/my out", "mode": "rw"},
    ]
    plain = MountWords(language).gone(mounts)["text/plain"]
    assert title in plain
    for told in ("/mnt/data", "%sentinel_mount /srv/nc/data\n", "%sentinel_mount '/srv/my out' rw"):
        assert told in plain


def test_what_ipythons_help_shows_of_a_magic_is_what_the_host_reads() -> None:
    assert {name: usage for name, (usage, _) in USAGE.items()} == _USAGE
    assert set(USAGE) <= set(HOST_MAGICS)
    for name, (usage, example) in USAGE.items():
        assert f"%{name}{usage}" in help_text(name)
        if example:
            assert f"For example: %{name} {example}\n" in help_text(name)
            _magics("en").check(parse_leading_block(f"%{name} {example}").lines)
    assert "%sentinel_help" in help_text("sentinel_reset")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("code", sorted(CODES))
def test_a_folder_that_the_profile_wants_written_is_not_to_be_shown_read_only_once_more(
    code: str, language: str
) -> None:
    told = MountWords(language).not_written("/srv/data", {"code": code, "detail": "/srv/data/.git"})
    assert "{" not in told
    assert "is not shown" not in told
    assert "未显示" not in told
    assert "ead-only" not in told
    assert "只读" not in told
    assert "ro" not in told.split()
    if code == "host_runs":
        assert "/srv/data/.git" in told
        assert told.count("HINT →") == 1


KEPT = {
    "busy": "HINT → Run the cell again in a moment.",
    "changed": "HINT → Run the cell again.",
    "failed": "HINT → Try again; `sentinel-kernel doctor` tells what is missing.",
    "rung": "HINT → Copy the files into the notebook's folder",
    "too_slow": "HINT → Try again when the disk answers.",
    "": "HINT → Try again; ",
}
"""Code -> what helps though cells were given the folder before, and costs no variables."""


@pytest.mark.parametrize("code", ["", *sorted(CODES - {"no_sandbox"})])
def test_a_folder_that_cells_were_given_before_is_not_said_to_be_read_alone(code: str) -> None:
    told = {"code": code, "detail": "/srv/data/.git"}
    for language, here, never in (
        (
            "en",
            "what cells write here goes to the folder that they were given before",
            ("only", "can't change"),
        ),
        ("zh", "单元格在此写入的内容仍进入先前提供的文件夹", ("只能", "无法修改它")),
    ):
        words = MountWords(language)
        why = words.not_written("/srv/data", told, held=True)
        plain = words.read_only("/srv/data", why, held=True)["text/plain"]
        assert here in why
        assert (why.count("HINT →"), "{" in why) == (1, False)
        assert (why.count("%sentinel_reset"), "variables" in why or "变量" in why) == (
            (0, False) if code in KEPT else (1, True)
        )
        assert [word for word in never if word in plain] == []
    if code in KEPT:
        assert KEPT[code] in MountWords("en").not_written("/srv/data", told, held=True)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("path", ["/srv/data", "/srv/my data"])
def test_a_folder_that_is_refused_is_named_in_the_line_that_shows_it_read_only(
    path: str, language: str
) -> None:
    for code in ("host_runs", "no_write", "secret_inside"):
        told = MountWords(language).refused(path, {"code": code, "detail": "{x}"})
        line = told[told.index("%sentinel_mount") :]
        (wanted,) = _magics(language).check(parse_leading_block(line).lines)
        assert isinstance(wanted, MountWanted)
        assert (wanted.path, wanted.mode) == (path, "ro")
