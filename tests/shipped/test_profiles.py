"""Every profile that ships: parses, compiles on every machine, becomes a proved filter, and says why."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sentinel_kernel.abi.architecture import ARCHITECTURES, is_known_anywhere
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.bpf import first_mismatch
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.floor import FLOOR, WORKER_NEEDS
from sentinel_kernel.policy.measured import measured_policy
from sentinel_kernel.policy.profile import list_profiles, load_profile
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.supervisor.filter import build_filter

NAMES = list_profiles()
OWN = ("strict", "datascience", "web")
SENTINELBOX = ("sentinelbox/strict", "sentinelbox/datascience", "sentinelbox/web")
MOST_INSTRUCTIONS = 4096


def calls(names: str) -> set[str]:
    return set(names.split())


KILLED_EVERYWHERE = calls(
    "mount umount2 pivot_root setns unshare reboot init_module finit_module delete_module kexec_load bpf"
)
KILLED_IN_STRICT = KILLED_EVERYWHERE | calls(
    "ptrace create_module swapon swapoff iopl ioperm perf_event_open userfaultfd"
)


def killed(name: str) -> set[str]:
    policy = compile_policy(load_profile(name), "x86_64")
    return {
        rule.syscall
        for rules in policy.rules.values()
        for rule in rules
        if rule.action.kind is ActionKind.KILL
    }


def test_these_profiles_ship() -> None:
    assert set(NAMES) == {*OWN, *SENTINELBOX}
    assert NAMES[0] == "strict"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", ARCHITECTURES, ids=lambda machine: machine.machine)
def test_it_compiles_on_every_machine(name: str, machine: object) -> None:
    policy = compile_policy(load_profile(name), machine.machine)  # type: ignore[attr-defined]
    assert set(policy.rules) == set(policy.architecture.names)
    assert all(rules[-1].tests == () for rules in policy.rules.values())
    assert policy.filter_rules()


@pytest.mark.parametrize("name", NAMES)
def test_its_filter_is_what_it_says(name: str) -> None:
    policy = compile_policy(load_profile(name), os.uname().machine)
    for threads in (False, True):
        program = build_filter(policy, threads=threads)
        assert first_mismatch(program, measured_policy(policy, threads=threads)) is None
    assert len(program) // 8 < MOST_INSTRUCTIONS // 4


@pytest.mark.parametrize("name", OWN)
def test_every_rule_has_a_comment(name: str) -> None:
    for rule in load_profile(name).syscall_rules:
        assert len(rule.comment) > 10, rule.place


@pytest.mark.parametrize("name", OWN)
def test_it_is_an_allowlist_with_a_description(name: str) -> None:
    profile = load_profile(name)
    assert profile.default_action.kind is ActionKind.NOTIFY
    assert profile.description


def test_no_call_is_named_twice_in_strict_without_a_reason() -> None:
    """A call in two rules is either told apart by its arguments, or one of the rules never holds."""
    seen: dict[str, str] = {}
    for rule in load_profile("strict").syscall_rules:
        for call in rule.syscalls if not rule.region else ():
            assert call not in seen, (call, seen.get(call), rule.place)
            seen[call] = rule.place


def test_strict_kills_what_sentinelboxs_strict_kills() -> None:
    assert killed("strict") == killed("sentinelbox/strict") == KILLED_IN_STRICT


@pytest.mark.parametrize("name", ["datascience", "web"])
def test_the_others_kill_sentinelboxs_thirteen_but_what_libraries_probe(name: str) -> None:
    assert killed(name) == KILLED_EVERYWHERE
    assert killed(f"sentinelbox/{name}") == KILLED_EVERYWHERE | {"ptrace", "perf_event_open"}


@pytest.mark.parametrize(
    ("name", "rules", "memory", "processors", "pids"),
    [
        ("strict", {"NOTIFY": 6, "KILL": 19, "ERRNO(EPERM)": 3}, 128 << 20, 1, 32),
        ("datascience", {"NOTIFY": 2, "KILL": 13, "ERRNO(EPERM)": 1}, 1 << 30, 2, 128),
        ("web", {"NOTIFY": 4, "KILL": 13, "ERRNO(EPERM)": 1}, 256 << 20, 1, 64),
    ],
)
def test_sentinelboxs_profiles_mean_what_they_meant(
    name: str, rules: dict[str, int], memory: int, processors: int, pids: int
) -> None:
    profile = load_profile(f"sentinelbox/{name}")
    counted: dict[str, int] = {}
    for rule in profile.syscall_rules:
        counted[str(rule.action)] = counted.get(str(rule.action), 0) + len(rule.syscalls)
    assert counted == rules
    assert profile.default_action.kind is ActionKind.ALLOW
    assert profile.filesystem.allow_write_overlay
    resolved = profile.resources.resolve(1 << 40, 64)
    assert (resolved.memory_bytes, resolved.cpu_count, resolved.pids) == (memory, processors, pids)


def test_sentinelboxs_profiles_keep_their_form() -> None:
    keys = {"name", "description", "default_action", "syscall_rules", "resources", "network", "filesystem"}
    for name in SENTINELBOX:
        path = Path(shipped_directory("profiles"), *name.split("/")).with_suffix(".json")
        document = json.loads(path.read_text())
        assert {key for key in document if not key.startswith("_note_")} == keys
        assert any(key.startswith("_note_") for key in document)
        for rule in document["syscall_rules"]:
            assert set(rule) <= {"name", "action", "errno"}


def test_the_shipped_limits_are_sized_for_notebooks() -> None:
    strict = load_profile("strict").resources.resolve(64 << 30, 16)
    assert (strict.memory_bytes, strict.cpu_count, strict.pids) == (1 << 30, 1, 128)
    data = load_profile("datascience").resources.resolve(64 << 30, 16)
    assert (data.memory_bytes, data.cpu_count, data.pids) == (32 << 30, None, 4096)
    assert data.wall_seconds is data.cpu_seconds is strict.wall_seconds is None
    for limits in (strict, data):
        sizes = (limits.disk_bytes, limits.tmp_bytes, limits.shm_bytes)
        assert all(size is not None for size in sizes)
        assert sum(size or 0 for size in sizes) < (limits.memory_bytes or 0)


def test_fixed_rules_name_real_calls() -> None:
    for fixed in (*FLOOR, *WORKER_NEEDS):
        assert fixed.reason
        for call in fixed.syscalls:
            assert is_known_anywhere(call), call


@pytest.mark.parametrize("name", NAMES)
def test_what_an_idle_worker_and_the_scientific_stack_call_needs_no_supervisor(name: str) -> None:
    """The calls of traced runs: ipykernel's start and idle, numpy, pandas, matplotlib, torch, git, gcc ..."""
    policy = compile_policy(load_profile(name), "x86_64")
    traced = calls(
        "access arch_prctl brk chdir chmod clock_nanosleep close close_range copy_file_range creat dup dup2 "
        "epoll_create1 epoll_ctl epoll_wait eventfd2 execve exit exit_group faccessat2 fadvise64 fallocate fchdir "
        "fchmod fchmodat fchown fcntl fdatasync flock fstat fstatfs fsync ftruncate futex get_mempolicy getcwd "
        "getdents64 getegid geteuid getgid getgroups getpeername getpgid getpgrp getpid getppid getpriority "
        "getrandom getrusage getsockname getsockopt gettid getuid getxattr kill lgetxattr link listen listxattr "
        "lseek lstat madvise mbind memfd_create mkdir mmap mprotect mremap munmap newfstatat open openat pipe2 "
        "poll prctl pread64 prlimit64 pselect6 pwrite64 read readlink recvfrom recvmsg rename renameat2 rmdir rseq "
        "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigsuspend sched_getaffinity sched_getparam "
        "sched_getscheduler sched_setaffinity sched_setscheduler sched_yield sendfile sendmsg sendto "
        "set_mempolicy set_robust_list set_tid_address setitimer setpgid setpriority setsid setsockopt "
        "sigaltstack stat statfs statx symlink symlinkat sysinfo tgkill timer_create timer_settime umask uname "
        "unlink unlinkat utimensat vfork wait4 waitid write accept4 cachestat"
    )
    arch = policy.architecture.audit_arch
    for call in traced:
        decision = policy.decide(arch, policy.architecture.syscalls[call], (0,) * 6)
        assert decision.action.kind is ActionKind.ALLOW, call
    socket, bind = (policy.architecture.syscalls[call] for call in ("socket", "bind"))
    assert policy.decide(arch, socket, (1, 0x80001, 0, 0, 0, 0)).action.kind is ActionKind.ALLOW
    assert policy.decide(arch, bind, (3, 0x7FFF, 110, 0, 0, 0)).action.kind is ActionKind.ALLOW
    thread_flags = 0x3D0F00
    clone = policy.architecture.syscalls["clone"]
    assert policy.decide(arch, clone, (thread_flags, 0, 0, 0, 0, 0)).action.kind is ActionKind.ALLOW


@pytest.mark.parametrize("name", OWN[1:])
def test_local_connections_are_not_held(name: str) -> None:
    policy = compile_policy(load_profile(name), "x86_64")
    for length in (2, 3, 20, 27, 29, 110):
        decision = policy.decide(policy.architecture.audit_arch, 42, (3, 1, length, 0, 0, 0))
        assert decision.action.kind is ActionKind.ALLOW
    for length in (16, 28):
        decision = policy.decide(policy.architecture.audit_arch, 42, (3, 1, length, 0, 0, 0))
        assert decision.action.kind is ActionKind.LOG
