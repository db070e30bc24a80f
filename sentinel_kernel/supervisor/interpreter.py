"""The interpreter that a worker runs: which folders it needs, and whether it can be a worker at all.

The host's own is known. Any other one is asked, by running it outside the sandbox: never one that cells could have
changed. Its answer is kept as long as nothing of what it came from has changed.
"""

from __future__ import annotations

import json
import os

from sentinel_kernel.errors import BootError
from sentinel_kernel.policy.plan import PythonPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

OLDEST_PYTHON = (3, 10)
"""Dataclasses with slots, which the worker's side uses, came with 3.10."""

OLDEST_IPYKERNEL = (6, 29)
"""The oldest one that is tested; since 6.29 its parts are where the worker's side extends them."""

_SECONDS = 20
# Any Python understands this, so that one that is too old is told apart from what is no Python; a shell ends at the
# first line. The answer is the last line: a site's customization may print.
_PROBE = """
exit = 0
import json, sys
try:
    from importlib.metadata import version
    ipykernel = version("ipykernel")
except Exception:
    ipykernel = ""
print(json.dumps({
    "executable": sys.executable, "prefix": sys.prefix, "base_prefix": getattr(sys, "base_prefix", sys.prefix),
    "module_directories": [path for path in sys.path if path], "version": list(sys.version_info[:3]),
    "ipykernel": ipykernel,
}))
"""
_REINSTALL = "Check the path; `sentinel-kernel install --python PATH` makes a kernel for another one."


def python_paths(
    executable: str, known: Mapping[str, Any] | None, cache: str = "", writable: Iterable[str] = ()
) -> PythonPaths:
    """Return the folders of the interpreter ``executable``.

    ``known`` is what the host said of its own interpreter; another one is asked, see ``ask``.

    Raises:
        BootError: it can't be run, does not answer, or can't be a worker.

    """
    if known is None:
        for folder in writable:
            if any(_is_within(path, folder) for path in (executable, os.path.realpath(executable))):
                raise _error(
                    f"Cells may write to {folder}, where the interpreter {executable} is.",
                    "It is asked for its folders outside the sandbox: show that folder read-only in the profile.",
                )
        known = ask(executable, cache)
        executable = known["executable"]
    directories = tuple(
        dict.fromkeys(
            real
            for path in known["module_directories"]
            if os.path.isdir(path) and (real := os.path.realpath(path)) not in ("/", "")
        )
    )
    return PythonPaths(
        # Not resolved: a virtual environment is found by the path of its own link.
        executable=executable,
        prefix=os.path.realpath(known["prefix"]),
        base_prefix=os.path.realpath(known["base_prefix"]),
        module_directories=directories,
    )


def ask(executable: str, cache: str = "") -> dict[str, Any]:
    """Return what the interpreter ``executable`` says of itself; its answer is kept in the folder ``cache``, if any.

    The answer has ``executable`` (a path that is seen inside the sandbox too), ``prefix``, ``base_prefix``,
    ``module_directories``, ``version`` and ``ipykernel`` (its version).

    Raises:
        BootError: it can't be run, does not answer, or is too old, or has no ipykernel, or one that is too old.

    """
    answer = _kept(executable, cache)
    if answer is None:
        answer = _run(executable)
        _check(executable, answer)
        answer["executable"] = _seen_inside(answer)
        if cache:
            _keep(executable, cache, answer)
    return answer


def _run(executable: str) -> dict[str, Any]:
    import subprocess  # noqa: PLC0415 - only for another interpreter; it takes long to import

    if not os.path.exists(executable):
        raise _error(f"There is no interpreter {executable}.", _REINSTALL)
    if os.path.isdir(executable):
        inside = os.path.join(executable, "bin", "python")
        remedy = f"Its interpreter is {inside}." if os.path.exists(inside) else _REINSTALL
        raise _error(f"{executable} is a folder, not an interpreter.", remedy)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            [executable, "-E", "-c", _PROBE],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=environment,
        )
    except OSError as error:
        raise _error(f"{executable} can't be run: {error.strerror}.", _REINSTALL, error.errno or 0) from None
    except subprocess.TimeoutExpired:
        raise _error(f"{executable} did not answer within {_SECONDS} s.", _REINSTALL) from None
    try:
        answer = json.loads(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
        return {
            "executable": str(answer["executable"]),
            "prefix": str(answer["prefix"]),
            "base_prefix": str(answer["base_prefix"]),
            "module_directories": [str(path) for path in answer["module_directories"]],
            "version": [int(part) for part in answer["version"]],
            "ipykernel": str(answer["ipykernel"]),
        }
    except (ValueError, KeyError, TypeError):
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        what = f"{executable} is no Python interpreter" + (f" (it says: {said[:200]})." if said else ".")
        raise _error(what, _REINSTALL) from None


def _check(executable: str, answer: Mapping[str, Any]) -> None:
    version, ipykernel = tuple(answer["version"]), str(answer["ipykernel"])
    if version[:2] < OLDEST_PYTHON:
        raise _error(
            f"{executable} is Python {_dotted(version)}; cells need {_dotted(OLDEST_PYTHON)} or newer.",
            "Make the environment anew with a newer Python.",
        )
    if not ipykernel:
        raise _error(
            f"{executable} has no ipykernel.", f"Install it there: {executable} -m pip install ipykernel"
        )
    if _numbers(ipykernel) < OLDEST_IPYKERNEL:
        raise _error(
            f"{executable} has ipykernel {ipykernel}; cells need {_dotted(OLDEST_IPYKERNEL)} or newer.",
            f"Update it there: {executable} -m pip install --upgrade ipykernel",
        )


def _seen_inside(answer: Mapping[str, Any]) -> str:
    """Return the interpreter's path, resolved where it is a link from a folder that the sandbox does not show."""
    executable = str(answer["executable"])
    shown = [answer["prefix"], answer["base_prefix"], "/usr"]
    if any(_is_within(executable, folder) for folder in shown):
        return executable
    return os.path.realpath(executable)


def _kept(executable: str, cache: str) -> dict[str, Any] | None:
    if not cache:
        return None
    try:
        with open(_file(executable, cache), encoding="utf-8") as file:
            kept = json.load(file)
        answer: dict[str, Any] = kept["answer"]
        return answer if kept["stamp"] == _stamp(executable, answer) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # never asked, or written by another version


def _keep(executable: str, cache: str, answer: dict[str, Any]) -> None:
    path = _file(executable, cache)
    try:
        os.makedirs(cache, mode=0o700, exist_ok=True)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            json.dump({"stamp": _stamp(executable, answer), "answer": answer}, file)
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        return  # a full or read-only cache: it is asked again the next time


def _file(executable: str, cache: str) -> str:
    import hashlib  # noqa: PLC0415 - only for another interpreter

    return os.path.join(cache, f"{hashlib.sha256(os.fsencode(executable)).hexdigest()[:32]}.json")


def _stamp(executable: str, answer: Mapping[str, Any]) -> list[Any]:
    """Return what changes with the answer: the interpreter, its configuration, and what is installed."""
    places = [
        executable,
        os.path.join(answer["prefix"], "pyvenv.cfg"),
        *(path for path in answer["module_directories"] if path.endswith("-packages")),
    ]
    return [os.path.realpath(executable), *(_modified_ns(path) for path in places)]


def _modified_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in version.split(".")[:2])


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _error(message: str, remedy: str, number: int = 0) -> BootError:
    return BootError("find_python", number, message, remedy)
