"""Which files that a cell wrote may reach the host: by themselves, with a question of their own, or never; pure.

Names are compared without case and without what file systems of other systems ignore: the host's disk may be one.
"""

from __future__ import annotations

import fnmatch
import functools
import re

from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

# --- reasons that can't be answered: such a change is never committed

NO_FILE: Final = "special"
"""A link, a FIFO, a socket, a device."""
UNREADABLE: Final = "unreadable"
TOO_DEEP: Final = "too_deep"
OVER_FOLDER: Final = "over_folder"
"""The host has a folder there, the cell a file."""
OVER_FILE: Final = "over_file"
"""The host has a file there, the cell a folder."""
OVER_SPECIAL: Final = "over_special"
"""The host has a link, FIFO, socket or device there."""
OWN_NAME: Final = "own_name"
"""A name that commits give to their unfinished files."""
REFUSED: Final = frozenset({NO_FILE, UNREADABLE, TOO_DEEP, OVER_FOLDER, OVER_FILE, OVER_SPECIAL, OWN_NAME})

# --- reasons for a question of its own

VERSION_CONTROL: Final = "version_control"
"""It steers what git and its kind run."""
CONFIGURATION: Final = "configuration"
"""A program of the host reads it when it starts: a shell, an editor, Jupyter, pip ..."""
LOADED: Final = "loaded"
"""It lies where the host's Python or Jupyter loads code from."""
EXECUTABLE: Final = "executable"
"""It is a program, or the host's file there is."""
ASKED: Final = frozenset({VERSION_CONTROL, CONFIGURATION, LOADED, EXECUTABLE})

UNFINISHED = (".sentinel-", ".part")
"""How the name of a commit's unfinished file begins and ends."""

_VERSION_CONTROL = frozenset(
    {".git", ".hg", ".svn", ".bzr", ".jj", ".gitmodules", ".gitattributes", ".gitconfig", "hooks"}
)
_CONFIGURATION = frozenset(
    {
        ".envrc", ".env", ".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".github", ".gitlab-ci.yml",
        ".circleci", ".husky", ".pre-commit-config.yaml", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker",
        ".config", ".local", ".jupyter", ".ipython", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout",
        ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc",
        ".tcshrc", ".login", ".logout", ".inputrc", ".xinitrc", ".xsession", ".xprofile", ".pam_environment",
        ".netrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pip", ".condarc", ".mambarc", ".pythonrc",
        ".pdbrc", ".rprofile", ".renviron", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".emacs.d", ".gdbinit",
        ".lldbinit", ".tmux.conf", ".screenrc", ".mailcap", ".forward", ".cargo", ".m2", ".gradle", ".rustup",
        ".gem", ".bundle", ".mcp.json", ".claude", ".claude.json", ".codex", ".cursor", ".cursorrules", ".gemini",
        ".direnv", ".mise.toml", ".tool-versions", ".python-version", ".autoenv", ".vault-token", ".pgpass",
    }
)  # fmt: skip
_CONFIGURATION_FILES = (
    "jupyter*_config.py",
    "jupyter*_config.json",
    "ipython*_config.py",
    "ipython*_config.json",
)
_LOADED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", ".venv", "venv", "node_modules", "__pycache__"}
)
_LOADED_FILES = frozenset({"pyvenv.cfg", "sitecustomize.py", "usercustomize.py"})
_LOADED_ENDINGS = (".pth", ".pyc", ".pyo")

# What a program of the host runs or follows once it is told to work in that folder: held, and committed like any other.
_RUN_ENDINGS = (
    ".py", ".pyw", ".pyx", ".ipynb", ".so", ".dll", ".dylib", ".pyd", ".egg", ".whl", ".sh", ".bash", ".zsh", ".fish",
    ".csh", ".ps1", ".psm1", ".bat", ".cmd", ".com", ".exe", ".msi", ".scr", ".vbs", ".js", ".mjs", ".cjs", ".ts",
    ".jar", ".class", ".rb", ".pl", ".pm", ".php", ".lua", ".jl", ".r", ".desktop", ".service", ".timer", ".plist",
    ".appimage", ".deb", ".rpm", ".code-workspace", ".mk", ".mak", ".cmake", ".gradle", ".lnk", ".url", ".inf", ".reg",
    ".app", ".command", ".workflow", ".scpt", ".hta", ".wsf", ".el", ".vim", ".nix",
)  # fmt: skip
_RUN_NAMES = (
    "makefile", "gnumakefile", "dockerfile*", "containerfile*", "docker-compose*", "compose.y*ml", "package.json",
    "package-lock.json", "pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "pipfile*", "poetry.lock", "uv.lock",
    "pdm.lock", "requirements*", "constraints*.txt", "environment*.y*ml", "conda*.y*ml", "cargo.toml", "build.rs",
    "pom.xml", "vagrantfile", "jenkinsfile", "rakefile", "gemfile*", "procfile", "justfile", "taskfile.y*ml",
    "cmakelists.txt", "build", "build.bazel", "workspace", "meson.build", "snakefile", "dodo.py", "crontab",
    "autorun.inf", "desktop.ini", "agents.md", "claude.md", "gemini.md", "copilot-instructions.md", "overrides.json",
    "page_config.json", "kernel.json", "jupyter*.json", "mypy.ini", "ruff.toml", "tsconfig*.json", "nginx.conf",
    "authorized_keys", "id_rsa*",
)  # fmt: skip


class Surroundings(Record):
    """What of the host a commit has to mind."""

    loaded: tuple[str, ...] = ()
    """Absolute folders that the host's Python, Jupyter or IPython loads code or configuration from."""


def folded(name: str) -> str:
    """Return what a name comes to on file systems that ignore case, ends of dots and spaces, or streams (NTFS)."""
    plain = name if name.isprintable() else "".join(filter(str.isprintable, name))
    plain = plain.partition(":")[0] if name[:1] == "." else plain
    plain = plain.rstrip(". ").casefold()
    return ".git" if plain in ("git~1", "git~2") else plain


def why_asked(folder: str, path: str, surroundings: Surroundings) -> str:
    """Return why ``path`` within the host's ``folder`` needs a question of its own; empty where it needs none."""
    names = [folded(name) for name in path.split("/")]
    last = names[-1]
    if not _VERSION_CONTROL.isdisjoint(names) or any(name.endswith(".git") for name in names):
        return VERSION_CONTROL
    if not _CONFIGURATION.isdisjoint(names) or _fits(last, _CONFIGURATION_FILES):
        return CONFIGURATION
    if not _LOADED_FOLDERS.isdisjoint(names) or last in _LOADED_FILES or last.endswith(_LOADED_ENDINGS):
        return LOADED
    whole = f"{folder.rstrip('/')}/{path}"
    root = folder.rstrip("/") or "/"
    for place in surroundings.loaded:
        # A folder of sys.path that is the layer itself, or above it, holds all of it: then what is loaded is code.
        if whole == place or whole.startswith(place.rstrip("/") + "/"):
            above = root == place or root.startswith(place.rstrip("/") + "/")
            if not above or last.endswith((".py", ".so", ".pth")):
                return LOADED
        elif place.startswith(whole + "/"):
            return LOADED  # a folder around one that is loaded
    return ""


def by_itself(path: str) -> bool:
    """Tell whether a new plain file of this name is of no effect on the host until a person opens it.

    Hidden files are not, nor what a program of the host runs or follows by its name.
    """
    names = [folded(name) for name in path.split("/")]
    if any(name.startswith((".", "~", "-")) or not name for name in names):
        return False
    if not path.isprintable():
        return False
    return not names[-1].endswith(_RUN_ENDINGS) and not _fits(names[-1], _RUN_NAMES)


def is_unfinished(name: str) -> bool:
    """Tell whether a name is that of a commit's unfinished file."""
    return name.startswith(UNFINISHED[0]) and name.endswith(UNFINISHED[1])


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return _joined(patterns).match(name) is not None


@functools.cache
def _joined(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return all patterns as one expression: a list may have a million names."""
    return re.compile("|".join(map(fnmatch.translate, patterns)))
