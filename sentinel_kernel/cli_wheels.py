"""`sentinel-kernel wheels` on the command line: packages fetched once by the host, which every sandbox can install."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from sentinel_kernel.errors import SentinelError

if TYPE_CHECKING:
    import argparse


def add_commands(commands: Any) -> None:  # noqa: ANN401 - argparse's own, which has no public name
    """Add the command to the parser."""
    command = commands.add_parser(
        "wheels",
        help="fetch packages that cells can then `%%pip install`, under any profile",
        description=(
            "A folder of wheels that every sandbox sees, read-only, and pip and uv look into. Only wheels are fetched: "
            "nothing of a package runs outside the sandbox."
        ),
    )
    verbs = command.add_subparsers(title="verbs", required=True, metavar="VERB")
    verb = verbs.add_parser(
        "add", help="fetch packages and what they need, from the index that pip is set to"
    )
    verb.add_argument("packages", metavar="PACKAGE", nargs="+", help="as pip takes it: polars, 'polars==1.9'")
    verb.add_argument("--index-url", metavar="URL", help="fetch from this index instead")
    verb.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="the interpreter that will run the cells"
    )
    verb.set_defaults(run=_add)
    verb = verbs.add_parser("list", help="list what is there")
    verb.set_defaults(run=_list)
    verb = verbs.add_parser("remove", help="remove wheels by their names in the list")
    verb.add_argument("names", metavar="WHEEL", nargs="+")
    verb.set_defaults(run=_remove)


def _folder() -> str:
    from sentinel_kernel.supervisor.preparation import wheel_folder  # noqa: PLC0415 - each command imports its own

    return wheel_folder()


def _add(arguments: argparse.Namespace) -> int:
    folder = _folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    command = [arguments.python, "-m", "pip", "download", "--only-binary", ":all:", "--dest", folder]
    command += ["--find-links", folder, "--disable-pip-version-check"]
    if arguments.index_url:
        command += ["--index-url", arguments.index_url]
    before = set(_wheels(folder))
    if subprocess.run([*command, "--", *arguments.packages], check=False).returncode != 0:
        raise SentinelError(
            "pip could not fetch them; what it said is above.",
            "A package without a wheel for this interpreter can't be fetched: only building it would run its code.",
        )
    new = [name for name in _wheels(folder) if name not in before]
    print("\n".join([f"Fetched {len(new)} into {folder}:", *new, "Kernels that start from now on see them."]))
    return 0


def _list(_: argparse.Namespace) -> int:
    folder = _folder()
    found = _wheels(folder)
    for name in found:
        print(name)
    if not found:  # not among the names, which programs read
        print(
            f"No wheels are in {folder}: `sentinel-kernel wheels add PACKAGE` fetches some.", file=sys.stderr
        )
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    folder = _folder()
    known = _wheels(folder)
    absent = [name for name in arguments.names if name not in known]
    if absent:
        raise SentinelError(
            f"{absent[0]} is not in {folder}.", "`sentinel-kernel wheels list` shows what is."
        )
    for name in arguments.names:
        os.unlink(os.path.join(folder, name))
    return 0


def _wheels(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".whl"))
    except FileNotFoundError:
        return []
