"""Building a filter: proved against the policy, kept in a cache that only its owner can have written."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from sentinel_kernel.errors import UnsupportedHost
from sentinel_kernel.policy.compiled import CompiledPolicy, compile_policy
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.supervisor import filter as filter_module
from sentinel_kernel.supervisor.filter import build_filter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return compile_policy(load_profile("strict"), os.uname().machine)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "filters"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of the policies that libseccomp was asked for."""
    asked: list[str] = []
    build = filter_module._build

    def counted(wanted: CompiledPolicy) -> bytes:
        asked.append(wanted.digest)
        return build(wanted)

    monkeypatch.setattr(filter_module, "_build", counted)
    return asked


def kept(cache: Path) -> Path:
    [file] = cache.iterdir()
    return file


def test_the_second_time_it_comes_from_the_cache(
    policy: CompiledPolicy, cache: Path, builds: list[str]
) -> None:
    first = build_filter(policy, str(cache))
    assert build_filter(policy, str(cache)) == first
    assert len(builds) == 1
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(kept(cache).stat().st_mode) == 0o600


def test_a_cached_filter_needs_no_libseccomp(
    policy: CompiledPolicy, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build_filter(policy, str(cache))
    monkeypatch.setitem(sys.modules, "pyseccomp", None)  # importing it fails now
    assert build_filter(policy, str(cache)) == program


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-8]),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(file.read_bytes() + bytes(8)),
        lambda file: file.write_bytes(bytes(32) + file.read_bytes()[32:]),
        lambda file: file.write_bytes(hashlib.sha256(file.read_bytes()[32:]).digest() + file.read_bytes()[32:]),
        lambda file: file.chmod(0o640),
        lambda file: file.chmod(0o602),
        lambda file: file.parent.chmod(0o750),
        lambda file: file.parent.chmod(0o777),
        lambda file: file.rename(file.with_suffix(".x")) and file.symlink_to(file.with_suffix(".x")),
        lambda file: (file.unlink(), os.mkfifo(file, 0o600)),
        lambda file: (file.unlink(), file.mkdir(0o700)),
    ],
    ids=[
        "cut", "empty", "longer", "wrong hash", "hash without its name", "group may read", "others may write",
        "folder open to the group", "folder open to all", "link", "pipe", "folder",
    ],
)  # fmt: skip
def test_a_cached_file_that_could_be_anothers_work_is_not_used(
    policy: CompiledPolicy, cache: Path, builds: list[str], harm: object
) -> None:
    first = build_filter(policy, str(cache))
    harm(kept(cache))  # type: ignore[operator]
    assert build_filter(policy, str(cache)) == first
    assert len(builds) == 2


@pytest.mark.requires("root")  # who alone can make a file somebody else's
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_belongs_to_somebody_else_is_not_used(
    policy: CompiledPolicy, cache: Path, builds: list[str], which: str
) -> None:
    build_filter(policy, str(cache))
    os.chown(kept(cache) if which == "file" else cache, 65533, 65533)
    build_filter(policy, str(cache))
    assert len(builds) == 2


def test_a_cached_program_of_another_policy_is_not_taken_for_this_ones(
    policy: CompiledPolicy, cache: Path, builds: list[str]
) -> None:
    other = compile_policy(load_profile("sentinelbox/web"), os.uname().machine)
    build_filter(other, str(cache))
    theirs = kept(cache)
    first = build_filter(policy, str(cache))
    [ours] = set(cache.iterdir()) - {theirs}
    ours.write_bytes(theirs.read_bytes())
    assert build_filter(policy, str(cache)) == first
    assert len(builds) == 3


def test_a_cache_that_can_not_be_written_only_costs_time(policy: CompiledPolicy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert build_filter(policy, str(tmp_path / "file" / "filters"))


def test_a_filter_that_is_not_what_the_policy_says_is_refused(
    policy: CompiledPolicy, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = compile_policy(load_profile("sentinelbox/web"), os.uname().machine)
    wrong = build_filter(other)
    monkeypatch.setattr(filter_module, "_build", lambda _: wrong)
    with pytest.raises(UnsupportedHost, match="instead of"):
        build_filter(policy, str(cache))
    assert not cache.exists()


def test_a_malformed_program_is_refused(policy: CompiledPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_module, "_build", lambda _: b"12345678")
    with pytest.raises(UnsupportedHost, match="checked"):
        build_filter(policy)


def test_a_missing_libseccomp_says_how_to_get_it(
    policy: CompiledPolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What pyseccomp does on import where the library is not found.
    (tmp_path / "pyseccomp.py").write_text("raise RuntimeError('Unable to find libseccomp')")
    monkeypatch.delitem(sys.modules, "pyseccomp", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnsupportedHost, match=r"libseccomp\.so\.2") as caught:
        build_filter(policy)
    assert "apt-get install libseccomp2" in caught.value.remedy


def test_a_missing_pyseccomp_says_how_to_get_it(
    policy: CompiledPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(UnsupportedHost, match="pyseccomp") as caught:
        build_filter(policy)
    assert "pip install" in caught.value.remedy


def test_a_libseccomp_that_is_too_old_says_so(
    policy: CompiledPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ModuleType("pyseccomp")

    def refuse(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    old.SyscallFilter, old.NOTIFY = refuse, 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyseccomp", old)
    with pytest.raises(UnsupportedHost, match="can't build") as caught:
        build_filter(policy)
    assert "2.5" in caught.value.remedy
