"""The command line: install the kernel, try this machine, list the profiles, explain what one does."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from socket import AF_INET, SOCK_STREAM
from typing import TYPE_CHECKING, Any

from sentinel_kernel import __version__
from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sentinel_kernel.policy.profile import Profile

KERNEL_NAME = "sentinel"
DISPLAY_NAME = "Python 3 (Sentinel)"


def kernel_specification(
    python: str, display_name: str = DISPLAY_NAME, profile: str | None = None
) -> dict[str, Any]:
    """Return the contents of kernel.json for the interpreter ``python``.

    ``-P`` keeps the notebook's folder off the host's import path: what a cell writes there must never run
    outside the sandbox. ``-E`` does the same for PYTHON* variables. ``profile`` is the profile a new kernel
    starts with.
    """
    return {
        "argv": [python, "-P", "-E", "-m", "sentinel_kernel", "-f", "{connection_file}"],
        "display_name": display_name,
        "env": {"SENTINEL_PROFILE": profile} if profile else {},
        "interrupt_mode": "message",
        "kernel_protocol_version": "5.5",
        "language": "python",
        "metadata": {"debugger": True},
    }


def install(
    *,
    user: bool,
    prefix: str | None,
    name: str | None,
    display_name: str | None,
    profile: str | None,
) -> str:
    """Write the kernelspec where Jupyter looks for it and return its folder.

    Without ``user`` and ``prefix`` it goes to the system's folder, as with Jupyter's own commands. argv holds
    the absolute path of this interpreter, so that a server in another environment starts the right one.

    Raises:
        ProfileError: ``profile`` does not exist or can't be used.
        SentinelError: the name is not one of a kernel, or the folder can't be written.

    """
    from jupyter_client.kernelspec import KernelSpecManager  # noqa: PLC0415 - slow, and only needed here

    from sentinel_kernel.policy.shipped import shipped_directory  # noqa: PLC0415

    if profile is not None:
        _load(profile)
    if name is None:
        name = f"{KERNEL_NAME}-{profile.replace('/', '-')}" if profile else KERNEL_NAME
    if not re.fullmatch(r"[a-z0-9._-]+", name, re.IGNORECASE):
        raise SentinelError(
            f"{name!r} can't be the name of a kernel.", "Use letters, digits, '.', '_' and '-' only."
        )
    if display_name is None:
        display_name = f"Python 3 (Sentinel, {profile})" if profile else DISPLAY_NAME
    specification = kernel_specification(sys.executable, display_name, profile)
    with tempfile.TemporaryDirectory(prefix="sentinel-kernelspec-") as directory:
        shipped = shipped_directory("kernelspec")
        for logo in os.listdir(shipped):
            if logo.startswith("logo-"):
                shutil.copyfile(os.path.join(shipped, logo), os.path.join(directory, logo))
        with open(os.path.join(directory, "kernel.json"), "w", encoding="utf-8") as file:
            file.write(kernel_json(specification))
        # TemporaryDirectory is 0700, and the copy keeps that: a kernelspec is for everybody to read.
        os.chmod(directory, 0o755)  # noqa: S103
        try:
            path: str = KernelSpecManager().install_kernel_spec(directory, name, user=user, prefix=prefix)
        except OSError as error:
            raise SentinelError(
                f"The kernelspec can't be written: {error}.",
                "Install it for yourself with --user, or into this environment with --sys-prefix.",
            ) from error
    return path


def kernel_json(specification: dict[str, Any]) -> str:
    """Return ``specification`` as the text of kernel.json."""
    return json.dumps(specification, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _load(name: str) -> Profile:
    from sentinel_kernel.kernel.settings import profile_directories  # noqa: PLC0415
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

    return load_profile(name, profile_directories(os.environ))


def _install(arguments: argparse.Namespace) -> int:
    prefix = sys.prefix if arguments.sys_prefix else arguments.prefix
    path = install(
        user=arguments.user,
        prefix=prefix,
        name=arguments.name,
        display_name=arguments.display_name,
        profile=arguments.profile,
    )
    print(f"Installed the kernelspec in {path}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from sentinel_kernel import doctor  # noqa: PLC0415

    return doctor.main(as_json=arguments.json)


def _profiles(_: argparse.Namespace) -> int:
    from sentinel_kernel.kernel.settings import profile_directories  # noqa: PLC0415
    from sentinel_kernel.policy.profile import list_profiles  # noqa: PLC0415

    for name in list_profiles(profile_directories(os.environ)):
        print(_summary(_load(name)))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415
    from sentinel_kernel.policy.explain import explain  # noqa: PLC0415

    print(explain(compile_policy(_load(arguments.profile), os.uname().machine), arguments.syscall))
    return 0


def _summary(profile: Profile) -> str:
    """Return what one profile allows, for a person, in a few lines."""
    from sentinel_kernel.policy.action import ActionKind  # noqa: PLC0415
    from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415

    policy = compile_policy(profile, os.uname().machine)
    by_kind: dict[ActionKind, list[str]] = {}
    for rules in policy.rules.values():
        by_kind.setdefault(rules[-1].action.kind, []).append(rules[-1].syscall)
    arguments = [AF_INET, SOCK_STREAM, 0, 0, 0, 0]
    number = policy.architecture.syscalls["socket"]
    refused = policy.decide(policy.architecture.audit_arch, number, arguments).action.refuses
    fatal = ", ".join(sorted(by_kind.get(ActionKind.KILL, []))) or "none"
    shown = [f"{mount.path} ({mount.mode})" for mount in profile.filesystem.mounts]
    writes = "writes are held in the sandbox" if profile.filesystem.allow_write_overlay else "read-only"
    lines = [
        f"limits   {', '.join(_limits(profile)) or 'none'}",
        f"network  {'none' if refused else 'the sandbox alone: no other machine, no service of this one'}",
        f"files    {', '.join([f'the folder of the notebook ({writes})', *shown])}",
        f"calls    {len(by_kind.get(ActionKind.ALLOW, []))} allowed; these end the process: {fatal}",
    ]
    return "\n  ".join([profile.name, profile.description, *lines]) + "\n"


def _limits(profile: Profile) -> Iterator[str]:
    resources = profile.resources
    memory = resources.memory_bytes
    if isinstance(memory, str):
        yield f"{memory} of the free memory"
    elif memory is not None:
        yield f"{_size(memory)} of memory"
    if resources.cpu_count is not None:
        yield f"{resources.cpu_count} processor{'' if resources.cpu_count == 1 else 's'}"
    elif resources.cpu_quota is not None:
        yield f"{resources.cpu_quota:g} processors"
    if resources.pids is not None:
        yield f"{resources.pids} processes and threads"
    if isinstance(resources.disk_bytes, int):
        yield f"{_size(resources.disk_bytes)} of files"
    for name, seconds in (("wall", resources.wall_seconds), ("processor", resources.cpu_seconds)):
        if seconds is not None:
            yield f"{seconds} s of {name} time a cell"


def _size(number: int) -> str:
    """Return a number of bytes in the largest unit that divides it well enough to be read."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.4g} {unit}"
    return f"{number} B"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sentinel-kernel",
        description="A Jupyter kernel that runs cells in a rootless Linux sandbox and explains each refusal.",
    )
    parser.add_argument("--version", action="version", version=f"sentinel-kernel {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    command = commands.add_parser("install", help="put the kernelspec where Jupyter looks for it")
    place = command.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user")
    place.add_argument("--sys-prefix", action="store_true", help="into this Python environment")
    place.add_argument("--prefix", metavar="P", help="into the environment P")
    command.add_argument("--name", metavar="N", help=f"the kernel's name (default: {KERNEL_NAME})")
    command.add_argument(
        "--display-name", metavar="D", help=f"what the launcher shows (default: {DISPLAY_NAME})"
    )
    command.add_argument("--profile", metavar="P", help="the profile a new kernel starts with")
    command.set_defaults(run=_install)

    command = commands.add_parser("doctor", help="try each mechanism on this machine, and say what to repair")
    command.add_argument("--json", action="store_true", help="print the results as JSON")
    command.set_defaults(run=_doctor)

    command = commands.add_parser("profiles", help="list the profiles and what each allows")
    command.set_defaults(run=_profiles)

    command = commands.add_parser("explain", help="tell what a profile does with a system call, and why")
    command.add_argument("profile", metavar="PROFILE")
    command.add_argument("syscall", metavar="SYSCALL", nargs="?")
    command.set_defaults(run=_explain)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 refused with a reason, 2 wrong usage."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except SentinelError as error:
        print(f"sentinel-kernel: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `sentinel-kernel explain strict | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
