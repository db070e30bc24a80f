"""Commands for a terminal of the host that give a cell what it lacks: a package, or a copy of a file or a program."""

from __future__ import annotations

import ast
import os.path
import re
import shlex

from sentinel_kernel.policy.cell_source import CellSource, words
from sentinel_kernel.policy.network import parse_rule
from sentinel_kernel.policy.packages import canonical, distribution_of, meant_by
from sentinel_kernel.policy.repair_paths import copied_program, copied_reads
from sentinel_kernel.policy.resource import NETWORK, OUTSIDE_NETWORK
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.policy.typed_installs import typed_install
from sentinel_kernel.policy.violation import Remedy, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.profile import Network
    from sentinel_kernel.policy.violation import Violation

_REACHES = (NETWORK, OUTSIDE_NETWORK, NAME_LOOKUP)

_INSTALL = Text(
    "Run it in a terminal of the host: it installs into the environment that cells run in. The next import finds it.",
    "请在主机终端中运行：它会安装到单元格所用的环境中。之后即可直接 import。",
)
INSTALL_UNSURE = Text(
    "Only if you know this package: installing it runs outside the sandbox, and its name was taken from the import. "
    "Run it in a terminal of the host; the next import finds it.",
    "仅在您了解此软件包时使用：安装在沙箱外进行，且名称取自 import 语句。请在主机终端中运行，之后即可直接 import。",
)
INSTALL_TYPED = Text(
    "Only if you know this package: installing it runs outside the sandbox, into the environment that cells run in. "
    "Run it in a terminal of the host, and restart the kernel then.",
    "仅在您了解此软件包时使用：安装在沙箱外进行，装入单元格所用的环境。请在主机终端中运行，之后重启内核。",
)
INSTALL_INSIDE = Text(
    "It is installed inside the sandbox, and stays until that ends; the variables stay.",
    "它会安装在沙箱内，保留到沙箱结束；变量会保留。",
)
INSTALL_FETCHED = Text(
    "The host has fetched it: pip finds it here, and with --no-index asks nobody outside for more.",
    "宿主已预先下载它：pip 可在本地找到，使用 --no-index 就不会再询问外部。",
)
_INSTALLER = re.compile(r"(?:^|[\s/])(?:pip3?|__pip-runner__)(?![\w-])")
"""In the command line of the process that a line of pip becomes."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_PIP = re.compile(r"(?:^|[\s!%;&|(/])pip3?\s+install(?=\s)")

_COPY = Text(
    "Run it in a terminal of the host: it copies the file into the notebook's folder, where the changed cell reads it. "
    "Cells can read what is there. A file of the same name that is there already stays as it is.",
    "请在主机终端中运行：它将文件复制到笔记本所在文件夹，修改后的单元格从那里读取。单元格可以读取该文件夹中的内容。"
    "该文件夹中已有的同名文件保持不变。",
)
_COPY_PROGRAM = Text(
    "Run it in a terminal of the host: it copies the program into the notebook's folder; the changed cell runs it.",
    "请在主机终端中运行：它将程序复制到笔记本所在文件夹，修改后的单元格从那里运行它。",
)
_SECRETS = words(
    "/.ssh /.aws /.gnupg /.netrc /.config /.kube /.docker /.jupyter /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ "
    "/.git-credentials /.pypirc /.password-store /keyrings id_rsa id_ed25519 /.mozilla /.env /.bash_history "
    "/.python_history /.npmrc /.claude /.azure /.pki /.pgpass /.my.cnf /.vault-token /.boto /.s3cfg _history "
    "/.thunderbird /run/secrets /huggingface/token /stored_tokens /credentials id_ecdsa id_dsa /.terraform.d /.m2/ "
    ".kdbx"
)
"""Of no file with these in its name is a copy proposed."""

_OF_FOLDERS = frozenset(
    words("listdir scandir iterdir glob iglob rglob walk fwalk isdir is_dir chdir copytree")
)
_MOST_CALLS = 32
HOMES = re.compile(r"/|/[^/]+|/home/[^/]+|.*/")
"""Folders by their place: what stands in the root folder, and the homes."""


def host_commands(violation: Violation, code: str | None, leeway: Leeway) -> list[Remedy]:
    """Return the command that helps, where one does; of the sandbox's own words only a checked name is in it."""
    subject = violation.subject
    if subject is None:
        return []
    if violation.cause == "package_absent":
        return _install(violation, subject.text, leeway)
    if not code or not leeway.workspace or is_secret(subject.text):
        return []
    if violation.cause == "program_absent" and "/" not in subject.text:
        return _copy_program(subject.text, code, leeway)
    return _copy_file(violation, code, leeway) if violation.cause in ("path_hidden", "program_absent") else []


def typed_installs(code: str | None, line: int | None, leeway: Leeway) -> list[Remedy]:
    """Return the command that installs outside what the cell's line ``line`` (None: any) has pip install inside."""
    typed = typed_install(code, line)
    if typed is None:
        return []
    packages, known = typed
    if leeway.rung == "full" and fetched(packages, leeway):
        # The cell does what a terminal of the host would; only the look outside is left out.
        changed = without_index(code or "", packages)
        return [Remedy("code", "Install with --no-index", INSTALL_FETCHED, changed)] if changed else []
    return [
        Remedy(
            "command", f"{_python(leeway)} -m pip install {packages}", _INSTALL if known else INSTALL_TYPED
        )
    ]


def installs_instead(violation: Violation, code: str | None, leeway: Leeway) -> list[Remedy]:
    """Return the command that does outside what pip, which finds no way out of the sandbox, was to do inside."""
    reaches = violation.resource in _REACHES or violation.cause in ("name_lookup", "network_unreachable")
    process = violation.process
    if not reaches or (process is not None and not _INSTALLER.search(process.command)):
        return []
    return typed_installs(code, violation.line or violation.started_line, leeway)


def fetched(packages: str, leeway: Leeway) -> bool:
    """Tell whether the host has wheels of all ``packages``, as they are typed behind ``pip install``."""
    names = [canonical(found[0]) for word in packages.split() if (found := _NAME.match(word))]
    return bool(names) and leeway.wheels.issuperset(names)


def without_index(code: str, packages: str) -> str:
    """Return the cell whose line of pip asks no index; empty where it is not found, or does so already."""
    last = packages.rsplit(maxsplit=1)[-1]
    lines = code.split("\n")
    for number, line in enumerate(lines):
        found = _PIP.search(line)
        if found is not None and last in line:
            if "--no-index" in line:
                return ""
            lines[number] = f"{line[: found.end()]} --no-index{line[found.end() :]}"
            return "\n".join(lines)
    return ""


def _installs_inside(violation: Violation, name: str, leeway: Leeway) -> str:
    """Return the line that installs the package inside the sandbox, where that can be done; or none."""
    if leeway.rung != "full":
        return ""
    if fetched(name, leeway):
        return f"%pip install --no-index {name}"
    profile = leeway.profile(violation.profile)
    return f"%pip install {name}" if profile is not None and has_index(profile.network) else ""


def has_index(network: Network) -> bool:
    """Tell whether an index of packages can be reached: one that the profile names, or pip's own."""
    if not network.leads_out:
        return False
    if network.index:
        return True
    for text in network.hosts:
        try:
            rule = parse_rule(text)
        except ValueError:
            continue
        if rule.has_name("pypi.org"):
            return True
    return False


def _install(violation: Violation, module: str, leeway: Leeway) -> list[Remedy]:
    package = distribution_of(module)
    if package is None or meant_by(module) is not None:
        return []
    name, known = package
    if line := _installs_inside(violation, name, leeway):
        return [Remedy("magic", line, INSTALL_INSIDE)]
    return [
        Remedy("command", f"{_python(leeway)} -m pip install {name}", _INSTALL if known else INSTALL_UNSURE)
    ]


def _python(leeway: Leeway) -> str:
    return shlex.quote(leeway.python) if leeway.python else "python"


def _copy_program(name: str, code: str, leeway: Leeway) -> list[Remedy]:
    changed = copied_program(CellSource(code), name)
    command = f'cp -n -- "$(command -v {shlex.quote(name)})" {_folder(leeway)}'
    return [] if changed is None else [Remedy("command", command, _COPY_PROGRAM, changed)]


def _copy_file(violation: Violation, code: str, leeway: Leeway) -> list[Remedy]:
    cell = CellSource(code)
    copied = copied_reads(cell, violation, leeway)
    if copied is None:
        return []
    path, changed = copied
    if is_folder(cell, violation, path):
        return []
    # Without -r: a folder that nothing here shows to be one is left alone by the command itself.
    return [Remedy("command", f"cp -n -- {shlex.quote(path)} {_folder(leeway)}", _COPY, changed)]


def is_folder(cell: CellSource, violation: Violation, path: str) -> bool:
    """Tell whether ``path`` is shown to be a folder by its place, or by what the cell does with it, or in its line."""
    subject = violation.subject
    if HOMES.fullmatch(path) or (subject is not None and HOMES.fullmatch(subject.text)):
        return True
    calls = [call for call, name in cell.calls() if name.rpartition(".")[2] in _OF_FOLDERS][:_MOST_CALLS]
    return any(
        (violation.line is not None and call.lineno <= violation.line <= (call.end_lineno or call.lineno))
        or any(
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and os.path.normpath(node.value) == path
            for node in ast.walk(call)
        )
        for call in calls
    )


def _folder(leeway: Leeway) -> str:
    return shlex.quote(leeway.workspace.rstrip("/") + "/")


def is_secret(path: str) -> bool:
    """Tell whether ``path`` is one of which neither a copy nor a look is proposed."""
    normal = os.path.normpath(path)
    return any(part in normal for part in _SECRETS) or not normal.isprintable()
