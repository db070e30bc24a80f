"""`sentinel-kernel doctor`: what holds on this machine, what does not, why, and how to repair it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from sentinel_kernel import __version__, kernelspecs
from sentinel_kernel.environments import known_environments, read_facts, where
from sentinel_kernel.errors import BootError, ProfileError, SentinelError
from sentinel_kernel.kernel.settings import language, profile_directories
from sentinel_kernel.kernel.spawning import spawn
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.plan import PythonPaths
from sentinel_kernel.policy.profile import (
    NAME_REMEDY,
    find_profile,
    list_profiles,
    load_profile,
    misnamed_files,
)
from sentinel_kernel.policy.rung import FULL, LANDLOCK
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.probes import Finding, applicable, run_probe
from sentinel_kernel.supervisor import interpreter, protocol
from sentinel_kernel.supervisor.data_folders import data_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sentinel_kernel.environments import Environment, Facts

NONE: Final = "none"
_TRIAL_SECONDS: Final = 30.0
_TRIAL_PROFILE: Final = "strict"


def boot_a_sandbox() -> tuple[str, str]:
    """Boot a sandbox the way a notebook's is booted, run ``true`` in it; return the rung and how long it took.

    Raises:
        SentinelError: it can't be set up, or what ran in it did not end well.

    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, tempfile.TemporaryDirectory(prefix="sentinel-doctor-") as workspace:
        # As a folder of notebooks: on the landlock rung a sandbox of root's runs as an ordinary id.
        os.chmod(workspace, 0o755)  # noqa: S103 - there is nothing in it
        with theirs:
            child = spawn(theirs.fileno())
        ours.settimeout(_TRIAL_SECONDS)
        try:
            request = {
                "op": protocol.OP_START,
                "id": 1,
                "profile": _TRIAL_PROFILE,
                "workspace": workspace,
                "python": sys.executable,
                "payload": [shutil.which("true") or "/bin/true"],
            }
            protocol.send(ours, request)
            return _follow(ours)
        except TimeoutError:
            raise SentinelError(f"The supervisor said nothing for {_TRIAL_SECONDS:.0f} s.") from None
        finally:
            ours.close()  # the supervisor ends with its host, and the sandbox with the supervisor
            os.waitpid(child, 0)


def _follow(control: socket.socket) -> tuple[str, str]:
    """Read the supervisor's events until ``true`` has ended."""
    started = time.monotonic()
    seconds, rung = 0.0, FULL
    while (received := protocol.receive(control)) is not None:
        message, descriptors = received
        for descriptor in descriptors:
            os.close(descriptor)
        match message.get("event"):
            case protocol.EVENT_READY:
                seconds = time.monotonic() - started
                rung = str(message.get("rung") or FULL)
            case protocol.EVENT_UNAVAILABLE:
                raise BootError(
                    message["step"], message["errno"] or 0, message["cause_en"], message["remedy_en"]
                )
            case protocol.EVENT_WORKER_DIED:
                cause = message["cause"]
                if cause["kind"] != "exit" or cause["status"] != 0:
                    raise SentinelError(f"What ran in the sandbox did not end well: {cause}.")
                told = (
                    f"set up in {seconds * 1000:.0f} ms, `true` ran in it under the profile {_TRIAL_PROFILE}"
                )
                return rung, told if rung == FULL else f"{told}, on the {rung} rung"
    raise SentinelError("The supervisor ended without a word.", "Run it by hand to see its error output.")


def examine() -> tuple[tuple[Finding, ...], str]:
    """Run every probe that applies, then boot a sandbox; the last finding is the sandbox's. Return its rung too."""
    findings = [run_probe(probe) for probe in applicable()]
    rung = NONE
    try:
        rung, detail = boot_a_sandbox()
        ok, remedy = True, ""
    except BootError as error:
        ok, detail, remedy = False, f"step {error.step}: {error.message}", error.remedy
    except SentinelError as error:
        ok, detail, remedy = False, error.message, error.remedy
    findings += examine_own()
    sandbox = Finding("sandbox", "the sandbox", "all of it together", True, ok, detail, remedy)
    return (*findings, sandbox), rung


def examine_own() -> list[Finding]:
    """Try the person's own profiles, and the launcher's entries whose cells run in another interpreter."""
    return [*_own_profiles(), *_kernels()]


def _own_profiles() -> Iterator[Finding]:
    """Try the person's own profiles: they load, can be made a filter of, and show folders that are there."""
    folders = profile_directories(os.environ)
    for path in misnamed_files(folders):
        title, why = f"the profile {os.path.basename(path)!r}", f"No profile has such a name: {path!r}."
        yield Finding(f"profile {path}", title, "kernels that are to use it", False, False, why, NAME_REMEDY)
    for name in list_profiles(folders):
        path = find_profile(name, [*folders, shipped_directory("profiles")])
        if not path.startswith(folders):
            continue
        ok, detail, remedy = True, path, ""
        try:
            profile = load_profile(name, folders)
            compile_policy(profile, os.uname().machine)
        except ProfileError as error:
            ok, detail = False, error.message if path in error.message else f"{path}: {error.message}"
            remedy = error.remedy or f"Correct the file at {error.json_path}."
        else:
            python = PythonPaths(sys.executable, sys.prefix, sys.base_prefix, ())
            try:
                data_folders(profile, "", os.path.realpath(os.path.expanduser("~")), (), python)
            except BootError as error:
                ok, detail, remedy = False, f"{path}: {error.message}", error.remedy
        yield Finding(
            f"profile {name}", f"the profile {name}", "kernels that are to use it", False, ok, detail, remedy
        )


def _kernels() -> Iterator[Finding]:
    """Try the interpreters of the launcher's entries that run cells elsewhere."""
    for entry in kernelspecs.installed():
        if entry.python:
            ok, detail, remedy = True, f"cells run in {entry.python}", ""
            try:
                interpreter.ask(entry.python)
            except BootError as error:
                ok, detail, remedy = False, error.message, error.remedy
            title, purpose = f"the kernel {entry.name}", f"the launcher's card {entry.display_name!r}"
            yield Finding(f"kernel {entry.name}", title, purpose, False, ok, detail, remedy)


def main(*, as_json: bool) -> int:
    """Print what was found; return 0 where the sandbox boots on the full rung, 2 on a lesser one, 1 where on none."""
    findings, rung = examine()
    facts = read_facts()
    failed = [finding.name for finding in findings if not finding.ok]
    known = known_environments(facts, failed) if failed else []
    if as_json:
        print(json.dumps(_document(findings, rung, facts, known), indent=1, ensure_ascii=False))
    else:
        print(table(findings, rung, where(facts), known, language(os.environ)))
    return {FULL: 0, NONE: 1}.get(rung, 2)


def _document(
    findings: Sequence[Finding], rung: str, facts: Facts, known: Sequence[Environment]
) -> dict[str, Any]:
    return {
        "version": __version__,
        "linux": platform.release(),
        "machine": platform.machine(),
        "where": where(facts),
        "python": sys.executable,
        "uid": os.geteuid(),
        "boots": findings[-1].ok,
        "rung": rung,
        "findings": [asdict(finding) for finding in findings],
        "environments": [one.told() for one in known],
    }


_VERDICTS: Final = {
    FULL: ("The sandbox boots.", "沙箱可以启动。"),
    LANDLOCK: (
        (
            "The sandbox boots on the landlock rung, a lesser one: no network, a read-only workspace but for one "
            "folder, and the machine's own processes and file names in sight. A profile that asks for the full rung "
            "is refused."
        ),
        (
            "沙箱可以在较低的 landlock 级别启动：没有网络，除一个文件夹外工作区只读，并且能看到本机的进程和文件名。"
            "要求完整级别的配置会被拒绝。"
        ),
    ),
    NONE: (
        "The sandbox does not boot: cells would be refused.",
        "沙箱无法启动：单元格将被拒绝运行。",
    ),
}


def table(
    findings: Sequence[Finding], rung: str, place: str, known: Sequence[Environment], spoken: str
) -> str:
    """Return the table: what was found, why what is missing is, and what that means for a kernel."""
    chinese = spoken == "zh"
    repair = "修复方法" if chinese else "repair"
    width = max(len(finding.title) for finding in findings)
    python = platform.python_version()
    machine = f"Linux {platform.release()} ({platform.machine()}, {place})"
    lines = [f"Sentinel Kernel {__version__}, {machine}, Python {python}, uid {os.geteuid()}", ""]
    for finding in findings:
        tried = finding.name.startswith(("profile ", "kernel "))
        state = (
            "ok     " if finding.ok else "MISSING" if finding.needed else "BROKEN " if tried else "absent "
        )
        lines.append(f"{state}  {finding.title:{width}}  {finding.detail}")
        if not finding.ok:
            lines.append(f"{'':9}{'':{width}}  {'用途' if chinese else 'for'}: {finding.purpose}")
        if finding.remedy:
            lines.append(f"{'':9}{'':{width}}  {repair}: {finding.remedy}")
    if known:
        lines += ["", "原因与修复：" if chinese else "Known causes, and their repair:"]
    for one in known:
        lines.append(f"  {one.title}")
        lines.append(f"    {'原因' if chinese else 'cause'}: {one.cause_zh if chinese else one.cause_en}")
        lines.append(f"    {repair}: {one.repair_zh if chinese else one.repair_en}")
    return "\n".join([*lines, "", _VERDICTS[rung][chinese]])
