"""`sentinel-kernel lab-config` on the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's own, which has no public name
    """Add the command to the parser."""
    command = commands.add_parser(
        "lab-config", help="write what a lab needs around the kernel, to look at and install"
    )
    command.add_argument("--output", metavar="DIR", required=True, help="the folder to write to")
    command.add_argument(
        "--profile", metavar="P", default="strict", help="the profile of every kernel (strict)"
    )
    command.add_argument(
        "--ceiling", metavar="P", help="the widest profile that a cell may switch to (none: locked)"
    )
    command.add_argument(
        "--ask", choices=("never", "person"), default="never", help="who answers ASK rules (never)"
    )
    command.add_argument("--force", action="store_true", help="replace files that are there")
    command.set_defaults(run=_lab_config)


def _lab_config(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.kernel.settings import profile_directories  # noqa: PLC0415 - each command imports its own
    from sentinel_kernel.lab_setup import own_profiles, what_to_do, write_lab  # noqa: PLC0415
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415

    directories = profile_directories(os.environ)
    named = list(filter(None, (arguments.profile, arguments.ceiling)))
    for name in named:
        load_profile(name, directories)
    written = write_lab(
        arguments.output,
        arguments.profile,
        arguments.ceiling or arguments.profile,
        locked=arguments.ceiling is None,
        ask=arguments.ask,
        force=arguments.force,
    )
    print("\n".join(f"Wrote {path}" for path in written))
    print(what_to_do(arguments.output, own_profiles(named, directories)))
    return 0
