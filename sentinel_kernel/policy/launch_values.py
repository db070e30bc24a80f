"""Whether a text among settings is followed: a command, an option, a path of code; pure.

Keys such as ``run``, ``main`` or ``steps`` stand in settings and in results alike. What they come to lies in their
values: who follows them needs a program, an option or a file of code, and labels, numbers and sentences are none.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NONE: Final = 0
"""No key that anybody follows."""
LISTED: Final = 1
"""What stands there, or below it, may be a command or part of one."""
STARTED: Final = 2
"""The same, and a bare path is one too."""
PLACED: Final = 3
"""A path: of what a program loads, where it is no data."""

MADE: Final = 4
"""The name of what is made, or called: followed where it is one of a module's."""

_LONGEST: Final = 4096
_MOST_WORDS: Final = 200

_LISTED: Final = frozenset(
    {
        "arg", "args", "argument", "arguments", "argv", "bin", "binary", "clean", "compile", "compiler",
        "deploy", "driver", "editor", "format", "formatter", "formatters", "handler", "handlers", "include",
        "includes", "launch", "launcher", "lint", "linter", "module", "modules", "pager", "phase", "phases",
        "program", "programs", "rule", "rules", "runner", "save", "serve", "server", "setup", "start",
        "startup", "step", "steps", "stop", "task", "tasks", "test", "tests", "uses", "watch",
    }
)  # fmt: skip
_STARTED: Final = frozenset(
    {"app", "apps", "build", "builds", "run", "runs", "main", "runtime", "helper", "helpers"}
)
_HOOKED: Final = frozenset({"before", "after"})
_PLACED: Final = frozenset({"path", "paths"})
_MADE: Final = frozenset({"type", "class", "cls", "factory", "callable", "target"})
_OF_DATA: Final = frozenset(
    {
        "abs", "absolute", "annotation", "annotations", "artifact", "artifacts", "audio", "base", "cache",
        "checkpoint", "checkpoints", "ckpt", "csv", "data", "database", "dataset", "datasets", "db", "dest",
        "destination", "dir", "directory", "document", "download", "embedding", "embeddings", "eval",
        "experiment", "feature", "features", "fig", "figure", "file", "files", "folder", "font", "full", "gt",
        "image", "images", "img", "index", "input", "inputs", "json", "label", "labels", "local", "log",
        "logs", "mask", "masks", "media", "metrics", "model", "models", "name", "out", "output", "outputs",
        "parent", "pdf", "photo", "pic", "picture", "plot", "prediction", "predictions", "pretrained", "raw",
        "rel", "relative", "remote", "report", "result", "results", "root", "sample", "samples", "save",
        "saved", "source", "split", "table", "target", "test", "text", "tokenizer", "train", "url", "val",
        "valid", "validation", "video", "videos", "vocab", "wav", "weight", "weights", "work", "workspace",
    }
)  # fmt: skip

_CODE: Final = frozenset(
    {
        "js", "cjs", "mjs", "ts", "cts", "mts", "tsx", "jsx", "sh", "bash", "zsh", "fish", "bat", "cmd", "ps1", "psm1",
        "vbs", "exe", "dll", "so", "dylib", "jar", "war", "class", "wasm", "node", "rb", "pl", "pm", "php", "lua",
        "tcl", "groovy", "gradle", "kts", "scala", "clj", "ex", "exs", "erl", "nim", "go", "rs", "ml", "hs", "mk",
        "cmake", "ninja", "desktop", "service",
    }
)  # fmt: skip
_MAKERS: Final = frozenset({"py", "pyw", "ipynb", "r", "jl", "m", "do", "sas"})
"""Of code that is named in results as what made them."""

CODE_AT: Final = re.compile(
    rf"\\|\.(?:{'|'.join(sorted(_CODE | _MAKERS))})[\"'](?!\s*+:)".encode("ascii"), re.IGNORECASE
)
"""What a text in lower case has where one of its values may name code."""

_OF_MODULE: Final = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)+")
MADE_AT: Final = re.compile(
    rb"(?:type|class|cls|factory|callable|target|name)_?[\"']?\s*+:\s*+[\"']?[a-z_]\w*+[.:][a-z_]"
)
"""The like: a key for what is made, or called, whose value may be a module's."""

_SHELL: Final = re.compile(r"&&|\|\||`|\$[A-Za-z_({]|\s\|\s|<\(|;\s*\w+\s+[-/.~]")
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*(?:=.*)?", re.DOTALL)
_VERSION: Final = re.compile(r"(?<![\d.-])[\d.-]+(?:x|\.exe)?$")
_DATA_PATH: Final = re.compile(
    r"[^\n]*\.(?:csv|tsv|txt|md|log|jsonl?|ndjson|geojson|parquet|feather|arrow|orc|avro|np[yz]|h5|hdf5|nc|zarr|"
    r"png|jpe?g|gif|webp|tiff?|bmp|svg|pdf|eps|wav|mp3|flac|ogg|mp4|webm|avi|mov|mkv|xlsx?|ods|docx?|pptx?|html?|"
    r"xml|ya?ml|zip|gz|xz|bz2|zst|tar|7z|db|sqlite3?|duckdb|pkl|pickle|joblib|pth?|ckpt|onnx|safetensors|bin|gguf|"
    r"keras|tflite|shp|dcm|nii|fasta?|fastq|bam|vcf|pdb|las|laz|ply|obj|stl|mat|rds|rda(?:ta)?|dta|sav|msgpack|"
    r"ttf|otf|woff2?|tex|bib|srt|vtt)",
    re.IGNORECASE,
)
DATA_PATH_AT: Final = re.compile(
    rb"paths?[\"']?\s*+:\s*+(?!\"[^\"\n]{0,300}\.(?:csv|tsv|txt|jsonl?|parquet|npy|npz|png|jpe?g|tiff?|webp|wav|mp[34]|"
    rb"pth?|pkl|pdf)\")"
)
"""The like for a part of a text in lower case: a key for paths whose value is not seen to be data."""

_PROGRAMS: Final = frozenset(
    {
        "ansible", "ansible-playbook", "ant", "apt", "apt-get", "awk", "bash", "bazel", "brew", "bun",
        "bundle", "busybox", "bunx", "cabal", "cargo", "chmod", "chown", "clang", "cmake", "cmd", "composer",
        "conda", "cp", "cscript", "csh", "curl", "dash", "deno", "docker", "docker-compose", "dotnet",
        "dune", "electron", "elixir", "erl", "esbuild", "esy", "eval", "gcc",
        "gem", "ghc", "git", "gmake", "gradle", "gradlew", "gulp", "gunicorn", "helm", "hg", "java", "javac",
        "jest", "julia", "jupyter", "kotlin", "ksh", "kubectl", "ln", "lua", "luajit", "make", "mamba",
        "meson", "mkdir", "mocha", "mshta", "mv", "mvn", "mvnw", "ncat", "nim", "ninja", "nix",
        "node", "nodejs", "nodemon", "nohup", "npm", "npx", "opam", "osascript", "perl", "php", "pip", "pipx",
        "pm2", "pnpm", "podman", "poetry", "powershell", "printf", "pulumi", "pwsh", "pytest", "python",
        "rake", "rm", "rollup", "rscript", "rsync", "ruby", "rundll32", "rustc", "sbt", "scala", "scp", "sed",
        "setsid", "sh", "socat", "ssh", "sudo", "swift", "tee", "terraform", "touch", "ts-node",
        "tsc", "tsx", "uv", "uvicorn", "uvx", "vite", "webpack", "wget", "wscript", "xargs", "xdg-open",
        "yarn", "zsh",
    }
)  # fmt: skip


def tier_of(words: list[str]) -> int:
    """Return what is known of a key by its words (in lower case): one of the constants above."""
    if not words:
        return NONE
    if words[-1] in _MADE or words[-2:] == ["class", "name"]:
        return MADE
    if words[-1] in _PLACED:
        return NONE if len(words) == 1 or not _OF_DATA.isdisjoint(words[:-1]) else PLACED
    if not _STARTED.isdisjoint(words) or (len(words) > 1 and words[0] in _HOOKED):
        return STARTED
    return NONE if _LISTED.isdisjoint(words) else LISTED


def is_followed(text: str, tier: int) -> bool:
    """Tell whether a text that stands under such a key is followed; of ``NONE``, whether it names code to be loaded."""
    if tier == NONE:
        return _names_code(text)
    if tier == MADE:
        return _OF_MODULE.fullmatch(text) is not None and _DATA_PATH.fullmatch(text) is None
    if tier == PLACED:
        return _ending(text) in _CODE or (_is_path(text) and _DATA_PATH.fullmatch(text) is None)
    return _is_started(text[:_LONGEST], bare=tier == STARTED)


def _is_started(text: str, *, bare: bool) -> bool:
    """Tell whether a text is a command or a part of one; ``bare``: also by its first word's being a path."""
    words = text.split(None, _MOST_WORDS)
    if not words:
        return False
    first = words[0].replace("\\", "/")
    if _VERSION.sub("", first.rpartition("/")[2]) in _PROGRAMS or _SHELL.search(text) is not None:
        return True
    if any(_OPTION.fullmatch(word) or _ending(word.strip("\"'(),:;")) in _CODE | _MAKERS for word in words):
        return True
    placed = first.startswith(("./", "../")) or (bare and "://" not in first and _is_path(first))
    return placed and _DATA_PATH.fullmatch(first) is None


def _names_code(text: str) -> bool:
    """Tell whether all of a text is the path of code, as those write it who load it."""
    ending = _ending(text)
    if not ending or len(text) > _LONGEST or "://" in text or not text.isprintable() or " " in text:
        return False
    if ending in _MAKERS:
        return text.startswith(("./", "../")) or "*" in text
    return ending in _CODE and not {"/", "*", "\\"}.isdisjoint(text)


def _ending(text: str) -> str:
    stem, _, ending = text.rpartition(".")
    return ending.lower() if stem and stem[-1] not in "/ " else ""


def _is_path(text: str) -> bool:
    """Tell whether a text is a path: no fraction, and no date."""
    top, slash, rest = text.partition("/")
    placed = slash and rest and " " not in text and text.lower() != "n/a"
    return bool(placed) and (top in ("", ".", "..", "~") or not top.isdecimal())
