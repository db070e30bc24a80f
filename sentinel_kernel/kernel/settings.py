"""What the kernel was started with: its arguments, and the little of the environment that it heeds."""

from __future__ import annotations

import os
import sys

from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.lab_config import LabConfig, read_lab_config
from sentinel_kernel.kernel.lab_rule import Granted, under_lab
from sentinel_kernel.kernel.setting_values import PREFLIGHT_MODES, Chosen
from sentinel_kernel.record import Record

TYPE_CHECKING = False  # nothing slow may be imported before the supervisor is started
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_PROFILE = "strict"
DEFAULT_CEILING = "datascience"

_WORKER_VARIABLES = frozenset(
    {
        "COLUMNS",  # with LINES, how wide and long tracebacks and tables are
        "IPYKERNEL_CELL_NAME",  # what cells are called in tracebacks
        "JPY_SESSION_NAME",  # ipykernel's __session__
        "LANG",
        "LANGUAGE",
        "LINES",
        "MKL_NUM_THREADS",
        "MPLBACKEND",
        "NUMBA_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "SENTINEL_LANG",
        "TZ",
    }
)
"""The variables that reach a cell, beside LC_*. All others stay outside: tokens hide under any name."""


class Settings(Record):
    """How this kernel was started. ``workspace`` is the notebook's folder, an absolute real path."""

    connection_file: str
    worker_arguments: tuple[str, ...]
    profile: str
    ceiling: str
    """The widest profile that a magic may switch to without a question to the person ("": the default)."""

    profile_directories: tuple[str, ...]
    mapping_files: tuple[str, ...]
    """Files with words of a lab's and of the user's own, the strongest first; they need not be there."""

    named_mapping: str
    """The one among them that the user has named ("": none)."""

    language: str
    workspace: str
    environment: dict[str, str]
    python: str
    """The interpreter that runs cells: the host's own, or another one."""

    spare: bool
    """Whether a warm spare may be kept."""

    cell_summary: bool
    """Whether a line tells at each cell's end what it took."""

    parent_pid: int
    ask_seconds: float
    """How long the person may take for an answer; 0: nobody is asked."""

    lab: LabConfig | None
    """What a lab has laid down for this machine."""

    fault: SentinelError | None
    """Why no sandbox may be started."""

    notices: tuple[tuple[str, str], ...]
    """What of the user's own settings does not count, in English and Chinese."""

    preflight: str = "advise"
    """What preflight does about lines that will be refused: one of PREFLIGHT_MODES."""

    dangerous: str = "off"
    """The same about dangerous code (policy/dangerous.py)."""

    mistyped: tuple[tuple[str, str], ...] = ()
    """Which settings have a value that there is not, and what is in force, in English and Chinese."""

    commit: str = ""
    """"none": new files wait for the person whatever the profile says."""


def read_settings(arguments: Sequence[str], environment: Mapping[str, str], folder: str) -> Settings:
    """Return the settings. Raises SentinelError where there is no connection file."""
    connection_file, rest = _connection_file(arguments)
    chosen = Chosen(rest, environment)
    named = chosen.text("mappings")
    named = os.path.join(folder, os.path.expanduser(named)) if named else ""
    cell_summary = chosen.switch("cell_summary", default=False)
    commit = chosen.commit()
    # A warm spare is kept wherever no hub shares the machine.
    spare = chosen.switch(
        "spare", default=not any(name.startswith("JUPYTERHUB_") for name in environment), by_argument=False
    )
    preflight, dangerous = chosen.mode("preflight", "advise"), chosen.mode("dangerous", "off")
    parent = environment.get("JPY_PARENT_PID", "")
    lab, fault = _lab()
    granted = Granted(
        profile=environment.get("SENTINEL_PROFILE", ""),
        ceiling=environment.get("SENTINEL_CEILING", ""),
        profile_directories=profile_directories(environment),
        python=environment.get("SENTINEL_PYTHON", ""),
        ask_seconds=chosen.ask_seconds(),
        notices=(),
    )
    if lab is not None:
        granted = under_lab(lab, granted)
    return Settings(
        connection_file=connection_file,
        worker_arguments=tuple(chosen.rest),
        profile=granted.profile or DEFAULT_PROFILE,
        ceiling=granted.ceiling,
        profile_directories=granted.profile_directories,
        mapping_files=mapping_files(environment, named, lab),
        named_mapping=named,
        language=language(environment),
        workspace=os.path.realpath(folder),
        environment=worker_environment(environment),
        python=granted.python or sys.executable,
        spare=spare,
        cell_summary=cell_summary,
        parent_pid=int(parent) if parent.isdecimal() else 0,
        ask_seconds=granted.ask_seconds,
        lab=lab,
        fault=fault,
        notices=granted.notices,
        mistyped=tuple(chosen.mistyped),
        preflight=stricter(preflight, lab.preflight if lab is not None else ""),
        dangerous=stricter(dangerous, lab.dangerous if lab is not None else ""),
        commit=commit,
    )


def _lab() -> tuple[LabConfig | None, SentinelError | None]:
    try:
        return read_lab_config(), None
    except SentinelError as error:
        return None, error  # told in every cell, in place of a sandbox


def _connection_file(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the connection file and the other arguments, which are the worker's."""
    found, rest, position = "", [], 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "-f" and position + 1 < len(arguments):
            position += 1
            found = arguments[position]
        elif argument.startswith("-f="):
            found = argument[3:]
        else:
            rest.append(argument)
        position += 1
    if not found:
        raise SentinelError(
            "The kernel was started without a connection file.",
            "Start it from JupyterLab, or with: jupyter console --kernel sentinel.",
        )
    return found, rest


def stricter(first: str, second: str) -> str:
    """Return the one of two modes that does more; "" is none."""
    known = [mode for mode in PREFLIGHT_MODES if mode in (first, second)]
    return known[-1]


def mapping_files(environment: Mapping[str, str], named: str, lab: LabConfig | None) -> tuple[str, ...]:
    """Return where words of a lab's and of the user's own may be, the strongest first; locked, a lab's go first."""
    own = named or os.path.join(_own_folder(environment), "mappings.json")
    if lab is None:
        return (own,)
    labs = os.path.join(os.path.dirname(lab.path), "mappings.json")
    return (labs, own) if lab.locked else (own, labs)


def session_id(connection_file: str) -> str:
    """Return the session that every message of this kernel is headed with: its worker's as well as the host's own.

    JupyterLab takes a message for one of an earlier kernel, and drops it, if one with another session has arrived
    before it was handled. After a restart it is the same again, as a worker may outlive the host.
    """
    stem = os.path.basename(connection_file).removesuffix(".json")
    letters = (character for character in stem if character.isalnum() or character in "-_")
    return "".join(letters)[:100] or "kernel"


def profile_directories(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return where the user's own profiles are looked for, before the shipped ones."""
    return (os.path.join(_own_folder(environment), "profiles"),)


def _own_folder(environment: Mapping[str, str]) -> str:
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "sentinel-kernel")


def language(environment: Mapping[str, str]) -> str:
    """Return "zh" or "en": what SENTINEL_LANG says (English where it is neither), else what the locale does."""
    chosen = environment.get("SENTINEL_LANG", "").lower()
    if not chosen:
        chosen = next(
            (environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), ""
        )
    return "zh" if chosen.lower().startswith("zh") else "en"


def worker_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that cells may see: those of the list, and what SENTINEL_PASS_ENVIRONMENT names."""
    passed = set(environment.get("SENTINEL_PASS_ENVIRONMENT", "").replace(",", " ").split())
    return {
        name: value
        for name, value in environment.items()
        if name in _WORKER_VARIABLES or name in passed or name.startswith("LC_")
    }
