"""Known environments are recognized by what their machines say of themselves: copies of that, one for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sentinel_kernel import doctor
from sentinel_kernel.environments import ENVIRONMENTS, known_environments, read_facts
from sentinel_kernel.probes import Finding

GOLDEN = Path(__file__).parent / "golden"
NAMESPACES = ("user_namespaces", "overlay", "fresh_proc")
NEW = {"proc/sys/kernel/osrelease": "6.18.0-generic", "proc/sys/user/max_user_namespaces": "63000"}
MASKED = "30 20 0:5 / /proc rw - proc proc rw\n31 30 0:6 / /proc/acpi ro - tmpfs tmpfs ro\n"
FILTERED = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"

CASES: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "ubuntu-apparmor": (
        {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
        NAMESPACES,
        ("apparmor_userns",),
        {},
    ),
    "debian-userns-clone": (
        {"proc/sys/kernel/unprivileged_userns_clone": "0"},
        NAMESPACES,
        ("userns_clone",),
        {},
    ),
    "no-user-namespaces": (
        {"proc/sys/user/max_user_namespaces": "0"},
        NAMESPACES,
        ("max_user_namespaces",),
        {},
    ),
    "docker": (
        {".dockerenv": "", "proc/self/status": FILTERED, "proc/self/mountinfo": MASKED},
        NAMESPACES,
        ("container_filter", "covered_proc"),
        {},
    ),
    "podman": (
        {"run/.containerenv": "", "proc/self/status": FILTERED, "proc/self/mountinfo": MASKED},
        NAMESPACES,
        ("container_filter", "covered_proc"),
        {},
    ),
    "kubernetes": (
        {"proc/self/status": FILTERED, "proc/self/mountinfo": MASKED},
        NAMESPACES,
        ("container_filter", "kubernetes", "covered_proc"),
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
    ),
    "masked-proc-alone": ({"proc/self/mountinfo": MASKED}, ("fresh_proc",), ("covered_proc",), {}),
    "wsl1": (
        {"proc/sys/kernel/osrelease": "4.4.0-19041-Microsoft"},
        (*NAMESPACES, "landlock", "notifications"),
        ("wsl1", "no_addfd", "no_overlay_in_userns"),
        {},
    ),
    "wsl2": (
        {"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2"},
        ("landlock", "notifications", "landlock_rung"),
        ("wsl2", "no_killable_wait", "old_landlock"),
        {},
    ),
    "linux-5.4": (
        {"proc/sys/kernel/osrelease": "5.4.0-generic"},
        ("overlay", "notifications", "landlock", "landlock_rung", "idmapped_mounts"),
        ("no_addfd", "no_overlay_in_userns", "no_idmapped_mounts", "no_landlock", "old_landlock"),
        {},
    ),
    "linux-5.15": (
        {"proc/sys/kernel/osrelease": "5.15.0-generic"},
        ("notifications", "landlock_rung"),
        ("no_killable_wait", "old_landlock"),
        {},
    ),
    "no-landlock": (
        {"sys/kernel/security/lsm": "capability,yama,apparmor"},
        ("landlock", "landlock_rung"),
        ("no_landlock",),
        {},
    ),
    "yama": ({"proc/sys/kernel/yama/ptrace_scope": "3"}, ("memory",), ("yama",), {}),
    "noexec-tmp": (
        {"proc/self/mountinfo": "40 20 0:7 / /scratch rw,nosuid,noexec - tmpfs tmpfs rw\n"},
        (),
        ("noexec",),
        {"TMPDIR": "/scratch/me"},
    ),
}


def facts_of(root: Path, files: dict[str, str], variables: dict[str, str]) -> object:
    for name, text in (NEW | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return read_facts(str(root), variables)


@pytest.mark.parametrize("name", CASES)
def test_a_machine_is_recognized(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, failed, wanted, variables = CASES[name]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    facts = facts_of(tmp_path, files, variables)
    known = known_environments(facts, failed)  # type: ignore[arg-type]
    assert tuple(one.name for one in known) == wanted
    golden = GOLDEN / f"doctor-{name}.txt"
    findings = [Finding(one, one, "a sandbox", True, False, "refused", "") for one in failed]
    findings.append(Finding("sandbox", "the sandbox", "all of it together", True, not failed, "tried", ""))
    rung = "landlock" if failed == NAMESPACES else "full" if not failed else "none"
    tables = [doctor.table(findings, rung, "a machine", known, spoken) for spoken in ("en", "zh")]
    text = "\n\n".join(table.partition("\n\n")[2] for table in tables) + "\n"
    if os.environ.get("SENTINEL_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_known_environment_is_one_of_these() -> None:
    assert {name for _, _, names, _ in CASES.values() for name in names} == {one.name for one in ENVIRONMENTS}


def test_nothing_is_blamed_where_nothing_failed(tmp_path: Path) -> None:
    files = {".dockerenv": "", "proc/self/status": FILTERED, "proc/self/mountinfo": MASKED}
    assert known_environments(facts_of(tmp_path, files, {}), ()) == []  # type: ignore[arg-type]
