"""The command line: install the kernel, try this machine, list the profiles, explain what one does."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel import __version__
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import DEFAULT_PROFILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.profile import Profile


def _load(name: str) -> Profile:
    from sentinel_kernel.kernel.settings import profile_directories  # noqa: PLC0415
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

    return load_profile(name, profile_directories(os.environ))


def _install(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.kernelspecs import install  # noqa: PLC0415 - each command imports what it needs

    if arguments.profile is not None:
        _load(arguments.profile)
    path = install(
        user=arguments.user,
        prefix=sys.prefix if arguments.sys_prefix else arguments.prefix,
        name=arguments.name,
        display_name=arguments.display_name,
        profile=arguments.profile,
        python=arguments.python,
    )
    print(f"Installed the kernelspec in {path}")
    return 0


def _list(_: argparse.Namespace) -> int:
    from sentinel_kernel.kernelspecs import installed  # noqa: PLC0415
    from sentinel_kernel.supervisor.interpreter import ask  # noqa: PLC0415

    status = 0
    for entry in installed():
        lines = [f"{entry.name}  {entry.display_name}", f"folder   {entry.folder}"]
        lines.append(f"cells    {entry.python or 'the Python of Sentinel Kernel itself'}")
        lines.append(f"profile  {entry.profile or DEFAULT_PROFILE}")
        try:
            if entry.profile:
                _load(entry.profile)
            if entry.python:
                ask(entry.python)
        except SentinelError as error:
            lines.append(f"BROKEN   {error}")
            status = 1
        print("\n  ".join(lines) + "\n")
    return status


def _doctor(arguments: argparse.Namespace) -> int:
    from sentinel_kernel import doctor  # noqa: PLC0415

    return doctor.main(as_json=arguments.json)


def _profiles(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.kernel.settings import profile_directories  # noqa: PLC0415
    from sentinel_kernel.policy.profile import NAME_REMEDY, list_profiles, misnamed_files  # noqa: PLC0415

    if arguments.names:
        print("\n".join(_summary(_load(name)) for name in arguments.names))
        print(f"sentinel-kernel explain {arguments.names[0]} [SYSCALL] tells what it does with system calls.")
        return 0
    status = 0
    for name in list_profiles(profile_directories(os.environ)):
        try:
            print(_summary(_load(name)))
        except (SentinelError, OSError) as error:  # it must not hide those that come after it
            print(f"{name}\n  BROKEN   {error}\n")
            status = 1
    for path in misnamed_files(profile_directories(os.environ)):
        print(f"{path!r}\n  BROKEN   No profile has such a name. {NAME_REMEDY}\n")
        status = 1
    return status


def _explain(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415
    from sentinel_kernel.policy.explain import explain  # noqa: PLC0415

    print(explain(compile_policy(_load(arguments.profile), os.uname().machine), arguments.syscall))
    return 0


def _summary(profile: Profile) -> str:
    """Return what one profile allows, for a person, in a few lines."""
    from sentinel_kernel.policy.compiled import compile_policy  # noqa: PLC0415
    from sentinel_kernel.policy.in_words import BY_ARGUMENTS, calls, counted, limits, network  # noqa: PLC0415

    policy = compile_policy(profile, os.uname().machine)
    groups = calls(policy)
    allowed, varying = len(groups.get("ALLOW", [])), len(groups.get(BY_ARGUMENTS, []))
    fatal = ", ".join(groups.get("KILL", [])) or "none"
    shown = [f"{mount.path} ({mount.mode})" for mount in profile.filesystem.mounts]
    files = profile.filesystem
    writes = "writes are held in the sandbox" if files.allow_write_overlay else "read-only"
    if files.allow_write_overlay and files.commit == "new":
        writes = "new files reach it, other writes are held in the sandbox"
    lines = [
        f"limits   {', '.join(limits(profile.resources)) or 'none'}",
        f"network  {network(policy)}",
        f"files    {', '.join([f'the folder of the notebook ({writes})', *shown])}",
        f"calls    {counted(allowed)} allowed, {varying} judged {BY_ARGUMENTS}; these end the sandbox: {fatal}",
    ]
    return "\n  ".join([profile.name, profile.description, *lines]) + "\n"


class _Parser(argparse.ArgumentParser):
    """A parser whose commands, made as parsers of the same class, tell of too much in their own usage."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: ANN401 - argparse's
        """Parse; what is left over is of the command that was named, not of the whole program."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return parsed, left


def _parser() -> argparse.ArgumentParser:
    from sentinel_kernel.cli_audit import add_commands  # noqa: PLC0415 - as above

    parser = _Parser(
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
    command.add_argument(
        "--name", metavar="N", help="the kernel's name (default: sentinel, and what the options say)"
    )
    command.add_argument(
        "--display-name", metavar="D", help="what the launcher shows (default: Python 3 (Sentinel))"
    )
    command.add_argument("--profile", metavar="P", help="the profile a new kernel starts with")
    command.add_argument(
        "--python", metavar="PATH", help="the interpreter that runs cells: a venv or conda environment's"
    )
    command.set_defaults(run=_install)

    command = commands.add_parser("list", help="list the installed kernelspecs, and whether each can work")
    command.set_defaults(run=_list)

    command = commands.add_parser("doctor", help="try each mechanism on this machine, and say what to repair")
    command.add_argument("--json", action="store_true", help="print the results as JSON")
    command.set_defaults(run=_doctor)

    command = commands.add_parser("profiles", help="list the profiles and what each allows")
    command.add_argument("names", metavar="NAME", nargs="*", default=[], help="these alone (default: all)")
    command.set_defaults(run=_profiles)

    command = commands.add_parser("explain", help="tell what a profile does with a system call, and why")
    command.add_argument("profile", metavar="PROFILE")
    command.add_argument("syscall", metavar="SYSCALL", nargs="?")
    command.set_defaults(run=_explain)

    command = commands.add_parser("audit", help="look up what ran, what was refused and what was used")
    add_commands(command)
    from sentinel_kernel import cli_artifacts, cli_lab, cli_mcp, cli_scan, cli_wheels  # noqa: PLC0415 - as above

    cli_artifacts.add_commands(commands)
    cli_lab.add_commands(commands)
    cli_mcp.add_commands(commands)
    cli_scan.add_commands(commands)
    cli_wheels.add_commands(commands)
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
