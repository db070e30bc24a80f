"""`sentinel-kernel mcp` on the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.settings import DEFAULT_PROFILE, profile_directories

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's own, which has no public name
    """Add the command to the parser."""
    command = commands.add_parser(
        "mcp",
        help="serve an AI assistant: run its code in sandboxed kernels (MCP on standard input and output)",
    )
    command.add_argument(
        "--workspace", metavar="DIR", default=".", help="the folder that cells see (default: the current one)"
    )
    command.add_argument(
        "--profile",
        metavar="P",
        help="the profile that kernels start with (default: SENTINEL_PROFILE, else strict)",
    )
    command.add_argument(
        "--kernel",
        metavar="N",
        default="sentinel",
        help="another kernelspec of ours (`sentinel-kernel list`)",
    )
    command.add_argument(
        "--max-kernels", metavar="N", type=int, default=4, help="how many kernels may run at a time (4)"
    )
    command.add_argument(
        "--idle-minutes", metavar="M", type=float, default=15.0, help="when an unused kernel is ended (15)"
    )
    command.set_defaults(run=_mcp)


def _mcp(arguments: argparse.Namespace) -> int:
    from sentinel_kernel.policy.profile import load_profile  # noqa: PLC0415 - each command imports its own

    workspace = os.path.realpath(arguments.workspace)
    if not os.path.isdir(workspace):
        raise SentinelError(f"{workspace} is no folder.", "Name one that exists with --workspace.")
    if arguments.max_kernels < 1 or not arguments.idle_minutes > 0:
        raise SentinelError("--max-kernels and --idle-minutes must be more than nothing.")
    profile = arguments.profile or os.environ.get("SENTINEL_PROFILE") or DEFAULT_PROFILE
    load_profile(profile, profile_directories(os.environ))
    try:
        from sentinel_kernel.mcp.kernel_pool import PoolOptions  # noqa: PLC0415
        from sentinel_kernel.mcp.server import serve  # noqa: PLC0415 - the extra `mcp`
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("sentinel_kernel"):
            raise
        raise SentinelError(
            f"The Python package '{error.name}' is not installed.",
            "Install it with: pip install 'sentinel-jupyter-kernel[mcp]'.",
        ) from None
    return serve(
        PoolOptions(
            workspace=workspace,
            profile=profile,
            kernel=arguments.kernel,
            maximum=arguments.max_kernels,
            idle_seconds=arguments.idle_minutes * 60,
        )
    )
