"""Which files that a cell wrote may reach the host: by themselves, with a question of their own, or never; pure.

Names are compared without case and without what file systems of other systems ignore: the host's disk may be one.
"""

from __future__ import annotations

import fnmatch
import functools
import re

from sentinel_kernel.policy.plan import is_within
from sentinel_kernel.policy.unseen import is_seen
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

MODEL: Final = "model"
"""Loading it runs code that is in it; why a new file waits, no question of its own."""
WAITS: Final = "waits"
"""It is no plain data by its name: a program of the host may run, load or follow it; as above."""

SETTINGS: Final = "settings"
"""It says what a program is to run, load or fetch (policy/launch_keys.py); as above."""

OPTION: Final = "option"
"""A name in its path begins with ``-`` or ``~``: a program takes it for an option, a shell for a home; as above."""

# What is committed by itself: results that programs read as data and run nothing of.
_DATA_ENDINGS = frozenset(
    {
        "csv", "tsv", "txt", "md", "log", "json", "jsonl", "ndjson", "geojson", "parquet", "feather", "arrow", "orc",
        "avro", "npy", "npz", "h5", "hdf5", "nc", "png", "jpg", "jpeg", "gif", "webp", "tif", "tiff", "bmp", "pdf",
        "eps", "wav", "mp3", "flac", "ogg", "mp4", "webm", "xlsx", "ods", "zip", "gz", "xz", "bz2", "zst", "tar",
        "db", "sqlite", "sqlite3", "duckdb", "yaml", "yml",
    }
)  # fmt: skip
_MADE_ANEW = frozenset({"__pycache__", ".ipynb_checkpoints"})
JSON: Final = "json"
YAML: Final = "yaml"
_FORMS = {"json": JSON, "yaml": YAML, "yml": YAML}
SPARSE: Final = "sparse"
"""It says to be far longer than what is stored of it; as above."""
_SPARSE_TIMES, _SPARSE_BYTES = 4, 1 << 30
_MODEL_ENDINGS = frozenset(
    {
        "pkl",
        "pickle",
        "p",
        "joblib",
        "pt",
        "pth",
        "ckpt",
        "dill",
        "cloudpickle",
        "keras",
        "rds",
        "rda",
        "rdata",
        "mat",
    }
)

# Names that programs of the host follow although they end like data.
_FOLLOWED_NAMES = (
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "composer.json", "opencode.json", "crush.json",
    "nodemon.json", "devbox.json", "dub.json", "cspell.json", "rescript.json", "dprint.json",
    "bower.json", "deno.json", "jsr.json", "lerna.json", "nx.json", "turbo.json", "rush.json", "angular.json",
    "nest-cli.json", "vercel.json", "now.json", "netlify.json", "firebase.json", "wrangler.json", "renovate.json",
    "biome.json", "cdk.json", "serverless.json", "samconfig.json", "sfdx-project.json", "app.json", "elm.json",
    "global.json", "project.json", "launch*.json", "tasks.json", "settings.json", "appsettings*.json",
    "extensions.json", "keybindings.json", "manifest.json", "devcontainer*.json", "cmakepresets.json",
    "cmakeuserpresets.json", "vcpkg.json", "conanfile.txt", "conandata.json", "meta.json", "mcp*.json",
    "*config*.json", "*settings.json", "*conf.json", "*rc.json", "cdktf*.json", "esy.json", "*-builder*.json",
    "nightwatch*.json", "cloudbuild*.json", "buildspec*.json", "appspec*.json", "pulumi*.json", "jasmine*.json",
    "mocha*.json", "wdio*.json", "playwright*.json", "stryker*.json", "pm2*.json", "ecosystem.json",
    "cookiecutter*.json", "dagger.json", "nixpacks.json", "skaffold*.json", "plugin*.json", "oclif*.json",
    "haxelib.json", "playbook*.json", "group_vars*", "host_vars*", "mkdocs*", "azure-pipelines*",
    "bitbucket-pipelines*", "appveyor*", "_quarto*",
    "*.tf.json", "*.tfvars.json", "*.pkr.json", "*.nomad.json", "*.workflow.json",
    "docker-compose*", "compose.json", "overrides.json", "page_config.json", "kernel.json", "jupyter*.json",
    "ipython*.json", "tsconfig*", "jsconfig*", "pyrightconfig*", "babel*.json", "cypress.json", "jest*.json",
    "karma*.json", "gulp*.json", "grunt*.json", "lefthook*.json", "lint*.json", "*lint*.json", "policy*.json",
    "credentials*", "client_secret*.json", "auth.json", "*requirements*", "reqs*", "*constraints*", "cmakelists*",
    "runtime.txt", "voila*.json", "jupytext*", "papermill*.json", "entry_points.txt",
    "packages.txt", "apt.txt", "environment*.json", "conda*.json", "crontab*", "authorized_keys*",
    "known_hosts*", "id_rsa*", "agents*.md", "agent*.md", "claude*.md", "gemini*.md", "qwen*.md", "crush*.md",
    "warp*.md", "cursor*.md", "conventions*.md", "copilot*.md", "*instructions*.md", "*instructions*.txt", "skill*.md",
    "rules*.md", "*.prompt.md", "*.chatmode.md", "*.agent.md", "*.mdc.md", "llms*.txt", "memory.md", "soul.md",
    "bootstrap.md", "heartbeat.md",
    "autorun*", "desktop.*", "makefile*", "gnumakefile*", "dockerfile*", "containerfile*", "pipfile*", "gemfile*",
)  # fmt: skip
_FOLLOWED_FOLDERS = frozenset(
    {
        "binder", "conf", "config", "configs", "settings", "hooks", "plugins", "extensions", "group_vars", "host_vars",
        "playbooks", "roles", "tasks", "handlers", "requirements",
    }
)  # fmt: skip


class Surroundings(Record):
    """What of the host a commit has to mind."""

    loaded: tuple[str, ...] = ()
    """Absolute folders that the host's Python, Jupyter or IPython loads code or configuration from."""
    own: tuple[str, ...] = ()
    """Absolute folders that Sentinel itself keeps its profiles, words, caches and files in."""


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
    whole = f"{folder.rstrip('/')}/{path}"
    if not _VERSION_CONTROL.isdisjoint(names) or any(name.endswith(".git") for name in names):
        return VERSION_CONTROL
    is_own = any(is_within(whole, place) or is_within(place, whole) for place in surroundings.own)
    if is_own or not _CONFIGURATION.isdisjoint(names) or _fits(last, _CONFIGURATION_FILES):
        return CONFIGURATION
    if not _LOADED_FOLDERS.isdisjoint(names) or last in _LOADED_FILES or last.endswith(_LOADED_ENDINGS):
        return LOADED
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
    """Tell whether a new plain file of this name is data, of no effect on the host until a person opens it.

    What is no known kind of result is not, nor what is hidden, nor what a program of the host follows by its name.
    """
    names = [folded(name) for name in path.split("/")]
    return (
        _is_plain(path, names)
        and _ending(names[-1]) in _DATA_ENDINGS
        and not any(_is_followed_folder(name) for name in names[:-1])
        and not _fits(names[-1], _FOLLOWED_NAMES)
        # Who takes settings in one of both takes them in the other.
        and not (form_of(path) == YAML and _fits(f"{names[-1].rpartition('.')[0]}.json", _FOLLOWED_NAMES))
    )


def folder_by_itself(path: str) -> bool:
    """Tell the same of a new folder: by its name no program of the host follows it."""
    names = [folded(name) for name in path.split("/")]
    return _is_plain(path, names) and not any(_is_followed_folder(name) for name in names)


def _is_followed_folder(name: str) -> bool:
    """Tell whether a program follows what lies in a folder of this name, as Python does that of packages."""
    return name in _FOLLOWED_FOLDERS or name.endswith((".dist-info", ".egg-info"))


def why_waiting(path: str, size: int, stored: int) -> str:
    """Return why a new plain file that needs no question of its own waits all the same; empty where it does not.

    ``size`` and ``stored`` are bytes: a copy to a disk that keeps no holes takes ``size``.
    """
    if by_itself(path):
        return SPARSE if size > _SPARSE_TIMES * stored + _SPARSE_BYTES else ""
    if looks_like_option(path):
        return OPTION
    return MODEL if _ending(folded(path.rpartition("/")[2])) in _MODEL_ENDINGS else WAITS


def looks_like_option(path: str) -> bool:
    """Tell whether what is given ``path``, as ``tar cf all.tar *`` is, may take it for something else than a file."""
    return any(name.startswith(("-", "~")) for name in map(folded, path.split("/")))


def form_of(path: str) -> str:
    """Return in what form programs of the host could read their settings from a file of this name; empty for none.

    Such a file is data by what is in it alone: of ``JSON`` if it says nothing to run (policy/launch_keys.py), of
    ``YAML`` if it is numbers (policy/plain_yaml.py).
    """
    return _FORMS.get(_ending(folded(path.rpartition("/")[2])), "")


def _is_plain(path: str, names: list[str]) -> bool:
    return is_seen(path) and not any(name.startswith((".", "~", "-")) or not name for name in names)


def _ending(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    return ending if stem else ""


def made_anew(path: str) -> bool:
    """Tell whether a file of this name is made anew wherever it is missing: bytecode, and Jupyter's checkpoints."""
    names = path.split("/")
    return not _MADE_ANEW.isdisjoint(names) or names[-1].endswith((".pyc", ".pyo"))


def is_unfinished(name: str) -> bool:
    """Tell whether a name is that of a commit's unfinished file."""
    return name.startswith(UNFINISHED[0]) and name.endswith(UNFINISHED[1])


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return _joined(patterns).match(name) is not None


@functools.cache
def _joined(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return all patterns as one expression: a list may have a million names."""
    return re.compile("|".join(map(fnmatch.translate, patterns)))
